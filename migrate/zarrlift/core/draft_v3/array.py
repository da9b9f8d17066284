"""Array documents of the 2022 draft -> arrays in v3 terms, for both dialects. Pure.

Source: section "Array metadata" of the text (nodes.py names it); zarr-python 2.18.7 as observed. The dialects
differ in `codecs` against `compressor`, in names of data types, in filters, which zarr-python stores in
`attributes.filters`, and in a `dimension_separator` that it writes beside `chunk_grid`. A document may use
either dialect's members, but not both for the same purpose.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np

from zarrstack.core.chunk_keys_v3 import Separator
from zarrstack.core.errors import MetadataError, Problem, UnsupportedError, ZarrstackError
from zarrstack.core.json_text import JSON, JSONObject, excerpt

from ..chain.chain import Chain
from ..codec_spec import CodecSpec
from ..data_types.v3 import DataType
from ..grid.chunk_keys_draft import DraftKeys
from ..problems import any_refusal, refusal
from ..shapes import Shape, read_lengths, whole_chunks
from ..zarr_v2.chain import packing
from .codecs import read_codec, read_layout, read_shards
from .data_types import DraftType, read_fill, read_type
from .nodes import Dialect, read_attributes, read_extensions, require_known

MEMBERS: Final = (
    *("shape", "data_type", "chunk_grid", "chunk_memory_layout", "fill_value", "extensions", "attributes"),
    *("codecs", "compressor", "storage_transformers", "dimension_separator"),
)
_NEEDED: Final = ("shape", "data_type", "chunk_grid", "chunk_memory_layout", "fill_value")

_GRID_MEMBERS: Final = {"type", "chunk_shape", "separator"}

ReadFiltered: TypeAlias = Callable[[JSONObject, np.dtype[Any]], tuple[Chain, DataType, list[ZarrstackError]]]
"""Chain and data type of the Zarr v2 members `order`, `filters`, `compressor`, `dtype`, `shape`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftArray:
    """An array in v3 terms."""

    shape: Shape
    chunk_shape: Shape
    data_type: DataType
    fill_value: JSON
    """In v3's JSON form."""
    fill_is_null: bool = False
    """Whether it was null: the value of missing chunks is undefined."""
    chain: Chain
    separator: Separator = "/"
    chunks_per_shard: Shape | None = None
    """Chunks along each axis of a shard (the index is `IndexFormat.DRAFT`); None: not sharded."""
    attributes: Mapping[str, JSON] = field(default_factory=dict)
    extensions: tuple[JSONObject, ...] = ()
    """Extensions that may be ignored."""

    def keys(self, dialect: Dialect) -> DraftKeys:
        """The chunk key encoding of its chunks, or of its shards."""
        return DraftKeys(self.separator, dialect.scalar_key)


def describe_array(
    document: Mapping[str, JSON],
    dialect: Dialect,
    *,
    allow_fallback: bool = False,
    read_filtered: ReadFiltered | None = None,
) -> tuple[DraftArray | None, tuple[Problem, ...]]:
    """Return the array, or None if a problem refuses it; and all problems, including harmless ones.

    The dialect decides only whether `attributes.filters` are codecs, where zarr-python stores them, or the
    user's own. `read_filtered` reads arrays with such filters, and arrays of objects; without it they are
    refused. Nothing is raised, whatever the document contains.
    """
    reader = _Reader(document, dialect, allow_fallback=allow_fallback, read_filtered=read_filtered)
    array = reader.read()
    return array, tuple(reader.problems)


class _Reader:
    """Parser of one document; collects problems, to report all of them at once."""

    def __init__(
        self,
        document: Mapping[str, JSON],
        dialect: Dialect,
        *,
        allow_fallback: bool,
        read_filtered: ReadFiltered | None,
    ) -> None:
        self.document = document
        self.dialect = dialect
        self.allow_fallback = allow_fallback
        self.read_filtered = read_filtered
        self.problems: list[Problem] = []

    def read(self) -> DraftArray | None:
        """The array, unless a problem refuses it."""
        document = self.document
        self._try(lambda: require_known(document, MEMBERS, "an array"))
        for name in _NEEDED:
            if name not in document:
                self.problems.append(refusal("metadata", f"{name} is missing"))
        attributes = self._try(lambda: read_attributes(document)) or {}
        extensions = self._try(self._extensions) or ()
        shape = self._try(lambda: read_lengths(document["shape"], "shape")) if "shape" in document else None
        grid = self._try(lambda: self._grid(shape)) if "chunk_grid" in document else None
        kind = self._try(self._type) if "data_type" in document else None
        if self._refused() or shape is None or grid is None or kind is None:
            return None
        chunk_shape, separator = grid
        filters = [] if self.dialect.name == "text" else _hidden_filters(attributes)
        packed = self._try(lambda: self._chain(shape, kind, filters))
        if packed is None:
            return None
        chain, data_type = packed
        fill = self._try(lambda: read_fill(document["fill_value"], kind, data_type))
        shards = self._try(lambda: read_shards(document.get("storage_transformers", []), len(shape)))
        if self._refused() or fill is None:
            return None
        return DraftArray(
            shape=shape,
            chunk_shape=chunk_shape,
            data_type=data_type,
            fill_value=fill[0],
            fill_is_null=fill[1],
            chain=chain,
            separator=separator,
            chunks_per_shard=shards,
            attributes={
                name: value for name, value in attributes.items() if not (filters and name == "filters")
            },
            extensions=extensions,
        )

    def _refused(self) -> bool:
        return any_refusal(self.problems)

    def _try(self, step: Callable[[], Any]) -> Any:
        try:
            return step()
        except ZarrstackError as error:
            self.problems.append(error.problem)
            return None

    def _extensions(self) -> tuple[JSONObject, ...]:
        extensions, notes = read_extensions(self.document.get("extensions", []))
        self.problems.extend(notes)
        return extensions

    def _grid(self, shape: Shape | None) -> tuple[Shape, Separator]:
        grid = self.document["chunk_grid"]
        if isinstance(grid, dict) and ("extension" in grid or grid.get("type") != "regular"):
            raise UnsupportedError("unknown chunk grid", found=excerpt(grid), expected="regular")
        if not isinstance(grid, dict) or not {"chunk_shape"} <= grid.keys() <= _GRID_MEMBERS:
            raise MetadataError(
                "malformed chunk_grid",
                found=excerpt(grid),
                expected='{"type": "regular", "chunk_shape": [...], "separator": "/"}',
            )
        separator = grid.get("separator", "/")
        if separator not in (".", "/") or self.document.get("dimension_separator", separator) != separator:
            raise MetadataError(
                "the separator of chunk keys is not clear",
                found=excerpt(
                    {"chunk_grid": grid, "dimension_separator": self.document.get("dimension_separator")}
                ),
                expected='"/" or "."',
            )
        chunks = read_lengths(grid["chunk_shape"], "chunk_shape")
        return chunks if shape is None else whole_chunks(chunks, shape, "chunk_shape"), separator

    def _type(self) -> DraftType:
        kind, notes = read_type(self.document["data_type"], allow_fallback=self.allow_fallback)
        self.problems.extend(notes)
        return kind

    def _chain(self, shape: Shape, kind: DraftType, filters: list[JSONObject]) -> tuple[Chain, DataType]:
        codecs = self._codecs(kind)
        order = self.document["chunk_memory_layout"]
        front = read_layout(order, len(shape))
        if not filters and not kind.dtype.hasobject:
            return Chain((*front, *_packed(kind, codecs))), DataType.from_numpy(kind.dtype)
        if self.read_filtered is None or "codecs" in self.document:
            raise UnsupportedError(
                "an array with filters, or of objects, is not supported here", found=excerpt(filters)
            )
        v2 = {
            "order": order,
            "filters": filters,
            "compressor": self._numcodec(),
            "dtype": kind.identifier,
            "shape": list(shape),
        }
        chain, data_type, errors = self.read_filtered(v2, kind.dtype)
        self.problems.extend(error.problem for error in errors)
        return chain, data_type

    def _codecs(self, kind: DraftType) -> list[CodecSpec]:
        codecs, compressor = self.document.get("codecs"), self.document.get("compressor")
        itemsize = kind.dtype.itemsize
        if codecs is not None and compressor is not None:
            raise MetadataError(
                "an array has both codecs and a compressor", found=excerpt([codecs, compressor])
            )
        if compressor is not None:
            return [read_codec(compressor, member="codec", itemsize=itemsize)]
        if codecs is None:
            return []
        if not isinstance(codecs, list):
            raise MetadataError("codecs must be a list", found=excerpt(codecs), expected="[...]")
        return [read_codec(item, member="type", itemsize=itemsize) for item in codecs]

    def _numcodec(self) -> JSONObject | None:
        """The `compressor` in numcodecs' form; `read_codec` has validated it."""
        compressor = self.document.get("compressor")
        if compressor is None:
            return None
        name = compressor["codec"].split("/codec/")[-1].split("/codecs/")[-1].split("/")[0]
        return {"id": name, **compressor.get("configuration", {})}


def _hidden_filters(attributes: Mapping[str, JSON]) -> list[JSONObject]:
    """The numcodecs filters that zarr-python 2 stores in the attributes; [] if there are none.

    Anything but a list of codecs is the user's attribute of that name.
    """
    filters = attributes.get("filters")
    if not isinstance(filters, list):
        return []
    if not all(isinstance(item, dict) and isinstance(item.get("id"), str) for item in filters):
        return []
    return filters


def _packed(kind: DraftType, codecs: list[CodecSpec]) -> list[CodecSpec]:
    """The array-to-bytes codec and the codecs after it."""
    stated = [index for index, spec in enumerate(codecs) if spec.name == "bytes"]
    if stated and stated != [0]:
        raise UnsupportedError(
            "the endian codec must come first", found=" > ".join(spec.name for spec in codecs)
        )
    head = packing(kind.identifier, kind.dtype)
    if not stated:
        return [head, *codecs]
    configuration = codecs[0].configuration
    if configuration.keys() != {"endian"} or configuration["endian"] not in ("little", "big"):
        raise MetadataError("malformed endian codec", found=excerpt(configuration), expected="little or big")
    single = "endian" not in head.configuration
    if kind.ordered and (head.name == "numpy_bytes" or (not single and configuration != head.configuration)):
        raise MetadataError(
            "data_type and the endian codec state different byte orders",
            found=f"{excerpt(kind.identifier)} and {configuration['endian']}",
        )
    return [head if single else CodecSpec("bytes", configuration), *codecs[1:]]
