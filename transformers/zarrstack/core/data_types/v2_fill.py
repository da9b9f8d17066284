"""Zarr v2 `fill_value` -> numpy scalars, strictly.

Facts: https://zarr-specs.readthedocs.io/en/latest/v2/v2.0.html#fill-value-encoding. Deviations of actual
writers from the specification are noted where they are accepted, with the writer and version observed.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any, Final

import numpy as np

from ..errors import MetadataError, UnsupportedError, ZarrstackError
from ..json_text import JSON, excerpt
from .fill_forms import from_base64
from .v3 import NAT, DataType, whole_number, zero_fill

_NUMBER: Final = re.compile(
    r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(nan|inf|infinity)", re.IGNORECASE
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
    - "NaT" for times; text that is not base64 for `S` (zarr-python 2 before base64; 2.18 reads it)
    - an object with a value per field for structs (zarr-python 3.4.2 reads it)
    """
    if data is None or dtype.kind == "O":
        return data
    try:
        return _fill(data, dtype)
    except (ValueError, TypeError, OverflowError) as error:
        if isinstance(error, ZarrstackError):
            raise
        raise MetadataError(
            "bad fill value",
            found=excerpt(data),
            expected=f"a value of dtype {dtype.str}" if dtype.names is None else f"a value of dtype {dtype}",
        ) from error


def v2_object_fill(data: JSON, data_type: DataType) -> str | bytes:
    """The fill value of an object array that becomes `string` or `bytes`, from its JSON.

    null, "" and the integer 0 are '' and b'': zarr-python 2 writes 0 by default (observed in 2.4 and 2.18).
    Text is unchanged for `string`. For `bytes` it is ambiguous: zarr-python 2.18 writes and reads plain text,
    3.1.6 and 3.4.2 base64; UnsupportedError names both readings. MetadataError for anything else.
    """
    if data is None or data == "" or (type(data) is int and data == 0):
        zero: str | bytes = zero_fill(data_type)
        return zero
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


def _fill(data: JSON, dtype: np.dtype[Any]) -> Any:
    native = dtype.newbyteorder("=")
    match dtype.kind:
        case "b":
            return np.bool_(_bool(data))
        case "i" | "u":
            return whole_number(_integer(data), native)[()]
        case "f":
            return _float(data, native)[()]
        case "c":
            parts = [data, 0.0] if isinstance(data, int | float) else data
            if not isinstance(parts, list):
                raise TypeError("not a pair")
            real, imaginary = parts
            half = native.type(0).real.dtype
            return np.stack([_float(real, half), _float(imaginary, half)]).view(native)[0]
        case "M" | "m":
            number = NAT if isinstance(data, str) and data == "NaT" else _integer(data)
            return whole_number(number, np.dtype("i8")).view(native)[()]
        case "U":
            return _text(_empty_for_zero(data), native)
        case "S":
            return _bytes(_empty_for_zero(data), native)
    return _void(_empty_for_zero(data), dtype)


def _void(data: JSON, dtype: np.dtype[Any]) -> Any:
    native = dtype.newbyteorder("=")
    if dtype.hasobject:
        # zarr-python 2 stores such a fill encoded by the object codec, often pickle.
        raise UnsupportedError(
            "the fill value of a struct with objects is not supported", found=excerpt(data)
        )
    if isinstance(data, dict) and dtype.names is not None and dtype.fields is not None:
        if data.keys() != set(dtype.names):
            raise ValueError("other fields")
        result = np.zeros((), dtype=native)
        for name in dtype.names:
            result[name] = _fill(data[name], dtype.fields[name][0])
        return result[()]
    if dtype.itemsize == 0 and data == "":
        return np.zeros((), dtype=native)[()]
    raw = from_base64(data) or bytes(dtype.itemsize)
    if len(raw) != dtype.itemsize:
        raise MetadataError(
            "a fill value has the wrong length",
            found=f"{len(raw)} bytes",
            expected=f"{dtype.itemsize} bytes of base64",
        )
    # The bytes are those of one stored element, including byte order.
    return np.frombuffer(raw, dtype=dtype).astype(native)[0]


def _text(data: JSON, native: np.dtype[Any]) -> Any:
    if not isinstance(data, str):
        raise TypeError("not a string")
    if len(data.rstrip("\0")) > native.itemsize // 4:
        raise MetadataError(
            "a fill value is too long", found=excerpt(data), expected=f"{native.itemsize // 4} characters"
        )
    return np.array(data, dtype=native)[()]


def _bytes(data: JSON, native: np.dtype[Any]) -> Any:
    if not isinstance(data, str):
        raise TypeError("not a string")
    if native.itemsize == len(data) == 1:
        # Too short for base64: a character written by netcdf-c (observed in 4.9.0 and 4.9.4), "-" as well as
        # "x".
        return np.array(data.encode("ascii"), dtype=native)[()]
    try:
        raw = from_base64(data)
    except ValueError:
        try:
            base64.b64decode(data)
        except binascii.Error:
            raw = data.encode("ascii")  # text from before base64; zarr-python 2.18 reads it the same way
        else:  # zarr-python skips characters outside base64 here; the intended value is unknown
            raise
    if len(raw.rstrip(b"\0")) > native.itemsize:
        raise MetadataError(
            "a fill value is too long", found=excerpt(data), expected=f"{native.itemsize} bytes"
        )
    return np.array(raw, dtype=native)[()]


def _empty_for_zero(data: JSON) -> JSON:
    return "" if type(data) is int and data == 0 else data


def _bool(data: JSON) -> bool:
    if data not in (0, 1) or isinstance(data, str):
        raise ValueError("not a truth value")
    return bool(data)


def _integer(data: JSON) -> int:
    if isinstance(data, str) and len(data) <= _MAX_NUMBER and re.fullmatch(r"[+-]?[0-9]+", data):
        return int(data)
    if isinstance(data, float) and data.is_integer():
        return int(data)
    if type(data) is not int:
        raise TypeError("not an integer")
    return data


def _float(data: JSON, native: np.dtype[Any]) -> np.ndarray[Any, Any]:
    if isinstance(data, str) and (len(data) > _MAX_NUMBER or not _NUMBER.fullmatch(data)):
        raise ValueError("not a number")
    if not isinstance(data, str | int | float) or isinstance(data, bool):
        raise TypeError("not a number")
    with np.errstate(over="ignore"):
        return np.array(float(data), dtype=native)
