"""Checks that zarr-python reads an array's new `zarr.json` as its planned layout."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from zarrstack.core.errors import Problem, ZarrstackError
from zarrstack.core.json_text import JSON, JSONObject, canonical
from zarrstack.core.paths import join

from ..archive.nodes import Layout
from ..core.chain.chain import Chain
from ..core.codec_spec import CodecSpec
from ..core.data_types.compare import Values, kind, mismatch
from ..core.data_types.v3 import DataType, fill_from_json
from ..core.identity_cache import IdentityCache, MemberIdentityCache
from ..core.problems import refusal
from ..planning.zarr_json import stored_chain
from .zarr_python_reader import chunk_shape, data_type_name, native, parse, with_known_filters, words

if TYPE_CHECKING:
    from zarrstack.system.zarr_internals import ArrayV3Metadata

    from ..planning.plans import ArrayPlan

VARIABLE: Final = {
    "string": "string",
    "bytes": "bytes",
    "variable_length_bytes": "bytes",
    "object": "object",
}
"""Names of variable-length data types -> kind of their values."""
Difference: TypeAlias = tuple[str, str, str]
"""(what differs, found, expected)."""
_PER_ARRAY: Final = frozenset({"shape", "attributes"})
"""Members of a document that do not affect how zarr-python reads the others."""
_KEPT: Final = 4096
_differences: Final[dict[tuple[str, str, int], list[Difference]]] = {}
"""Those of documents and layouts that are equal but for shape and attributes: without them, 2,000 arrays in
place take 1.35 times the processor time (docs/design/0024).
"""


def document_problems(plan: ArrayPlan) -> tuple[Problem, ...]:
    """Differences between `plan.destination` and `plan.document` as read by zarr-python; empty if none.

    Compares shape, chunk shape, data type, fill value (its bits), dimension names, chunk key encoding and
    codecs. Documents that differ only in shape and attributes share one comparison of the rest.
    """
    document, layout = plan.document, plan.destination
    differences = _shape(document, layout)
    try:
        head = {name: member for name, member in document.items() if name not in _PER_ARRAY}
        alike = _head(head), _text(layout), len(layout.shape)
        found = _differences.get(alike)
        if found is None:
            if len(_differences) >= _KEPT:
                _differences.clear()
            found = _differences[alike] = head_differences(document, layout)
        differences += found
    except ZarrstackError as error:
        return (error.at(node=plan.path, key=join(plan.path, "zarr.json")).problem,)
    return tuple(
        refusal(
            "verify-document",
            f"the {what} in zarr.json differs from the plan",
            node=plan.path,
            key=join(plan.path, "zarr.json"),
            found=mine,
            expected=theirs,
        )
        for what, mine, theirs in differences
    )


_head: Final = MemberIdentityCache(canonical)


@IdentityCache
def _text(layout: Layout) -> str:
    """A text that identifies a layout except for its shape; cheaper than canonical JSON of every part."""
    return repr(
        (
            layout.data_type,
            layout.fill_value,
            layout.chunk_shape,
            layout.chain,
            layout.keys,
            layout.frame,
            layout.dimension_names,
        )
    )


def _shape(document: JSONObject, layout: Layout) -> list[Difference]:
    shape = document.get("shape")
    if shape is None or list(shape) != list(layout.shape):
        return [("shape", str(shape), str(list(layout.shape)))]
    return []


def head_differences(document: JSONObject, layout: Layout) -> list[Difference]:
    """Differences between a document as read by zarr-python and a layout, except shape and attributes.

    Raises MetadataError if zarr-python cannot read the document.
    """
    metadata = parse(document)
    differences: list[Difference] = []

    def compare(what: str, mine: object, theirs: object) -> None:
        if mine != theirs:
            differences.append((what, str(mine), str(theirs)))

    compare("chunk shape", chunk_shape(metadata), layout.object_shape)
    compare("codec chain", _decoding(Chain.from_json(document["codecs"])), _decoding(stored_chain(layout)))
    stored = [codec["name"] for codec in with_known_filters(document)["codecs"]]
    compare("order of codecs", [str(codec.to_dict()["name"]) for codec in metadata.codecs], stored)
    compare("dimension names", named(metadata.dimension_names), named(layout.dimension_names))
    encoding = metadata.chunk_key_encoding.to_dict()
    compare("chunk key encoding", canonical(encoding), canonical(layout.keys.to_json()))
    # zarr-python refuses these when it opens the array (3.1.6, 3.4.2), not when it parses the document.
    compare("list of storage transformers", list(document.get("storage_transformers", ())), [])
    if differs := type_difference(metadata, layout.data_type):
        differences.append(("data type", *differs))
    elif differs := fill_difference(metadata, layout.data_type, layout.fill_value):
        differences.append(("fill value", *differs))
    return differences


def _decoding(chain: Chain) -> str:
    """The properties of a codec chain that determine decoding: names, byte order and axes.

    Levels do not; a document may state others if readers would not accept the stored ones. Other relevant
    properties (an element size, for example) are covered by the chunk comparison.
    """
    return " > ".join(map(_decoding_of, chain.codecs))


def _decoding_of(codec: CodecSpec) -> str:
    configuration = codec.configuration
    if codec.name != "sharding_indexed":
        return canonical([codec.name, configuration.get("endian"), configuration.get("order")])
    index = {name: configuration.get(name) for name in ("index_codecs", "index_location")}
    inner = _decoding(Chain.from_json(configuration["codecs"]))
    return canonical([codec.name, list(configuration["chunk_shape"]), inner, index])


def named(names: Any) -> tuple[str | None, ...] | None:
    """Normalized dimension names: absent names and only nulls are equal."""
    return None if names is None or all(name is None for name in names) else tuple(names)


def type_difference(metadata: ArrayV3Metadata, data_type: DataType) -> tuple[str, str] | None:
    """(found, expected) if zarr-python reads values of another type; different names alone do not count."""
    name, variable = data_type_name(metadata), VARIABLE.get(data_type.name)
    if variable is not None or name in VARIABLE:
        found = VARIABLE.get(name, name)
        if variable in {"object", found}:
            return None
        return found, variable or data_type.name
    found, expected = kind(native(metadata)), kind(data_type.numpy)
    return None if found == expected else (found, expected)


def fill_difference(
    metadata: ArrayV3Metadata, data_type: DataType, fill_value: JSON
) -> tuple[str, str] | None:
    """(found, expected) if zarr-python reads another fill value, compared bit by bit."""
    try:
        expected = fill_of(data_type, fill_value)
        found = scalar_array(metadata.fill_value, native(metadata))
    except Exception as error:  # noqa: BLE001 - whatever zarr-python makes of a fill value
        return words(error), canonical(fill_value)
    if data_type.name == "object":
        return None
    differs = mismatch(found, expected)
    return None if differs is None else (differs.found, differs.expected)


def fill_of(data_type: DataType, fill_value: JSON) -> Values:
    """A fill value in the v3 JSON form of its data type, as a 0-d array."""
    return scalar_array(fill_from_json(fill_value, data_type), data_type.numpy)


def scalar_array(value: Any, dtype: np.dtype[Any]) -> Values:
    """A 0-d array with one value, without a change of its type."""
    if dtype.kind in "OT":
        result: Values = np.empty((), dtype=object)
        result[()] = value
        return result
    return np.asarray(value, dtype=dtype)


def lost_values(
    source: Mapping[str, JSON],
    result: JSONObject,
    labels: list[str | None] | None,
    replaced: Sequence[str],
) -> list[tuple[str, str]]:
    """(JSON pointer, value) of each value in the source's attributes that the result does not contain.

    Values are counted without their places. `labels` are the result's dimension names, which attributes may
    have become; None for a group. `replaced` are the places whose values a convention has replaced.
    """
    here = Counter(text for _, text in _leaves(result, ""))
    if labels is not None:
        here.update(text for _, text in _leaves(labels, ""))
    lost = []
    for place, text in _leaves(dict(source), "") if source else ():
        if any(place == other or place.startswith(f"{other}/") for other in replaced):
            continue
        if here[text]:
            here[text] -= 1
        else:
            lost.append((place, text))
    return lost


def _leaves(value: JSON, place: str) -> Iterator[tuple[str, str]]:
    """JSON pointer and text of every leaf value; empty lists and objects count as leaves."""
    if isinstance(value, dict) and value:
        for name, item in value.items():
            yield from _leaves(item, f"{place}/{name.replace('~', '~0').replace('/', '~1')}")
    elif isinstance(value, list | tuple) and value:
        for index, item in enumerate(value):
            yield from _leaves(item, f"{place}/{index}")
    else:
        yield place, canonical(value)
