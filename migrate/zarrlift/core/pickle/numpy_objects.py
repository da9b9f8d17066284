"""numpy's dtypes, scalars and arrays in pickles, validated and built without unpickling.

numpy's `__setstate__` trusts its input (offsets of fields, sizes, flags), so it is unsafe for untrusted data.
Here a dtype is built from names and typestrs of a closed set, and must match the pickle's description.

Facts: numpy 1.26 and 2.2, `numpy/_core/src/multiarray/{descriptor,methods,scalartypes}.c`:

    dtype   (typestr, align, copy), then a state
            (version, byte order, sub-array, names, fields, item size, alignment, flags[, metadata])
    array   (version, shape, dtype, in Fortran order, bytes or a list of the items in C order)
    scalar  (dtype, bytes)
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from zarrstack.core.errors import UnsupportedError
from zarrstack.core.json_text import excerpt

from ..data_types.numpy_types import MAX_ITEM_BYTES

_TYPESTR: Final = re.compile(r"[<>|=]?(?P<kind>[biufcSUVO])(?P<size>0|[1-9][0-9]{0,8})")
_SIZES: Final = {"b": (1,), "i": (1, 2, 4, 8), "u": (1, 2, 4, 8), "f": (2, 4, 8), "c": (8, 16), "O": (8,)}
_MAX_AXES: Final = 32
_MAX_FIELDS: Final = 1000
_PLAIN: Final = (str, bytes, int, float, bool, type(None))


class Unfinished(ABC):
    """An object that a pickle creates in two steps: first its name, then its state."""

    @abstractmethod
    def build(self, state: Any) -> None:
        """Set the state; UnsupportedError or ValueError if numpy does not write such a state."""


class Dtype(Unfinished):
    """A numpy dtype under construction."""

    def __init__(self, kind: str, size: int) -> None:
        self._kind = kind
        self._size = size
        self._dtype: np.dtype[Any] | None = None

    @classmethod
    def named(cls, arguments: tuple[Any, ...]) -> Dtype:
        """First step: the typestr."""
        text = arguments[0]
        match = _TYPESTR.fullmatch(text) if type(text) is str else None
        if match is None:
            raise refused(f"numpy.dtype of {text!r:.40}" if type(text) is str else "numpy.dtype of no text")
        kind, size = match["kind"], int(match["size"])
        if size not in _SIZES.get(kind, (size,)) or size > MAX_ITEM_BYTES:
            raise refused(f"numpy.dtype of {text!r}")
        return cls(kind, size)

    def build(self, state: Any) -> None:
        """Second step: byte order, and the fields of a struct."""
        if type(state) is not tuple or not 8 <= len(state) <= 9 or state[0] not in (3, 4):
            raise ValueError("a state that is not a dtype's")
        _, order, subarray, names, fields, size = state[:6]
        if order not in ("<", ">", "|", "=") or subarray is not None:
            raise refused("numpy.dtype of sub-arrays")
        self._dtype = self._simple(order) if names is None else self._struct(names, fields, size)

    def _simple(self, order: str) -> np.dtype[Any]:
        if self._kind == "O":
            return np.dtype(object)
        return np.dtype(f"{'=' if order == '|' else order}{self._kind}{self._size}")

    def _struct(self, names: Any, fields: Any, size: Any) -> np.dtype[Any]:
        if self._kind != "V" or type(names) is not tuple or type(fields) is not dict:
            raise ValueError("fields of something that is not a struct")
        if len(names) > _MAX_FIELDS or any(type(name) is not str for name in names):
            raise ValueError("invalid names")
        if set(names) != set(fields):
            raise ValueError("names that are not fields")
        members = []
        offset = 0
        for name in names:
            inner, place = fields[name][:2]
            if not isinstance(inner, Dtype) or place != offset or inner.dtype.names is not None:
                raise refused("numpy.dtype of a struct with gaps or structs inside")
            members.append((name, inner.dtype))
            offset += inner.dtype.itemsize
        if offset != size or offset > MAX_ITEM_BYTES:
            raise refused("numpy.dtype of a struct with gaps")
        return np.dtype(members)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The finished dtype."""
        return self._simple("|") if self._dtype is None else self._dtype


class Scalar:
    """Converts numpy scalars to Python values; structs to tuples."""

    @staticmethod
    def of(dtype: Any, raw: Any) -> Any:
        """The value; fixed-size types only, because objects in a struct are not bytes."""
        if not isinstance(dtype, Dtype):
            raise refused("a numpy scalar without a dtype")
        if dtype.dtype.hasobject or type(raw) is not bytes or len(raw) != dtype.dtype.itemsize:
            raise refused(f"a numpy scalar of {dtype.dtype}")
        if not raw:
            return "" if dtype.dtype.kind == "U" else b""
        return np.frombuffer(raw, dtype.dtype)[0].item()


class StoredArray(Unfinished):
    """A numpy array under construction."""

    def __init__(self, spend: Callable[[int], None], payload: int) -> None:
        self._spend = spend
        self._payload = payload
        self._array: np.ndarray[Any, Any] | None = None

    def build(self, state: Any) -> None:
        """Set shape, dtype, order and data."""
        _, shape, dtype, fortran, data = state
        if not isinstance(dtype, Dtype) or self._array is not None:
            raise ValueError("a state that is not an array's")
        native = dtype.dtype
        if type(shape) is not tuple or len(shape) > _MAX_AXES:
            raise ValueError("an invalid shape")
        if any(type(length) is not int or length < 0 for length in shape):
            raise ValueError("an invalid shape")
        items = math.prod(shape)
        if items > self._payload:
            raise ValueError("more items than the payload has bytes")
        self._spend(items * max(native.itemsize, 8))
        if native.hasobject:
            flat = _of_objects(native, data, items)
        else:
            if type(data) is not bytes or len(data) != items * native.itemsize:
                raise ValueError("data that do not fill the array")
            flat = np.frombuffer(data, native) if native.itemsize else np.zeros(items, native)
        self._array = flat.reshape(shape, order="F" if fortran else "C")

    def finish(self) -> np.ndarray[Any, Any]:
        """The array; ValueError without a state."""
        if self._array is None:
            raise ValueError("an array without a state")
        return self._array


def _of_objects(dtype: np.dtype[Any], data: Any, items: int) -> np.ndarray[Any, Any]:
    """An array of objects, or of structs with objects, from the list of its items."""
    if type(data) is not list or len(data) != items:
        raise ValueError("a list that does not fill the array")
    flat = np.empty(items, dtype)
    if dtype.names is None:
        for index, item in enumerate(data):
            check_plain(item)
            flat[index] = item
        return flat
    for index, row in enumerate(data):
        if type(row) is not tuple or len(row) != len(dtype.names):
            raise ValueError("a row that does not fit its fields")
        check_plain(row)
        flat[index] = row
    return flat


def check_plain(value: Any) -> None:
    """Refuse anything but str, bytes, numbers, None, tuples of those, and references."""
    kind = type(value)
    if kind in _PLAIN:
        return
    if kind is dict or kind is tuple:
        for item in value.values() if kind is dict else value:
            if type(item) in _PLAIN:
                continue
            if kind is tuple and type(item) is dict and all(type(v) in _PLAIN for v in item.values()):
                continue
            raise refused(f"a {kind.__name__} that holds a {type(item).__name__}")
        return
    raise refused(f"an item of type {kind.__name__}")


def refused(what: str) -> UnsupportedError:
    """The error for content that plain data does not need."""
    return UnsupportedError(
        "a pickle contains more than references, numpy arrays and text",
        found=excerpt(what)[:200],
        advice="None of it was executed. If you trust the writer of this archive, use --conventions none "
        "with --allow-pickle, or exclude the array.",
    )
