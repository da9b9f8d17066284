"""Arrays of the 2022 draft <-> `zarr.json` documents of the ratified v3. Pure.

A draft shard is byte for byte a shard of `sharding_indexed` whose index codecs are `[bytes]`, little-endian,
at the end (`grid.shard_index`), so chunk bytes are the same on both sides. The draft has no dimension names:
they are stored where xarray stored them before Zarr v3, in the attribute `_ARRAY_DIMENSIONS`
(https://docs.xarray.dev/en/stable/internals/zarr-encoding-spec.html).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from ..chain.chain import Chain
from ..chain.codec_spec import CodecSpec, with_configurations
from ..chain.readers import within_limits
from ..chain.unchanged_bytes import keep_problems
from ..data_types.v3 import DataType, fill_from_json, fill_to_json
from ..errors import KINDS, MetadataError, Problem, UnsupportedError, ZarrstackError
from ..grid.chunk_keys_v3 import KeyEncoding
from ..grid.frames import Shards
from ..grid.shard_index import IndexFormat
from ..json_text import JSON, JSONObject, canonical, excerpt
from ..shapes import Shape, read_lengths, whole_chunks
from .array import DraftArray, ReadFiltered, describe_array, hidden_filters, write_array
from .nodes import Dialect

DIMENSIONS: Final = "_ARRAY_DIMENSIONS"
"""The attribute with an array's dimension names."""

_MEMBERS: Final = frozenset(
    {
        *("zarr_format", "node_type", "shape", "data_type", "chunk_grid", "chunk_key_encoding", "codecs"),
        *("fill_value", "dimension_names", "attributes", "storage_transformers"),
    }
)
_SHARD_MEMBERS: Final = frozenset({"chunk_shape", "codecs", "index_codecs", "index_location"})


def refusal(problems: tuple[Problem, ...]) -> ZarrstackError:
    """Combine all refusals of a document into one error."""
    first, *others = (problem for problem in problems if problem.severity == "refusal")
    message = "; and ".join([first.message, *(str(other.at()) for other in others)])
    error = KINDS[first.kind](message)
    error.problem = replace(first, message=message)
    return error


# ----- from the draft to v3


def to_ratified(array: DraftArray) -> JSONObject:
    """The `zarr.json` of a draft array, for zarr-python 3.

    UnsupportedError for arrays that zarr-python 3 cannot read unchanged through any document of v3: objects,
    structs whose fields are not all little-endian, some filters (`chain.unchanged_bytes`).
    """
    specs = tuple(within_limits(spec) for spec in array.chain.codecs)
    advice = "zarrlift migrates such arrays, and shows them through zarrlift.open."
    problems = tuple(keep_problems(Chain(specs), array.data_type, advice))
    if problems:
        raise refusal(problems)
    chain, grid = Chain(specs), array.chunk_shape
    if (counts := array.chunks_per_shard) is not None:
        chain = Shards(counts, IndexFormat.DRAFT).chain(array.chunk_shape, chain)
        grid = tuple(count * length for count, length in zip(counts, array.chunk_shape, strict=True))
    document: JSONObject = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(array.shape),
        "data_type": array.data_type.to_json(),
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(grid)}},
        "chunk_key_encoding": KeyEncoding("default", array.separator).to_json(),
        "codecs": with_configurations(chain.to_json()),
        "fill_value": array.fill_value,
    }
    attributes = dict(array.attributes)
    if _names_dimensions(attributes.get(DIMENSIONS), len(array.shape)):
        names = attributes.pop(DIMENSIONS)
        if names:
            document["dimension_names"] = names
    return document | {"attributes": attributes}


def _names_dimensions(names: JSON, ndim: int) -> bool:
    if not isinstance(names, list) or len(names) != ndim:
        return False
    return all(isinstance(name, str | None) for name in names)


# ----- from v3 to the draft


def from_ratified(document: Mapping[str, JSON]) -> DraftArray:
    """The array of a `zarr.json`. UnsupportedError if the draft cannot express it in any dialect."""
    if unknown := sorted(document.keys() - _MEMBERS):
        raise UnsupportedError("the 2022 draft does not have these members", found=excerpt(unknown))
    if document.get("storage_transformers"):
        raise UnsupportedError(
            "the 2022 draft does not have storage transformers of v3",
            found=excerpt(document["storage_transformers"]),
        )
    missing = sorted({"shape", "data_type", "chunk_grid", "codecs", "fill_value"} - document.keys())
    if missing:
        raise MetadataError("members of an array are missing", found=excerpt(missing))
    shape = read_lengths(document["shape"], "shape")
    encoding = KeyEncoding.from_json(document.get("chunk_key_encoding", "default"))
    if encoding.name != "default":
        raise UnsupportedError(
            "an archive of the draft is shown with default chunk keys",
            found=excerpt(encoding.to_json()),
            expected=excerpt(KeyEncoding("default", encoding.separator).to_json()),
        )
    chunk_shape, counts, chain = _inner_chunks(Chain.from_json(document["codecs"]), _grid(document, shape))
    data_type = DataType.from_json(document["data_type"]).known
    return DraftArray(
        shape=shape,
        chunk_shape=chunk_shape,
        data_type=data_type,
        fill_value=fill_to_json(fill_from_json(document["fill_value"], data_type), data_type),
        chain=chain,
        separator=encoding.separator,
        chunks_per_shard=counts,
        attributes=_attributes(document, len(shape)),
    )


def _grid(document: Mapping[str, JSON], shape: Shape) -> Shape:
    match document["chunk_grid"]:
        case {"name": "regular", "configuration": {"chunk_shape": lengths}}:
            return whole_chunks(read_lengths(lengths, "chunk_shape"), shape, "chunk_shape")
    raise UnsupportedError(
        "the 2022 draft has only regular chunk grids", found=excerpt(document["chunk_grid"])
    )


def _inner_chunks(chain: Chain, grid: Shape) -> tuple[Shape, Shape | None, Chain]:
    """Chunk shape, chunks per shard and chain of the inner chunks."""
    packing = chain.codecs[chain.middle]
    if packing.name != "sharding_indexed":
        return grid, None, chain
    configuration = packing.configuration
    if len(chain.codecs) > 1 or configuration.keys() - _SHARD_MEMBERS:
        raise UnsupportedError("the 2022 draft has no codecs outside its shards", found=str(chain))
    index = IndexFormat.from_json(configuration)
    if index != IndexFormat.DRAFT:
        raise UnsupportedError(
            "the 2022 draft has only one kind of shard index",
            found=str(index),
            expected=str(IndexFormat.DRAFT),
            advice='Create the array with "index_codecs": [{"name": "bytes", '
            '"configuration": {"endian": "little"}}] and "index_location": "end".',
        )
    inner_chunk = read_lengths(configuration.get("chunk_shape"), "chunk_shape", least=1)
    if len(inner_chunk) != len(grid) or any(
        whole % part for whole, part in zip(grid, inner_chunk, strict=True)
    ):
        raise MetadataError("shards must hold whole chunks", found=f"{list(inner_chunk)} in {list(grid)}")
    inner = Chain.from_json(configuration.get("codecs"))  # type: ignore[arg-type]  # it rejects None
    if inner.codecs[inner.middle].name == "sharding_indexed":
        raise UnsupportedError("the 2022 draft has no nested shards", found=str(chain))
    return inner_chunk, tuple(whole // part for whole, part in zip(grid, inner_chunk, strict=True)), inner


def _attributes(document: Mapping[str, JSON], ndim: int) -> JSONObject:
    attributes = document.get("attributes")
    attributes = {} if attributes is None else attributes
    if not isinstance(attributes, dict):
        raise MetadataError("attributes must be an object", found=excerpt(attributes), expected="{...}")
    names = document.get("dimension_names")
    if names is None:
        return attributes
    if not _names_dimensions(names, ndim):
        raise MetadataError("dimension_names must name each dimension", found=excerpt(names))
    if DIMENSIONS in attributes:
        raise UnsupportedError(
            f"an archive of the draft keeps dimension names in the attribute {DIMENSIONS}, which is taken",
            found=excerpt(attributes[DIMENSIONS]),
        )
    return {**attributes, DIMENSIONS: names} if names else attributes


# ----- documents of the draft


def draft_document(
    array: DraftArray,
    dialect: Dialect,
    old: Mapping[str, JSON] | None = None,
    *,
    allow_fallback: bool = False,
    read_filtered: ReadFiltered | None = None,
) -> JSONObject:
    """The document of an array, which replaces an `old` one if there is one.

    If only shape and attributes differ, everything else is kept from the old document: filters, extensions, a
    null fill value, another spelling of the data type. UnsupportedError if the dialect cannot express the
    array, or would be read as something else.
    """

    def read(document: Mapping[str, JSON]) -> DraftArray | None:
        return describe_array(document, dialect, allow_fallback=allow_fallback, read_filtered=read_filtered)[
            0
        ]

    before = None if old is None else read(old)
    hidden: JSONObject = {}
    if before is not None and old is not None and _form(before) == _form(array):
        if "filters" not in before.attributes and "filters" in old["attributes"]:
            hidden = {"filters": old["attributes"]["filters"]}
        # Along an empty axis the chunk length may be 0, which a longer axis cannot have.
        grid = {**old["chunk_grid"], "chunk_shape": list(array.chunk_shape)}
        document = {**old, "shape": list(array.shape), "chunk_grid": grid}
    else:
        document = write_array(array, dialect)
    if dialect.name == "zarr-python" and (
        hidden_filters(array.attributes) or hidden.keys() & array.attributes
    ):
        raise UnsupportedError(
            "zarr-python's draft dialect keeps its filters in the attribute 'filters'",
            found=excerpt(array.attributes["filters"]),
            advice="Give the attribute another name.",
        )
    document["attributes"] = {**hidden, **array.attributes}
    after = read(document)
    if after is None or (_form(after), _open(after)) != (_form(array), _open(array)):
        raise UnsupportedError("the 2022 draft would describe another array", found=excerpt(document))
    return document


def _form(array: DraftArray) -> str:
    """A text of an array without shape and attributes; equal for equal bytes and values."""
    single = array.data_type.itemsize == 1 or array.data_type.name in ("null_terminated_bytes", "raw_bytes")
    specs = []
    for spec in array.chain.codecs:
        configuration = dict(spec.configuration)
        if spec.name == "blosc":
            configuration.pop("typesize", None)  # an encoder setting, not part of the draft
        if spec.name == "bytes" and single:
            configuration.pop("endian", None)
        elif spec.name == "bytes":
            # zarr-python 3.1.6 omits it for structs, meaning little.
            configuration.setdefault("endian", "little")
        specs.append(within_limits(CodecSpec(spec.name, configuration)).to_json())
    counts = array.chunks_per_shard
    fill = array.fill_value
    # zarr-python 3 has one NaN, whatever its bits in the document.
    if array.data_type.name.startswith("complex"):
        fill = [_one_nan(part) for part in fill]
    elif array.data_type.name.startswith("float"):
        fill = _one_nan(fill)
    parts = [array.chunk_shape, array.data_type.to_json(), fill, specs, array.separator, counts]
    return canonical(parts)


def _one_nan(fill: JSON) -> JSON:
    return "NaN" if isinstance(fill, str) and fill.startswith("0x") else fill


def _open(array: DraftArray) -> str:
    return canonical([array.shape, array.attributes])
