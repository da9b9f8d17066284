"""Zarr v2 `dtype` and `fill_value` -> numpy types and scalars, strictly.

Facts: https://zarr-specs.readthedocs.io/en/latest/v2/v2.0.html#data-type-encoding and #fill-value-encoding.
numpy's own parser receives only strings that match completely: it would accept "f4,i4", "O8" or Python names.
Deviations of actual writers from the specification are noted where they are accepted, with the writer and
version observed.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from contextlib import suppress
from typing import Any, Final

import numpy as np

from zarrstack.core.errors import MetadataError, UnsupportedError
from zarrstack.core.json_text import JSON, excerpt

from .fill_forms import from_base64, listed, read_fill, refusing, to_base64
from .numpy_types import BFLOAT16, MAX_DEPTH, MAX_ITEM_BYTES
from .v3 import DataType, fill_from_json, zero_fill

_TYPESTR: Final = re.compile(
    r"(?P<order>[<>|])(?P<kind>[biufcSUVMmO])(?P<size>0|[1-9][0-9]{0,9})?(?:\[(?P<unit>[0-9]{0,10}[a-zA-Z]+)\])?"
)
_SIZES: Final = {"b": (1,), "i": (1, 2, 4, 8), "u": (1, 2, 4, 8), "f": (2, 4, 8), "c": (8, 16)}
_LONG: Final = {("f", 12), ("f", 16), ("c", 24), ("c", 32)}
"""Long doubles: their format and numpy's support for them depend on the writer's machine."""
_TIME_UNIT: Final = re.compile(
    r"(?P<scale>[1-9][0-9]{0,9})?(?P<unit>Y|M|W|D|h|m|s|ms|us|ns|ps|fs|as|generic)"
)
_TENSORSTORE: Final = re.compile(r"bfloat16|float8_\w+|u?int[24]")
"""Names of tensorstore 0.1.86's own types, which numpy does not have. It stores bfloat16 little-endian."""
_MAX_SUBARRAY_NDIM: Final = 32


def parse_v2_dtype(data: JSON) -> np.dtype[Any]:
    """The numpy type of a `dtype` member, with its byte order.

    A typestr, or a list of [name, dtype] and [name, dtype, shape]. MetadataError for anything else,
    UnsupportedError for documented types that numpy here does not have (bit fields, a long double of another
    machine). Accepted beyond the specification: a byte order on one-byte types (`<u1`, NCZarr and jzarr),
    times without unit (`<M8`, zarr-python 3.1.6), a field without a name (`""`, the padding of an aligned
    struct, zarr-python 2.4 to 2.18), which is called `f1` after its position, as numpy and therefore
    zarr-python 2 name it. Refused: `|i4` and `=i4`, whose byte order is unknown.
    """
    return BFLOAT16 if data == "bfloat16" else _dtype(data, 0)


def _dtype(data: JSON, depth: int) -> np.dtype[Any]:
    if isinstance(data, str):
        return _simple(data)
    if isinstance(data, list) and data:
        if depth >= MAX_DEPTH:
            raise UnsupportedError(f"structs are nested more than {MAX_DEPTH} deep")
        return _struct(data, depth)
    raise _bad(data)


def _simple(text: str) -> np.dtype[Any]:
    if _TENSORSTORE.fullmatch(text):
        raise UnsupportedError("a data type of tensorstore that numpy does not have", found=text)
    match = _TYPESTR.fullmatch(text)
    if match is None:
        raise _bad(text)
    order, kind, unit = match["order"], match["kind"], match["unit"]
    size = None if match["size"] is None else int(match["size"])
    if kind == "O":
        if text != "|O":
            raise _bad(text)
        return np.dtype(object)
    if kind in "Mm":
        return (
            np.dtype(f"{order}{kind}8{_time_unit(text, unit)}")
            if order != "|" and size == 8
            else _refuse(text)
        )
    if unit is not None or size is None:
        raise _bad(text)
    if kind in "SUV":
        if kind == "U" and order == "|" and size:
            raise _bad(text)
        if size * (4 if kind == "U" else 1) > MAX_ITEM_BYTES:
            raise MetadataError("dtype is too large", found=text, expected=f"at most {MAX_ITEM_BYTES} bytes")
        return np.dtype(f"{order if kind == 'U' else '|'}{kind}{size}")
    if (kind, size) in _LONG:
        return _long(text, order)
    if size not in _SIZES[kind] or (order == "|" and size > 1):
        raise _bad(text)
    return np.dtype(f"{order}{kind}{size}")


def _refuse(text: str) -> np.dtype[Any]:
    raise _bad(text)


def _time_unit(text: str, unit: str | None) -> str:
    if unit is None:
        return ""
    match = _TIME_UNIT.fullmatch(unit)
    if match is None or int(match["scale"] or 1) > MAX_ITEM_BYTES:
        raise _bad(text)
    return "" if match["unit"] == "generic" else f"[{unit}]"


def _long(text: str, order: str) -> np.dtype[Any]:
    try:
        dtype = np.dtype(text) if order != "|" else None
    except TypeError:
        dtype = None
    if dtype is None:
        raise UnsupportedError("numpy on this machine has no such long double", found=text)
    return dtype


def _struct(data: list[JSON], depth: int) -> np.dtype[Any]:
    members: list[tuple[str, np.dtype[Any]]] = []
    names: set[str] = set()
    total = 0
    for place, item in enumerate(data):
        if not isinstance(item, list) or len(item) not in (2, 3) or not isinstance(item[0], str):
            raise MetadataError(
                "malformed field of a structured dtype",
                found=excerpt(item),
                expected="[name, dtype] or [name, dtype, shape]",
            )
        name = item[0] or f"f{place}"
        if name in names:
            raise MetadataError("two fields of a structured dtype have the same name", found=excerpt(name))
        names.add(name)
        dtype = _dtype(item[1], depth + 1)
        if len(item) == 3:
            dtype = _subarray(dtype, item[2])
        total += dtype.itemsize
        if total > MAX_ITEM_BYTES:
            raise MetadataError(
                "dtype is too large", found=excerpt(data), expected=f"at most {MAX_ITEM_BYTES} bytes"
            )
        members.append((name, dtype))
    return np.dtype(members)


def _subarray(dtype: np.dtype[Any], shape: JSON) -> np.dtype[Any]:
    if (
        not isinstance(shape, list)
        or len(shape) > _MAX_SUBARRAY_NDIM
        or not all(type(n) is int and 0 <= n <= MAX_ITEM_BYTES for n in shape)
    ):
        raise MetadataError(
            "malformed shape of a sub-array field", found=excerpt(shape), expected="a list of lengths"
        )
    if math.prod(shape) * max(dtype.itemsize, 1) > MAX_ITEM_BYTES:
        raise MetadataError(
            "a sub-array field is too large", found=excerpt(shape), expected=f"at most {MAX_ITEM_BYTES} bytes"
        )
    if dtype.itemsize == 0:
        raise UnsupportedError("numpy has no sub-arrays of items of zero bytes", found=excerpt(shape))
    return np.dtype((dtype, tuple(shape))) if shape else dtype


def _bad(data: JSON) -> MetadataError:
    return MetadataError(
        "not a Zarr v2 dtype",
        found=excerpt(data),
        expected="a typestr such as '<f8' or '|S5', or a list of [name, dtype]",
    )


_NUMBER: Final = re.compile(
    r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(nan|inf|infinity)", re.IGNORECASE
)
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_DATE: Final = re.compile(
    r"[+-]?[0-9]{1,18}(-[0-9]{2}(-[0-9]{2}([T ][0-9]{2}(:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,18})?)?)?)?)?)?"
)
_MAX_NUMBER: Final = 400
"""Maximum length of a number given as text; a float64 needs at most about 330 characters."""


def v2_fill_to_scalar(data: JSON, dtype: np.dtype[Any]) -> Any:
    """The value of a `fill_value` member as a native scalar of the dtype; None for null.

    MetadataError, with found and expected, for data that no reader accepts as a value of the type, or that
    readers interpret differently. For `object`, the JSON value itself is returned; `v2_object_fill` converts
    it to `string` or `bytes` once the codec is known.

    Forms beyond the specification, and their writers:

    - integer 0 for `U`, `S`, `V` and structs, "" for `V` and structs: the type's zero. Early zarr-python 2;
      2.4 to 2.18 write "" and base64. (zarr-python 3 writes "0" when given 0: this is text and remains text.)
    - whole floats for integers and times (`0.0`, z5py 3.0), 0 and 1 for bool
    - bare NaN and Infinity, which Python's JSON parser accepts; numbers as text ("1.5", "nan"), which
      zarr-python 2.18 and 3.1.6 both read
    - a finite number beyond a float type's range: infinite, as zarr-python 2.18, 3.1.6 and tensorstore 0.1.86
      read it
    - a plain number for complex: its real part
    - NaN for text: no text (pandas, xarray)
    - "NaT" for times; dates as text, in which a number is a year (zarr-python 3.0.8 to 3.0.10; 2.18 reads it)
    - text that is not base64 for `S` (zarr-python 2 before base64; 2.18 reads it)
    - an object with a value per field for structs (zarr-python 3.4.2 reads it)
    """
    if data is None or dtype.kind == "O":
        return data
    if dtype.metadata:
        return fill_from_json(data, DataType("bfloat16"))
    with refusing(data, f"a value of dtype {dtype.str if dtype.names is None else dtype}"):
        return read_fill(data, dtype, _specified)


def v2_object_fill(data: JSON, data_type: DataType) -> str | bytes:
    """The fill value of an object array that becomes `string` or `bytes`, from its JSON.

    null, "" and the integer 0 are '' and b'': zarr-python 2 writes 0 by default (observed in 2.4 and 2.18).
    A list has the numbers of bytes, as in v3.
    Text is unchanged for `string`. For `bytes` it is ambiguous: zarr-python 2.18 writes and reads plain text,
    3.1.6 and 3.4.2 base64; UnsupportedError names both readings. MetadataError for anything else.
    """
    if data is None or data == "" or (type(data) is int and data == 0):
        zero: str | bytes = zero_fill(data_type)
        return zero
    if isinstance(data, list) and data_type.name == "bytes":
        with refusing(data, "numbers of bytes"):
            return listed(data)
    if isinstance(data, str):
        if data_type.name == "string":
            return data
        raise UnsupportedError(
            "the fill value of an array of bytes is ambiguous",
            found=f"{excerpt(data)}: the text itself (zarr-python 2), or {_as_base64(data)} (zarr-python 3)",
            expected='null, 0 or ""',
            advice="Set fill_value to null if no chunk is missing, or exclude the array.",
        )
    raise MetadataError("bad fill value", found=excerpt(data), expected=f"a value of {data_type}")


def _as_base64(text: str) -> str:
    try:
        return f"base64 of {excerpt(repr(from_base64(text)))}"
    except ValueError:
        return "broken base64"


def _specified(data: JSON, dtype: np.dtype[Any]) -> JSON:
    """The specified form of a fill value that has another one."""
    kind = dtype.kind
    if kind in "SUV" and type(data) is int and data == 0:
        data = ""
    if kind in "SU" and isinstance(data, float) and math.isnan(data):
        data = ""
    if kind == "V" and dtype.hasobject:
        # zarr-python 2 stores such a fill encoded by the object codec, often pickle.
        raise UnsupportedError(
            "the fill value of a struct with objects is not supported", found=excerpt(data)
        )
    if kind == "S" and isinstance(data, str):
        return _as_bytes(data, dtype.itemsize)
    if kind == "f" and (isinstance(data, str) or _is_number(data)):
        return _rounded(data, dtype)
    if kind == "b" and _is_number(data) and data in (0, 1):
        return bool(data)
    if kind == "c" and _is_number(data):
        return [data, 0.0]
    if kind in "ium" and isinstance(data, str) and len(data) <= _MAX_NUMBER and _INTEGER.fullmatch(data):
        return int(data)
    if kind == "M" and isinstance(data, str) and _DATE.fullmatch(data):
        return _count(data, dtype)
    return data


def _count(text: str, dtype: np.dtype[Any]) -> int:
    """The integer that represents a date."""
    date = np.datetime64(text)
    result = date.astype(dtype.newbyteorder("="))
    if np.datetime_data(dtype)[0] == "generic" or result.astype(date.dtype) != date:
        raise ValueError("not a date of this unit")
    return int(result.view("i8"))


def _is_number(data: JSON) -> bool:
    return isinstance(data, int | float) and not isinstance(data, bool)


def _rounded(data: str | float, dtype: np.dtype[Any]) -> float:
    """A number as the type has it, infinite if it is beyond its range."""
    if isinstance(data, str) and (len(data) > _MAX_NUMBER or not _NUMBER.fullmatch(data)):
        raise ValueError("not a number")
    with np.errstate(over="ignore"):
        return float(np.array(float(data), dtype=dtype))


def _as_bytes(text: str, length: int) -> str:
    """The base64 of bytes that are given as plain text."""
    # Too short for base64: a character written by netcdf-c (observed in 4.9.0 and 4.9.4), "-" as well as "x".
    if not length == len(text) == 1:
        with suppress(binascii.Error):
            # zarr-python skips characters outside base64 here; the intended value is unknown, and refused.
            base64.b64decode(text)
            return text
    # Text from before base64; zarr-python 2.18 reads it the same way.
    return to_base64(text.encode("ascii"))
