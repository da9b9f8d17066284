"""Deviations of real writers from the `.zarray` specification, and their meaning.

They are applied before the strict reading: a row recognizes one deviation in a raw document and produces its
normal form, which changes no value. Applied rows are noted on the node. The strict reading refuses everything
else.

Specification: https://zarr-specs.readthedocs.io/en/latest/v2/v2.0.html#metadata.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from zarrstack.core.errors import Problem, Severity
from zarrstack.core.json_text import JSON, JSONObject, excerpt

from ...core.codec_table import OBJECT_CODECS
from ...core.data_types.fill_forms import fill_form, from_base64, to_base64
from ...core.data_types.v2 import v2_fill_to_scalar

Dtype = np.dtype[Any]
Apply: TypeAlias = Callable[[Mapping[str, JSON], Dtype | None], Mapping[str, JSON]]
"""Members to set in a document with a deviation, otherwise empty; the dtype is None if it is unreadable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """One deviation."""

    name: str
    """Stable name, used by tests and notes."""
    writer: str
    """The writer, with the version if observed."""
    remark: str = ""
    """What a note adds to the normal form."""
    severity: Severity = "note"
    """A warning if readers disagree on the meaning, or if it is a guess."""
    apply: Apply
    """Members to set in a document with this deviation (a new value each); otherwise empty.

    The dtype is None if it could not be read; such a document is refused in any case.
    """

    def problem(self, document: Mapping[str, JSON], changes: Mapping[str, JSON]) -> Problem:
        """The note on the node, which quotes its document."""
        beside = [_BESIDE[name] for name in changes if name in _BESIDE]
        quoted = dict.fromkeys([*(name for name in beside if document.get(name) is not None), *changes])
        return Problem(
            kind="deviation",
            severity=self.severity,
            message=self.name,
            found=", ".join(_quoted(document, name) for name in quoted),
            expected=", ".join(_quoted(changes, name) for name in changes) + self.remark,
        )


_BESIDE: Final = {"fill_value": "dtype", "chunks": "shape", "dtype": "filters"}
"""Members that change -> one that a note quotes with it."""


def _quoted(members: Mapping[str, JSON], name: str) -> str:
    return f'"{name}": {excerpt(members[name])}' if name in members else f"no {name}"


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
_FIXED_TEXT: Final = re.compile(r"[<>|]([SU])(0|[1-9][0-9]{0,8})")
_CODEC_OF_TEXT: Final = {"U": "vlen-utf8", "S": "vlen-bytes"}
_UNORDERED: Final = re.compile(r"=?([biufc])([1-9][0-9]?)|\|([iufc])((?!1$)[1-9][0-9]?)")


def undo(
    document: JSONObject, dtype: Dtype | None, rows: Iterable[Deviation]
) -> tuple[JSONObject, dict[str, Problem]]:
    """The document in normal form, and a note for each applied row, by its name, in the table's order."""
    notes = {}
    for row in rows:
        changes = row.apply(document, dtype)
        if changes:
            notes[row.name] = row.problem(document, changes)
            document = {**document, **changes}
    return document, notes


# ----- fill values


def is_zero(fill: JSON, _: Dtype) -> bool:
    """Whether the fill value is the integer 0."""
    return type(fill) is int and fill == 0


def is_nan(fill: JSON, _: Dtype) -> bool:
    """Whether the fill value is a bare NaN."""
    return isinstance(fill, float) and math.isnan(fill)


def is_float(fill: JSON, _: Dtype) -> bool:
    """Whether the fill value is a float, even with an integral value."""
    return isinstance(fill, float)


def is_number(fill: JSON, _: Dtype) -> bool:
    """Whether the fill value is an integer or a float."""
    return isinstance(fill, int | float) and not isinstance(fill, bool)


def is_number_text(fill: JSON, dtype: Dtype) -> bool:
    """Whether the fill value is a number as text, other than the specified texts."""
    specified = ("NaT",) if dtype.kind in "mM" else ("NaN", "Infinity", "-Infinity")
    return isinstance(fill, str) and fill not in specified


def is_plain_text(fill: JSON, _: Dtype) -> bool:
    """Whether the fill value is text that is not base64."""
    if not isinstance(fill, str):
        return False
    try:
        from_base64(fill)
    except ValueError:
        return True
    return False


def is_object(fill: JSON, _: Dtype) -> bool:
    """Whether the fill value is a JSON object."""
    return isinstance(fill, dict)


def read_as_value(kinds: str, odd: Callable[[JSON, Dtype], bool]) -> Apply:
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


def either(*ways: Apply) -> Apply:
    """A row that has several forms."""
    return lambda document, dtype: next(filter(None, (way(document, dtype) for way in ways)), {})


def _object_codec(document: Mapping[str, JSON], dtype: Dtype | None) -> JSON:
    """The id of the codec of an array of objects, None for other arrays."""
    filters = document.get("filters")
    if dtype is None or dtype.kind != "O" or not isinstance(filters, list) or not filters:
        return None
    return filters[0].get("id") if isinstance(filters[0], dict) else None


def no_object(odd: Callable[[JSON, Dtype], bool]) -> Apply:
    """A row for a fill value that is not text, of an array of text or bytes objects."""

    def apply(document: Mapping[str, JSON], dtype: Dtype | None) -> Mapping[str, JSON]:
        facts = OBJECT_CODECS.get(str(_object_codec(document, dtype)))
        named = facts is not None and facts.objects in ("text", "bytes", "labels")
        return {"fill_value": ""} if named and dtype and odd(document.get("fill_value"), dtype) else {}

    return apply


def cut_text(document: Mapping[str, JSON], dtype: Dtype | None) -> Mapping[str, JSON]:
    """Truncate a fill value that is longer than the text type."""
    fill = document.get("fill_value")
    if dtype is None or dtype.kind != "U" or not isinstance(fill, str):
        return {}
    length = dtype.itemsize // 4
    return {"fill_value": fill[:length]} if len(fill.rstrip("\0")) > length else {}


def specified_fill(scalar: Any, dtype: Dtype) -> JSON:
    """A scalar in the form of the specification (section "Fill value encoding")."""
    if dtype.kind == "S":
        return to_base64(bytes(scalar).ljust(dtype.itemsize, b"\0"))
    return fill_form(scalar, dtype)


# ----- missing or unknown members


def _missing(name: str, value: JSON, writer: str) -> Deviation:
    """A row for a member that is left out."""
    return Deviation(
        name=f"missing-{name.replace('_', '-')}",
        writer=writer,
        apply=lambda document, _: {} if name in document else {name: value},
    )


def _format_as_text(document: Mapping[str, JSON], _: Dtype | None) -> Mapping[str, JSON]:
    return {"zarr_format": 2} if document.get("zarr_format") == "2" else {}


def _without(codec: str, member: str) -> Apply:
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


def _stored_as_objects(document: Mapping[str, JSON], _: Dtype | None) -> Mapping[str, JSON]:
    dtype, filters, fill = document.get("dtype"), document.get("filters"), document.get("fill_value")
    first = filters[0] if isinstance(filters, list) and filters else None
    codec = first.get("id") if isinstance(first, dict) else None
    match = _FIXED_TEXT.fullmatch(dtype) if isinstance(dtype, str) else None
    if match is None or codec != _CODEC_OF_TEXT[match[1]]:
        return {}
    length = int(match[2])
    if isinstance(fill, str) and codec == "vlen-bytes":
        try:
            content = from_base64(fill)
        except ValueError:
            return {}
        fill = list(content[: length or None]) or ""
    elif isinstance(fill, str):
        fill = fill[: length or None]
    return {"dtype": "|O", "fill_value": fill}


def _zero_length(document: Mapping[str, JSON], _: Dtype | None) -> Mapping[str, JSON]:
    dtype = document.get("dtype")
    return {"dtype": f"{dtype[:2]}1"} if dtype in ("<U0", ">U0", "|U0", "|S0") else {}


def _nczarr_text(document: Mapping[str, JSON], _: Dtype | None) -> Mapping[str, JSON]:
    # Later versions write ">S1" and "_nczarr_array".
    return {"dtype": "|S1"} if "_NCZARR_ARRAY" in document and document.get("dtype") == "<U1" else {}


DTYPE_DEVIATIONS: Final = (
    Deviation(
        name="dtype-without-byte-order",
        writer="writers that name numpy types; zarr-python 2.18 and 3 read them in the machine's own order",
        severity="warning",
        apply=_ordered_dtype,
    ),
    Deviation(
        name="text-of-bytes",
        writer="netcdf-c 4.9.0, whose characters take one byte each; it alone reads them",
        apply=_nczarr_text,
    ),
    Deviation(
        name="text-as-objects",
        writer="zarr-python 3.0, which stores items of fixed length like those of variable length",
        apply=_stored_as_objects,
    ),
    Deviation(
        name="zero-length-text",
        writer="zarr-python 2 with numpy types without a length, whose items take one character",
        apply=_zero_length,
    ),
)
"""Rows applied before the dtype is read."""

FORMAT_AS_TEXT: Final = Deviation(
    name="format-as-text",
    writer="writers that quote every number, of `.zarray` and `.zgroup`",
    apply=_format_as_text,
)

ZERO_FOR_TEXT: Final = "zero-for-text"
NAN_FOR_TEXT: Final = "nan-for-text"

DEVIATIONS: Final = (
    FORMAT_AS_TEXT,
    Deviation(
        name="blosc-nthreads",
        writer="z5py 3.0",
        apply=_without("blosc", "nthreads"),
    ),
    Deviation(
        name="lzma-delta",
        writer="GDAL, with a delta filter inside the xz stream, which says so itself",
        apply=_without("lzma", "delta"),
    ),
    _missing("filters", None, "writers of arrays without filters that leave the member out"),
    _missing("order", "C", "writers that know one order only"),
    _missing("compressor", None, "writers of plain bytes that leave the member out"),
    _missing("fill_value", None, "writers that define no fill value and leave the member out"),
    Deviation(
        name="zero-length-chunk",
        writer="zarr-python 2 with chunks=False over an axis of length 0",
        apply=_zero_chunks,
    ),
    Deviation(
        name="zero-for-bytes",
        writer="early zarr-python 2",
        severity="warning",
        apply=read_as_value("V", is_zero),
    ),
    Deviation(
        name=ZERO_FOR_TEXT,
        writer="writers whose default fill value is 0; zarr-python 3.1.6 and 3.4.2 reject it",
        remark=": no text; the text '0' in zarr-python 2.18. --set zero-fill decides if chunks are missing",
        severity="warning",
        apply=read_as_value("US", is_zero),
    ),
    Deviation(
        name=NAN_FOR_TEXT,
        writer="pandas and xarray, for which NaN is a missing text",
        remark=": no text; the text 'nan' in some versions of zarr-python. --set zero-fill decides if chunks "
        "are missing",
        severity="warning",
        apply=either(read_as_value("US", is_nan), no_object(is_nan)),
    ),
    Deviation(
        name="zero-for-objects",
        writer="zarr-python 2.4 to 2.18, where no fill value was asked for",
        remark=": no text, or no bytes (zarr-python 2 shows the number 0 among them)",
        apply=no_object(is_zero),
    ),
    Deviation(
        name="text-too-long",
        writer="zarr-python 2.18, which stores what it was given; it, 3.1.6 and 3.4.2 cut it as they read",
        severity="warning",
        apply=cut_text,
    ),
    Deviation(
        name="text-for-bytes",
        writer="zarr-python 2 before fill values of S were base64",
        apply=read_as_value("S", is_plain_text),
    ),
    Deviation(
        name="float-for-integer",
        writer="z5py 3.0, which keeps every fill value as a double",
        apply=read_as_value("iumM", is_float),
    ),
    Deviation(
        name="number-for-bool",
        writer="writers whose language has 0 and 1 for truth values",
        apply=read_as_value("b", is_number),
    ),
    Deviation(
        name="number-for-complex",
        writer="writers that store a real fill value",
        apply=read_as_value("c", is_number),
    ),
    Deviation(
        name="number-as-text",
        writer="writers that guard numbers from JSON; zarr-python 2.18 and 3.1.6 read it",
        apply=read_as_value("iufm", is_number_text),
    ),
    Deviation(
        name="date-as-text",
        writer="zarr-python 3.0.8 to 3.0.10; 2.18 and 3.0 read it, a number as a year",
        apply=read_as_value("M", is_number_text),
    ),
    Deviation(
        name="object-for-struct",
        writer="zarr-python 3.4 reads it",
        apply=read_as_value("V", is_object),
    ),
)
