"""Python objects out of legacy object arrays, as the strings or bytes v3 can name.

json2, msgpack2 and categorize arrays hold whatever was put into them. In Zarr v3 they
become `string` if every value is a str; other values are refused by name, or each value
is written as JSON text where the user asked for it (`--objects json`).
"""

from __future__ import annotations

import json
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from zarrstack.core.errors import CastError


def to_strings(array: npt.NDArray[Any], objects: Literal["refuse", "json"]) -> npt.NDArray[np.object_]:
    """The array with a str for every value; raises CastError that names the first other value."""
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
    """A value in terms of JSON; numbers JSON lacks become the strings that fill values use."""
    if isinstance(value, np.ndarray):
        return [plain(item) for item in value]
    if isinstance(value, np.void) and value.dtype.names:
        return {name: plain(value[name]) for name in value.dtype.names}
    if isinstance(value, np.longdouble) and not isinstance(value, np.float64):
        return np.format_float_scientific(value, trim="0")
    if isinstance(value, np.generic):
        return plain(value.item())
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
    raise CastError(
        "an object has no JSON form", found=f"{type(value).__name__} {value!r:.80}", expected="JSON values"
    )
