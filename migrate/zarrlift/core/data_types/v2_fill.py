"""Zarr v2 `fill_value` -> numpy scalars, strictly.

Facts: https://zarr-specs.readthedocs.io/en/latest/v2/v2.0.html#fill-value-encoding. Deviations of actual
writers from the specification are noted where they are accepted, with the writer and version observed.
"""

from __future__ import annotations

import base64
import binascii
import re
from contextlib import suppress
from typing import Any, Final

import numpy as np

from zarrstack.core.errors import MetadataError, UnsupportedError
from zarrstack.core.json_text import JSON, excerpt

from .fill_forms import from_base64, read_fill, refusing, to_base64
from .v3 import DataType, zero_fill

_NUMBER: Final = re.compile(
    r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(nan|inf|infinity)", re.IGNORECASE
)
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
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
    with refusing(data, f"a value of dtype {dtype.str if dtype.names is None else dtype}"):
        return read_fill(data, dtype, _specified)


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


def _specified(data: JSON, dtype: np.dtype[Any]) -> JSON:
    """The specified form of a fill value that has another one."""
    kind = dtype.kind
    if kind in "SUV" and type(data) is int and data == 0:
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
    if kind in "iuMm" and isinstance(data, str) and len(data) <= _MAX_NUMBER and _INTEGER.fullmatch(data):
        return int(data)
    return data


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
