"""Checks the requirements of zarrlift's own conventions against the result alone.

The checks are written independently of the code that makes the changes, from the readers' source code, so
that the two can disagree. A witness yields (what differs, found, expected) for a node.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import numpy as np

from zarrstack.core.json_text import JSON, canonical

from ..archive.nodes import ArrayNode, Node
from ..core.data_types.compare import same
from ..recipe.parsing import AUTO
from ..recipe.recipe import ArrayRecipe
from .documents import lost_values
from .ome import ome
from .zarr_python_reader import ResultNode, chunk_shape, native

Finding: TypeAlias = tuple[str, str, str]


def findings(node: Node, result: ResultNode, recipe: ArrayRecipe) -> Iterator[Finding]:
    """The findings of the requested conventions' witnesses for a node."""
    yield from netcdf(node, result)
    for name, witness in WITNESSES.items():
        if name == "ome" and recipe.multiscale is not None:
            continue  # the content of `ome` has another form
        if name in recipe.conventions or AUTO in recipe.conventions:
            yield from witness(node, result)


def netcdf(node: Node, result: ResultNode) -> Iterator[Finding]:
    """Check that netcdf-c's members of `.zgroup` and `.zarray` are attributes; the reader moved them.

    Source: netcdf-c 4.10.1, `libnczarr/zsync.c` (`getnczarrkey`: an attribute of that name has priority).
    """
    documents = {document.key.rpartition("/")[2]: document.content for document in node.documents}
    for name in (".zgroup", ".zarray"):
        content = documents.get(name, b"")
        if b"_nczarr_" not in content.lower():
            continue
        held, stated = json.loads(content), json.loads(documents.get(".zattrs", b"{}"))
        for attribute in {"_nczarr_superblock", "_nczarr_group", "_nczarr_array"} - stated.keys():
            member = attribute if attribute in held else attribute.upper()
            moved = {member: result.attributes.get(attribute)}
            for place, text in lost_values({member: held[member]} if member in held else {}, moved, None, ()):
                yield f"attribute at {place}", "nothing that holds its value", text


def xarray(node: Node, result: ResultNode) -> Iterator[Finding]:
    """Check that dimensions are named, and that values masked by the fill value are masked.

    Source: xarray 2026.9.0, `xarray/backends/zarr.py` (`FillValueCoder.decode`, `open_store_variable`).
    """
    metadata = result.metadata
    if not isinstance(node, ArrayNode) or metadata is None or node.layout is None:
        return
    labels = node.attributes.get("_ARRAY_DIMENSIONS")
    if not isinstance(labels, list) or "_ARRAY_DIMENSIONS" in result.attributes:
        return
    if labels == [] and node.layout.shape == (1,):
        labels = ["_scalar_"]  # netcdf-c 4.9.0 names no axis of a scalar, 4.9.4 does
    names = metadata.dimension_names or (None,) * len(labels)
    if list(names) != labels:
        yield "list of dimension names", canonical(list(names)), canonical(labels)
    dtype = native(metadata)
    if dtype.names is not None or dtype.kind not in "biufc":
        if "_FillValue" in result.attributes:
            yield "mask", "_FillValue, which xarray cannot read", "missing_value, or none"
        if dtype.kind in "OTU" and node.layout.data_type.name in ("string", "fixed_length_utf32"):
            masks, wanted = _texts(result.attributes.get("missing_value")), _masking_texts(node)
            if masks != wanted:
                yield "mask", canonical(sorted(masks)), canonical(sorted(wanted))
        return
    stated = result.attributes.get("_FillValue")
    if node.fill_is_null and "_FillValue" not in node.attributes:
        if stated is not None:
            yield "mask", canonical(stated), "none: the source states no fill value"
        return
    if dtype.kind == "u" and result.attributes.get("_Unsigned") == "false" and isinstance(stated, int):
        stated %= 1 << 8 * dtype.itemsize  # `_convert_unsigned_fill_value`: a number of the signed type
    masks = _decoded(stated, dtype)
    wanted = metadata.fill_value
    if node.fill_is_null:
        wanted = _number(node.attributes["_FillValue"], dtype)
        if stated is None and wanted is None:
            return  # it masked nothing, or what `missing_value` masks in the result
    number = None if wanted is None else dtype.type(wanted)
    # A conversion to double turns a signalling NaN into a quiet one.
    both_nan = masks is not None and number is not None and np.isnan(masks) and np.isnan(number)
    if masks is None or number is None or not (both_nan or same(masks, number)):
        yield "mask", canonical(stated), repr(wanted)


def _texts(stated: JSON) -> set[str]:
    """The texts that xarray masks for an attribute."""
    return {item for item in (stated if isinstance(stated, list) else [stated]) if isinstance(item, str)}


def _masking_texts(node: ArrayNode) -> set[str]:
    """The texts that xarray masks in the source, by the fill value and `missing_value`."""
    assert node.layout is not None
    texts = _texts(node.attributes.get("missing_value"))
    if node.fill_is_null:
        return texts | _texts(node.attributes.get("_FillValue"))
    documents = [json.loads(document.content) for document in node.documents]
    stated = [document["fill_value"] for document in documents if "fill_value" in document]
    return texts | {str(node.layout.fill_value) for fill in stated[:1] if isinstance(fill, str)}


def _decoded(stated: JSON, dtype: np.dtype[Any]) -> Any:
    """The value that xarray masks for an attribute `_FillValue`, in the array's type; None if none."""
    try:
        if dtype.kind == "f":
            return dtype.type(_double(stated))
        if dtype.kind == "c":
            return dtype.type(complex(_double(stated[0]), _double(stated[1])))
        return dtype.type(stated) if isinstance(stated, int) else None
    except (TypeError, ValueError, IndexError, OverflowError, struct.error):
        return None


def _double(text: str) -> float:
    return float(struct.unpack("<d", base64.standard_b64decode(text))[0])


def _number(stated: JSON, dtype: np.dtype[Any]) -> Any:
    """The number in a legacy attribute; None if it is not a value of the data type."""
    value = stated[0] if isinstance(stated, list) and len(stated) == 1 else stated
    if isinstance(value, str) and (dtype.kind not in "fc" or value not in ("NaN", "Infinity", "-Infinity")):
        return None
    if not isinstance(value, int | float | str) or isinstance(value, bool) != (dtype.kind == "b"):
        return None
    try:
        with np.errstate(over="raise"):
            number = dtype.type(value)
    except (TypeError, ValueError, ArithmeticError):
        return None
    return None if dtype.kind in "iu" and number != value else number


def hdmf(node: Node, result: ResultNode) -> Iterator[Finding]:
    """Check links, references and kinds of datasets.

    Source: hdmf-zarr 0.14.0 (`ZarrIO.__read_links`, `__read_dataset`, `__read_attrs`).
    """
    yield from _links(node.attributes.get("zarr_link"), result.attributes)
    for name, value in node.attributes.items():
        refers = isinstance(value, dict) and "zarr_dtype" in value and isinstance(value.get("value"), dict)
        if refers and value != result.attributes.get(name):
            yield from _reference(name, value, result.attributes.get(name))
    dtype = node.attributes.get("zarr_dtype")
    if isinstance(node, ArrayNode) and dtype is not None and "zarr_dtype" not in result.attributes:
        yield from _dataset(dtype, result)


def _links(links: JSON, attributes: dict[str, Any]) -> Iterator[Finding]:
    if not isinstance(links, list) or "zarr_link" in attributes:
        return  # migrated as plain data, which the attributes show
    if not all(isinstance(link, dict) and {"name", "path"} <= link.keys() for link in links):
        return
    wanted = sorted((link["name"], _path(link["path"])) for link in links)
    mine = sorted((link["name"], _path(link["path"])) for link in attributes.get("_LINKS", ()))
    if mine != wanted:
        yield "list of links", canonical(mine), canonical(wanted)


def _reference(name: str, value: dict[str, Any], mine: JSON) -> Iterator[Finding]:
    target = mine.get("_REFERENCE") if isinstance(mine, dict) else None
    path = target.get("path") if isinstance(target, dict) else None
    wanted = _path(value["value"].get("path"))
    if path is None or _path(path) != wanted:
        yield f"reference {name!r}", canonical(mine), wanted


def _dataset(dtype: JSON, result: ResultNode) -> Iterator[Finding]:
    assert result.metadata is not None
    values = native(result.metadata)
    stated = result.attributes.get("_DTYPE")
    if dtype == "scalar" and tuple(result.metadata.shape) == (1,) and chunk_shape(result.metadata) == (1,):
        yield "shape of a scalar", "(1,)", "()"
    if dtype == "object" and (stated != "object_reference" or values.kind not in "TO"):
        yield "kind of a dataset of references", f"{stated}, {values}", "object_reference, string"
    if isinstance(dtype, list):
        names = tuple(field["name"] for field in dtype)
        wanted = [field["name"] for field in dtype if field["dtype"] == "object"]
        if values.names != names:
            yield "list of fields", str(values.names), str(names)
        if list(result.attributes.get("_REFERENCE_FIELDS", ())) != wanted:
            yield "list of fields that are references", canonical(result.attributes), canonical(wanted)


def _path(path: Any) -> str:
    return "/" + "/".join(name for name in str(path or "").split("/") if name)


WITNESSES: Final[Mapping[str, Callable[[Node, ResultNode], Iterator[Finding]]]] = {
    "hdmf": hdmf,
    "xarray": xarray,
    "ome": ome,
}
"""Witnesses by name of the convention."""
