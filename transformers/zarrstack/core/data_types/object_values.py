"""Conversion of Python objects in legacy object arrays to v3's strings or bytes.

json2, msgpack2 and categorize arrays hold arbitrary objects. In Zarr v3 they become `string` if every value
is a str; other values are refused by name, or every value is written as JSON text with `--objects json`.
"""

from __future__ import annotations

import base64
import json
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ..errors import CastError


def to_strings(array: npt.NDArray[Any], objects: Literal["refuse", "json"]) -> npt.NDArray[np.object_]:
    """Convert every value to str; CastError that names the first value of another type."""
    result = np.empty(array.shape, dtype=object)
    flat, values = result.reshape(-1), array.reshape(-1)
    for index in range(array.size):
        value = values[index]
        if objects == "json":
            flat[index] = json.dumps(plain(value), ensure_ascii=False, allow_nan=False)
        elif isinstance(value, str):
            flat[index] = str(value)
        else:
            place = tuple(int(n) for n in np.unravel_index(index, array.shape))
            raise CastError(
                "an object is not a str",
                found=f"{type(value).__name__} {value!r:.80} at {place} of the chunk",
                expected="str in every place",
                advice="Use --objects json to write each value as JSON text.",
            )
    return result


def plain(value: Any) -> Any:
    """Convert a value to JSON types; values that JSON lacks take the form of v3 fill values.

    Arrays are lists, structs are objects, complex numbers are pairs, long doubles are decimal text, times are
    whole numbers of their unit, bytes are base64, and non-finite numbers are "NaN", "Infinity", "-Infinity"
    or "NaT".
    """
    if isinstance(value, np.ndarray):
        return [plain(item) for item in value]
    if isinstance(value, np.void) and value.dtype.names:
        return {name: plain(value[name]) for name in value.dtype.names}
    if isinstance(value, np.generic):
        return _plain_scalar(value)
    if isinstance(value, float) and not np.isfinite(value):
        return "NaN" if np.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, complex):
        return [plain(value.real), plain(value.imag)]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    raise CastError(
        "an object has no JSON form", found=f"{type(value).__name__} {value!r:.80}", expected="JSON values"
    )


def _plain_scalar(value: np.generic) -> Any:
    if isinstance(value, np.datetime64 | np.timedelta64):
        return "NaT" if np.isnat(value) else int(value.view("i8"))
    if value.dtype.kind == "c":
        complex_value: Any = value
        return [plain(complex_value.real), plain(complex_value.imag)]
    if value.dtype.char == "g" and np.isfinite(value):
        return np.format_float_scientific(value, trim="0")  # type: ignore[arg-type]
    if value.dtype.kind == "f":
        return plain(float(value))
    return plain(value.tobytes() if value.dtype.kind == "V" else value.item())
