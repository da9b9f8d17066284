"""Deviations of real writers from the `.zarray` specification, and their meaning.

They are applied before the strict reading: a row recognizes one deviation in a raw document and produces its
normal form, which changes no value. Applied rows are noted on the node. The strict reading refuses everything
else.

Specification: https://zarr-specs.readthedocs.io/en/latest/v2/v2.0.html#metadata.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from zarrstack.core.data_types.v2_fill import v2_fill_to_scalar
from zarrstack.core.errors import Problem, Severity
from zarrstack.core.json_text import JSON, JSONObject

from .fill_values import is_float, is_number, is_number_text, is_object, is_plain_text, is_zero

Dtype = np.dtype[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """One deviation."""

    name: str
    """Stable name, used by tests and notes."""
    writer: str
    """The writer, with the version if observed."""
    looks: str
    """An excerpt of such a document."""
    means: str
    """The same excerpt in normal form."""
    severity: Severity = "note"
    """A warning if readers disagree on the meaning, or if it is a guess."""
    apply: Callable[[Mapping[str, JSON], Dtype | None], Mapping[str, JSON]]
    """Members to set in a document with this deviation (a new value each); otherwise empty.

    The dtype is None if it could not be read; such a document is refused in any case.
    """

    @property
    def problem(self) -> Problem:
        """The note on the node."""
        message = f"{self.name}: {self.looks}"
        return Problem(kind="deviation", severity=self.severity, message=message, expected=self.means)


_NAMES: Final = {
    "bool": "|b1",
    **{
        f"{sign}int{8 * size}": f"{'<' if size > 1 else '|'}{sign or 'i'}{size}"
        for sign in ("", "u")
        for size in (1, 2, 4, 8)
    },
    **{f"float{8 * size}": f"<f{size}" for size in (2, 4, 8)},
    **{f"complex{8 * size}": f"<c{size}" for size in (8, 16)},
}
_FILTER_DTYPES: Final = ("dtype", "astype", "encode_dtype", "decode_dtype")
"""Members of numcodecs filters that contain data types."""
_UNORDERED: Final = re.compile(r"=?([biufc])([1-9][0-9]?)|\|([iufc])((?!1$)[1-9][0-9]?)")


def undo(
    document: JSONObject, dtype: Dtype | None, rows: Iterable[Deviation]
) -> tuple[JSONObject, tuple[Deviation, ...]]:
    """The document in normal form, and the applied rows in the table's order."""
    applied = []
    for row in rows:
        changes = row.apply(document, dtype)
        if changes:
            document = {**document, **changes}
            applied.append(row)
    return document, tuple(applied)


# ----- missing or unknown members


def _missing(name: str, value: JSON) -> Callable[[Mapping[str, JSON], Dtype | None], Mapping[str, JSON]]:
    def apply(document: Mapping[str, JSON], _: Dtype | None) -> Mapping[str, JSON]:
        return {} if name in document else {name: value}

    return apply


def _format_as_text(document: Mapping[str, JSON], _: Dtype | None) -> Mapping[str, JSON]:
    return {"zarr_format": 2} if document.get("zarr_format") == "2" else {}


def _without(codec: str, member: str) -> Callable[[Mapping[str, JSON], Dtype | None], Mapping[str, JSON]]:
    """A row for a member that decoding does not need."""

    def shows(item: JSON) -> bool:
        return isinstance(item, dict) and item.get("id") == codec and member in item

    def less(item: JSON) -> JSON:
        return {name: value for name, value in item.items() if name != member} if shows(item) else item

    def apply(document: Mapping[str, JSON], _: Dtype | None) -> Mapping[str, JSON]:
        changes: dict[str, JSON] = {}
        compressor, filters = document.get("compressor"), document.get("filters")
        if shows(compressor):
            changes["compressor"] = less(compressor)
        if isinstance(filters, list) and any(map(shows, filters)):
            changes["filters"] = [less(item) for item in filters]
        return changes

    return apply


def _zero_chunks(document: Mapping[str, JSON], _: Dtype | None) -> Mapping[str, JSON]:
    shape, chunks = document.get("shape"), document.get("chunks")
    if not isinstance(shape, list) or not isinstance(chunks, list) or len(shape) != len(chunks):
        return {}
    # `is` rather than `==`: True and 0.0 are neither lengths nor this deviation.
    lengths = [
        1 if c == 0 and n == 0 and type(c) is type(n) is int else c
        for n, c in zip(shape, chunks, strict=True)
    ]
    return {} if lengths == chunks else {"chunks": lengths}


# ----- data types


def _ordered_dtype(document: Mapping[str, JSON], _: Dtype | None) -> Mapping[str, JSON]:
    changes: dict[str, JSON] = {}
    dtype, filters = document.get("dtype"), document.get("filters")
    if (ordered := _ordered(dtype)) != dtype:
        changes["dtype"] = ordered
    if isinstance(filters, list) and (named := [_ordered_filter(item) for item in filters]) != filters:
        changes["filters"] = named
    return changes


def _ordered_filter(item: JSON) -> JSON:
    """A filter whose data types, which numcodecs passes to numpy, have a byte order each."""
    if not isinstance(item, dict):
        return item
    return {name: _ordered(value) if name in _FILTER_DTYPES else value for name, value in item.items()}


def _ordered(dtype: JSON) -> JSON:
    if isinstance(dtype, list):
        return [
            [item[0], _ordered(item[1]), *item[2:]] if isinstance(item, list) and len(item) > 1 else item
            for item in dtype
        ]
    if not isinstance(dtype, str):
        return dtype
    if dtype in _NAMES:
        return _NAMES[dtype]
    if match := _UNORDERED.fullmatch(dtype):
        kind, size = match[1] or match[3], match[2] or match[4]
        return f"{'|' if size == '1' else '<'}{kind}{size}"
    return dtype


def _nczarr_text(document: Mapping[str, JSON], _: Dtype | None) -> Mapping[str, JSON]:
    # Later versions write ">S1" and "_nczarr_array".
    return {"dtype": "|S1"} if "_NCZARR_ARRAY" in document and document.get("dtype") == "<U1" else {}


# ----- fill values


def _fill(
    kinds: str, odd: Callable[[JSON, Dtype], bool]
) -> Callable[[Mapping[str, JSON], Dtype | None], Mapping[str, JSON]]:
    """A row for the fill value of dtypes of some kinds; the core reads the value itself."""

    def apply(document: Mapping[str, JSON], dtype: Dtype | None) -> Mapping[str, JSON]:
        if dtype is None or dtype.kind not in kinds or dtype.hasobject or "fill_value" not in document:
            return {}
        fill = document["fill_value"]
        if fill is None or not odd(fill, dtype):
            return {}
        try:
            return {"fill_value": specified_fill(v2_fill_to_scalar(fill, dtype), dtype)}
        except ValueError:
            return {}

    return apply


def _object_codec(document: Mapping[str, JSON], dtype: Dtype | None) -> JSON:
    """The id of the codec of an array of objects, None for other arrays."""
    filters = document.get("filters")
    if dtype is None or dtype.kind != "O" or not isinstance(filters, list) or not filters:
        return None
    return filters[0].get("id") if isinstance(filters[0], dict) else None


def _zero_object(document: Mapping[str, JSON], dtype: Dtype | None) -> Mapping[str, JSON]:
    fill = document.get("fill_value")
    named = _object_codec(document, dtype) in ("vlen-utf8", "vlen-bytes", "categorize")
    return {"fill_value": ""} if named and type(fill) is int and fill == 0 else {}


def _cut_text(document: Mapping[str, JSON], dtype: Dtype | None) -> Mapping[str, JSON]:
    fill = document.get("fill_value")
    if dtype is None or dtype.kind != "U" or not isinstance(fill, str):
        return {}
    length = dtype.itemsize // 4
    return {"fill_value": fill[:length]} if len(fill.rstrip("\0")) > length else {}


def specified_fill(scalar: Any, dtype: Dtype) -> JSON:
    """A scalar in the form of the specification (section "Fill value encoding")."""
    match dtype.kind:
        case "b":
            return bool(scalar)
        case "i" | "u":
            return int(scalar)
        case "m" | "M":
            return int(scalar.view("i8"))
        case "f":
            return _float(scalar)
        case "c":
            return [_float(scalar.real), _float(scalar.imag)]
        case "U":
            return str(scalar)
        case "S":
            return base64.b64encode(bytes(scalar).ljust(dtype.itemsize, b"\0")).decode("ascii")
    return base64.b64encode(np.asarray(scalar).astype(dtype).tobytes()).decode("ascii")


def _float(scalar: Any) -> JSON:
    if np.isnan(scalar):
        return "NaN"
    if np.isinf(scalar):
        return "Infinity" if scalar > 0 else "-Infinity"
    return float(scalar)


DTYPE_DEVIATIONS: Final = (
    Deviation(
        name="dtype-without-byte-order",
        writer="writers that name numpy types; zarr-python 2.18 and 3 read them in the machine's own order",
        looks='"dtype": "=i4", "i4", "|i4" or "int32", of the array or of a filter',
        means='"dtype": "<i4", as every machine that reads zarr today takes it',
        severity="warning",
        apply=_ordered_dtype,
    ),
    Deviation(
        name="text-of-bytes",
        writer="netcdf-c 4.9.0, whose characters take one byte each; it alone reads them",
        looks='"dtype": "<U1" beside "_NCZARR_ARRAY"',
        means='"dtype": "|S1"',
        apply=_nczarr_text,
    ),
)
"""Rows applied before the dtype is read."""

FORMAT_AS_TEXT: Final = Deviation(
    name="format-as-text",
    writer="writers that quote every number, of `.zarray` and `.zgroup`",
    looks='"zarr_format": "2"',
    means='"zarr_format": 2',
    apply=_format_as_text,
)

DEVIATIONS: Final = (
    FORMAT_AS_TEXT,
    Deviation(
        name="blosc-nthreads",
        writer="z5py 3.0",
        looks='"compressor": {"id": "blosc", ..., "nthreads": 1}',
        means='"compressor": {"id": "blosc", ...}',
        apply=_without("blosc", "nthreads"),
    ),
    Deviation(
        name="lzma-delta",
        writer="GDAL, with a delta filter inside the xz stream, which says so itself",
        looks='"compressor": {"id": "lzma", "preset": 6, "delta": 1}',
        means='"compressor": {"id": "lzma", "preset": 6}',
        apply=_without("lzma", "delta"),
    ),
    Deviation(
        name="missing-filters",
        writer="writers of arrays without filters that leave the member out",
        looks="no filters",
        means='"filters": null',
        apply=_missing("filters", None),
    ),
    Deviation(
        name="missing-order",
        writer="writers that know one order only",
        looks="no order",
        means='"order": "C"',
        apply=_missing("order", "C"),
    ),
    Deviation(
        name="missing-compressor",
        writer="writers of plain bytes that leave the member out",
        looks="no compressor",
        means='"compressor": null',
        apply=_missing("compressor", None),
    ),
    Deviation(
        name="missing-fill-value",
        writer="writers that define no fill value and leave the member out",
        looks="no fill_value",
        means='"fill_value": null',
        apply=_missing("fill_value", None),
    ),
    Deviation(
        name="zero-length-chunk",
        writer="zarr-python 2 with chunks=False over an axis of length 0",
        looks='"shape": [0], "chunks": [0]',
        means='"shape": [0], "chunks": [1]: there is no chunk either way',
        apply=_zero_chunks,
    ),
    Deviation(
        name="zero-for-bytes",
        writer="early zarr-python 2",
        looks='"dtype": "|S4", "fill_value": 0 (and U, V, structs)',
        means="the type's zero: empty text, zero bytes (zarr-python 2.18 shows the text '0' for S and U)",
        severity="warning",
        apply=_fill("USV", is_zero),
    ),
    Deviation(
        name="zero-for-objects",
        writer="zarr-python 2.4 to 2.18, where no fill value was asked for",
        looks='"dtype": "|O", "filters": [{"id": "vlen-utf8"}], "fill_value": 0',
        means="empty text, or no bytes (zarr-python 2 shows the number 0 among them)",
        apply=_zero_object,
    ),
    Deviation(
        name="text-too-long",
        writer="zarr-python 2.18, which stores what it was given; it, 3.1.6 and 3.4.2 cut it as they read",
        looks='"dtype": "<U2", "fill_value": "longer"',
        means='"fill_value": "lo"',
        severity="warning",
        apply=_cut_text,
    ),
    Deviation(
        name="text-for-bytes",
        writer="zarr-python 2 before fill values of S were base64",
        looks='"dtype": "|S4", "fill_value": "ab-c"',
        means='"fill_value": "YWItYw=="',
        apply=_fill("S", is_plain_text),
    ),
    Deviation(
        name="float-for-integer",
        writer="z5py 3.0, which keeps every fill value as a double",
        looks='"dtype": "<i4", "fill_value": 0.0',
        means='"fill_value": 0',
        apply=_fill("iumM", is_float),
    ),
    Deviation(
        name="number-for-bool",
        writer="writers whose language has 0 and 1 for truth values",
        looks='"dtype": "|b1", "fill_value": 0',
        means='"fill_value": false',
        apply=_fill("b", is_number),
    ),
    Deviation(
        name="number-for-complex",
        writer="writers that store a real fill value",
        looks='"dtype": "<c8", "fill_value": 0.0',
        means='"fill_value": [0.0, 0.0]',
        apply=_fill("c", is_number),
    ),
    Deviation(
        name="number-as-text",
        writer="writers that guard numbers from JSON; zarr-python 2.18 and 3.1.6 read it",
        looks='"dtype": "<f8", "fill_value": "1.5"',
        means='"fill_value": 1.5',
        apply=_fill("iufmM", is_number_text),
    ),
    Deviation(
        name="object-for-struct",
        writer="zarr-python 3.4 reads it",
        looks='"fill_value": {"a": 1, "b": 2.0}',
        means='"fill_value": base64 of the packed fields',
        apply=_fill("V", is_object),
    ),
)
