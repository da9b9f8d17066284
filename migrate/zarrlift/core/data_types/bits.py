"""Bitwise equality of values: NaN payloads and the sign of zero count, byte order does not."""

from __future__ import annotations

from typing import Any

import numpy as np

_OBJECTS = frozenset({"OO", "OT", "TO", "TT"})
"""Pairs of numpy kinds that are compared value by value; T is numpy's StringDType."""


def same_bits(a: Any, b: Any) -> bool:
    """Whether two scalars or arrays hold the same values bit for bit.

    Shapes and types must be equal (`U3` is not `U4`), but byte order may differ; padding in structs is
    ignored. Objects are equal if their types and values are; floats and arrays among them are compared
    bitwise.
    """
    left, right = np.asarray(a), np.asarray(b)
    if left.shape != right.shape:
        return False
    if left.dtype.kind + right.dtype.kind in _OBJECTS:
        return all(map(_same_object, left.ravel().tolist(), right.ravel().tolist()))
    native = left.dtype.newbyteorder("=")
    if native != right.dtype.newbyteorder("="):
        return False
    if native.names is not None:
        return all(same_bits(left[name], right[name]) for name in native.names)
    if native.itemsize == 0:
        return True
    return bool(np.array_equal(_raw(left, native), _raw(right, native)))


def numbers(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """View times as their stored integers, without a copy; other arrays are unchanged.

    numpy's `astype` does not swap the bytes of times without a unit (1.26 to 2.5, observed).
    """
    if array.dtype.kind not in "mM":
        return array
    return array.view(np.dtype("i8").newbyteorder(array.dtype.byteorder))


def _raw(array: np.ndarray[Any, Any], native: np.dtype[Any]) -> np.ndarray[Any, Any]:
    # Casting between byte orders of one type only swaps bytes, which preserves NaN payloads.
    array = numbers(array)
    target = np.dtype("i8") if native.kind in "mM" else native
    contiguous = np.ascontiguousarray(array.astype(target, copy=False))
    return contiguous.reshape(-1).view(np.uint8)


def _same_object(a: Any, b: Any) -> bool:
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(_same_object, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same_object(a[key], b[key]) for key in a)
    if isinstance(a, np.ndarray | np.generic | float) and isinstance(b, np.ndarray | np.generic | float):
        return same_bits(a, b)
    return type(a) is type(b) and bool(a == b)
