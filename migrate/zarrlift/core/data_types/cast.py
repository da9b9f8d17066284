"""Casts that are checked: a value the new type cannot hold is an error, never another value.

| from -> to | exact | what `round` and `clamp` allow |
| --- | --- | --- |
| bool, integer -> bool, integer | the same number | clamp: the nearest number the type holds |
| integer, float -> float | the same number | round: the nearest (ties to even); clamp: the largest finite |
| float -> bool, integer | the same number | round: the nearest integer (ties to even); clamp: as above |
| complex -> real | the imaginary part is 0 | nothing beyond that |
| times -> times, another unit | the same instant or length | nothing |
| text -> text, bytes -> bytes | every character | nothing |

bool counts as the integers 0 and 1. NaN has no integer, so that is an error under every
casting; NaN stays NaN (its payload may not) and infinities stay infinite in floats, and
clamp in integers. NaT stays NaT. Between numbers, text, bytes, times and structs nothing is cast.
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from zarrstack.core.errors import CastError

from .v3 import DataType

Casting: TypeAlias = Literal["exact", "clamp", "round", "clamp+round"]


Array = npt.NDArray[Any]

_FAMILIES: Final = {"b": "number", "i": "number", "u": "number", "f": "number", "c": "number"} | {
    "U": "text",
    "S": "bytes",
    "M": "datetime",
    "m": "timedelta",
}


def cast_refusal(source: DataType, target: DataType) -> str | None:
    """Why no value of one type is cast to the other, or None if values decide."""
    if source == target or _family(source) == _family(target) is not None:
        if _family(source) in ("datetime", "timedelta") and source != target:
            units = {source.configuration["unit"], target.configuration["unit"]}
            if "generic" in units:
                return "times without a unit have no meaning in another"
            if _family(source) == "timedelta" and len(units & {"Y", "M"}) == 1:
                return "months and years have no fixed length in other units"
        return None
    return "there is no cast between these data types"


def _family(data_type: DataType) -> str | None:
    if data_type.name in ("string", "bytes"):
        return {"string": "text", "bytes": "bytes"}[data_type.name]
    return _FAMILIES.get(data_type.numpy.kind)


def cast(array: Array, dtype: np.dtype[Any], casting: Casting = "exact") -> Array:
    """The array's values as `dtype`, same shape.

    `object` stands for `string` and `bytes`. Raises CastError that names the first value that
    cannot be represented and its index, in C order.
    """
    if array.dtype == dtype:
        return array
    kinds = array.dtype.kind, dtype.kind
    if set(kinds) <= set("biufc"):
        if kinds[0] == "c":
            return _from_complex(array, dtype, casting)
        if kinds[1] == "c":
            return _real(array, _part(dtype), casting).astype(dtype)
        return _real(array, dtype, casting)
    if set(kinds) <= {"U", "O"} or set(kinds) <= {"S", "O"}:
        return _text(array, dtype)
    if kinds[0] == kinds[1] and kinds[0] in "Mm":
        return _times(array, dtype)
    raise CastError("there is no cast between these data types", found=str(array.dtype), expected=str(dtype))


# ----- numbers


def _from_complex(array: Array, dtype: np.dtype[Any], casting: Casting) -> Array:
    if dtype.kind != "c":
        _refuse(array.imag != 0, array, dtype, "a complex number is not real")
        return _real(array.real, dtype, casting)
    result = np.empty(array.shape, dtype=dtype)
    result.real = _real(array.real, _part(dtype), casting)
    result.imag = _real(array.imag, _part(dtype), casting)
    return result


def _part(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(f"f{dtype.itemsize // 2}")


def _real(array: Array, dtype: np.dtype[Any], casting: Casting) -> Array:
    if array.dtype == dtype:
        return array
    if array.dtype.kind == "b":
        return array.astype(dtype)
    if dtype.kind == "f":
        return _to_float(array, dtype, casting)
    return _to_integer(array, dtype, casting)


def _to_integer(array: Array, dtype: np.dtype[Any], casting: Casting) -> Array:
    low, high = (0, 1) if dtype.kind == "b" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
    values = array
    if array.dtype.kind == "f":
        values = array.astype("f8")  # float16 and float32 widen without loss
        _refuse(np.isnan(values), array, dtype, "NaN is not an integer")
        if "round" in casting:
            values = np.rint(values)
    below, above = _outside(values, low, high)
    if "clamp" not in casting:
        _refuse(below | above, array, dtype, "a value is out of range", "clamp")
    if array.dtype.kind == "f":
        outside = below | above
        _refuse(~outside & (values != np.trunc(values)), array, dtype, "a value is not an integer", "round")
        values = np.where(outside, 0.0, values)
    result = np.asarray(values).astype(dtype)
    if "clamp" in casting:
        result = np.where(below, dtype.type(low), np.where(above, dtype.type(high), result))
    return np.asarray(result)


def _outside(values: Array, low: int, high: int) -> tuple[Array, Array]:
    """Masks of the values below `low` and above `high`, compared as exact numbers."""
    if values.dtype.kind == "f":
        # `high` of 64-bit types is no float64, `high + 1` always is; below 2**53 all are.
        above = values > high if high < 2**53 else values >= float(high + 1)
        return np.asarray(values < float(low)), np.asarray(above)
    own = np.iinfo(values.dtype)
    below = values < low if low > own.min else np.zeros(values.shape, bool)
    above = values > high if high < own.max else np.zeros(values.shape, bool)
    return np.asarray(below), np.asarray(above)


def _to_float(array: Array, dtype: np.dtype[Any], casting: Casting) -> Array:
    largest = np.finfo(dtype).max
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        result = np.asarray(array.astype(dtype))
        if array.dtype.kind == "f":
            finite = np.isfinite(array)
            large = finite & (np.abs(array.astype("f8")) > np.float64(largest))
            same = (result.astype(array.dtype) == array) | ~finite
        else:
            large = np.abs(array.astype("f8")) > np.float64(largest)
            same = _same_integer(array, result)
    if "clamp" in casting:
        result = np.asarray(np.where(large, np.copysign(largest, array.astype("f8")).astype(dtype), result))
        same = same | large
    else:
        overflows = np.isinf(result)
        if array.dtype.kind == "f":
            overflows &= np.isfinite(array)
        _refuse(overflows, array, dtype, "a value is out of range", "clamp")
    if "round" not in casting:
        _refuse(~same, array, dtype, "a value would be rounded", "round")
    return result


def _same_integer(array: Array, result: Array) -> Array:
    """Where floats made from integers are still equal to them."""
    wide = result.astype("f8")
    top = float(int(np.iinfo(array.dtype).max) + 1)
    inside = (wide < top) & (wide >= float(np.iinfo(array.dtype).min))
    return np.asarray(inside & (np.where(inside, wide, 0.0).astype(array.dtype) == array))


# ----- times and text


def _times(array: Array, dtype: np.dtype[Any]) -> Array:
    try:
        result = array.astype(dtype)
    except OverflowError:  # numpy 2.5
        overflows = np.array([_overflows(value, dtype) for value in array.reshape(-1)], dtype=bool)
        _refuse(overflows.reshape(array.shape), array, dtype, "a time cannot be represented in this unit")
        raise
    # Before, numpy wraps silently where a count overflows; the way back then leads elsewhere.
    missing = np.isnat(array)
    changed = (result.astype(array.dtype) != array) & ~missing
    changed |= np.isnat(result) != missing
    _refuse(changed, array, dtype, "a time cannot be represented in this unit")
    return result


def _overflows(value: Any, dtype: np.dtype[Any]) -> bool:
    try:
        np.asarray(value).astype(dtype)
    except OverflowError:
        return True
    return False


def _text(array: Array, dtype: np.dtype[Any]) -> Array:
    result: Array
    if dtype.kind == "O":
        result = np.empty(array.shape, dtype=object)
        result[...] = array.astype(object)
        return result
    result = np.asarray(array.astype(dtype))
    kind: type = str if dtype.kind == "U" else bytes
    flat = array.reshape(-1)
    # numpy cuts what is too long, and the zeros at the end of what is not.
    changed = [
        not isinstance(value, kind) or value != short
        for value, short in zip(flat.tolist(), result.reshape(-1).tolist(), strict=True)
    ]
    _refuse(np.array(changed, dtype=bool).reshape(array.shape), array, dtype, "a text does not fit")
    return result


def _refuse(bad: Array, array: Array, dtype: np.dtype[Any], message: str, remedy: str | None = None) -> None:
    if not bad.any():
        return
    first = np.argwhere(bad)[0] if array.ndim else ()
    index = tuple(int(axis) for axis in first)
    value = array[index]
    found = repr(value.item() if isinstance(value, np.generic) and value.dtype.kind not in "Mm" else value)
    if isinstance(value, np.datetime64 | np.timedelta64):
        found = str(value)
    raise CastError(
        message,
        found=f"{found[:80]} at {index}",
        expected=f"a value of {dtype.name}",
        advice=None if remedy is None else f"Use --{remedy} (casting {remedy!r}) if that is intended.",
    )
