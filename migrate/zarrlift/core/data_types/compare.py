"""Bitwise comparison of two arrays, with the first difference.

NaN payloads and the sign of zero count; memory order, byte order, and padding between a struct's fields or
behind a long double do not. Strings and bytes are compared as values, because zarr-python returns them as
numpy's `StringDType` or as objects, depending on its version.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from zarrstack.core.errors import CastError

from .object_values import plain, tagged_form

Values: TypeAlias = npt.NDArray[Any]

_WORDS: Final = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_LONG_DOUBLES: Final = frozenset("gG")
"""numpy's characters of `longdouble` and `clongdouble`."""
_X87: Final = 10
"""Bytes of the long doubles of x86. numpy stores them in 12 or 16, and does not set the others."""
_SHOWN: Final = 80
"""Characters of a value shown in a message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """A difference between two arrays."""

    count: int
    """Number of differing elements."""
    index: tuple[int, ...]
    """Coordinates of the first one, in C order."""
    found: str
    expected: str


def mismatch(found: Values, expected: Values) -> Mismatch | None:
    """The first difference between two arrays and the number of differences; None if they are equal.

    Arrays of different shape or data type differ as a whole.
    """
    if found.shape != expected.shape:
        return _whole(expected.size, f"shape {found.shape}", f"shape {expected.shape}")
    if kind(found.dtype) != kind(expected.dtype):
        return _whole(expected.size, f"data type {kind(found.dtype)}", f"data type {kind(expected.dtype)}")
    if found.size == 0:
        return None
    different = _different(found, expected)
    if different is None:
        return None
    found, expected = _stored(found), _stored(expected)
    first = int(np.argmax(different.reshape(-1)))
    index = tuple(int(i) for i in np.unravel_index(first, found.shape))
    return Mismatch(
        count=int(np.count_nonzero(different)),
        index=index,
        found=shown(found[index]),
        expected=shown(expected[index]),
    )


def same_bits(a: Any, b: Any) -> bool:
    """Whether two scalars or arrays have the same shape and the same values, bit for bit."""
    left, right = np.asarray(a), np.asarray(b)
    same_kind = left.shape == right.shape and kind(left.dtype) == kind(right.dtype)
    return same_kind and (left.size == 0 or _different(left, right) is None)


def _whole(size: int, found: str, expected: str) -> Mismatch:
    return Mismatch(count=max(size, 1), index=(), found=found, expected=expected)


def kind(dtype: np.dtype[Any]) -> str:
    """One text for all numpy types with the same values.

    Byte order and the offsets of fields, which affect only memory layout, are omitted.
    """
    if dtype.names is not None:
        fields = (f"{name!r}: {kind(dtype[name])}" for name in dtype.names)
        return "{" + ", ".join(fields) + "}"
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return f"{kind(base)}{list(shape)}"
    if dtype.kind in "OT":
        return "variable-length"
    return dtype.newbyteorder("=").str[1:]


def _different(found: Values, expected: Values) -> npt.NDArray[np.bool_] | None:
    """A mask of the differing elements, or None if there are none."""
    if found.dtype.names is not None:
        masks = [
            mask
            for name in found.dtype.names
            if (mask := _different(found[name], expected[name])) is not None
        ]
        if not masks:
            return None
        # The mask of a sub-array field has more axes than the array.
        flat = [mask.reshape(*found.shape, -1).any(axis=-1) for mask in masks]
        return np.asarray(np.logical_or.reduce(flat))
    if found.dtype.kind in "OT":
        mine, theirs = _objects(found), _objects(expected)
        pairs = zip(mine.reshape(-1), theirs.reshape(-1), strict=True)
        flags = np.fromiter((not same(a, b) for a, b in pairs), dtype=bool, count=found.size)
        return flags.reshape(found.shape) if flags.any() else None
    mine, theirs = _words(found), _words(expected)
    if np.array_equal(mine, theirs):
        return None
    mask = np.asarray(mine != theirs)
    return mask if mask.ndim == found.ndim else np.asarray(mask.any(axis=-1))


def _objects(values: Values) -> Values:
    return values if values.dtype.kind == "O" else values.astype(object)


def _words(values: Values) -> Values:
    """The bits of fixed-size values as unsigned integers; items of other widths get an additional axis."""
    values = _stored(values)
    native = values.dtype.newbyteorder("=")
    # Not ascontiguousarray, which adds an axis to 0-d arrays.
    plain = np.array(values, dtype=native, order="C", copy=None if _copies_if_needed() else False)
    word = _WORDS.get(native.itemsize)
    if word is not None:
        return plain.view(word)
    if native.itemsize == 0:
        return np.zeros(values.shape, np.uint8)
    octets = plain.reshape(*plain.shape, 1).view(np.uint8)
    if native.char in _LONG_DOUBLES and np.finfo(np.longdouble).nmant == 63:
        # A complex item has two.
        long_doubles = octets.reshape(*plain.shape, -1, np.dtype(np.longdouble).itemsize)
        octets = long_doubles[..., :_X87].reshape(*plain.shape, -1)
    return octets


def _stored(values: Values) -> Values:
    """Times without a unit as integers: numpy neither swaps their bytes nor prints them (2.4.6)."""
    if values.dtype.kind not in "mM" or np.datetime_data(values.dtype)[0] != "generic":
        return values
    return values.view(np.dtype("i8").newbyteorder(values.dtype.byteorder))


def _copies_if_needed() -> bool:
    """Whether numpy is 2 or newer: "copy only if needed" is False in numpy 1, None in numpy 2."""
    return int(np.__version__.split(".", 1)[0]) >= 2


def same(found: object, expected: object) -> bool:
    """Whether two objects are the same value, of the same type, at every depth.

    Types count (True is not 1, 1 is not 1.0), numpy scalars equal the corresponding Python values, and floats
    are compared bitwise.
    """
    found, expected = _plain(found), _plain(expected)
    if isinstance(found, np.ndarray) and isinstance(expected, np.ndarray):
        return mismatch(found, expected) is None
    if isinstance(found, np.generic) and isinstance(expected, np.generic):
        # Types that Python does not have: structs, long doubles, times.
        return mismatch(np.asarray(found), np.asarray(expected)) is None
    if type(found) is not type(expected):
        return False
    if isinstance(found, float) and isinstance(expected, float):
        return struct.pack("<d", found) == struct.pack("<d", expected)
    if isinstance(found, (list, tuple)) and isinstance(expected, (list, tuple)):
        return len(found) == len(expected) and all(map(same, found, expected))
    if isinstance(found, dict) and isinstance(expected, dict):
        return found.keys() == expected.keys() and all(same(found[k], expected[k]) for k in expected)
    return bool(found == expected)


def _plain(value: object) -> object:
    return value.item() if isinstance(value, np.generic) and value.dtype.kind in "biufSU" else value


def shown(value: object) -> str:
    """A short text for a message, with the bits where the text would hide them."""
    if isinstance(value, np.ndarray) and value.ndim == 0 and value.dtype.kind != "O":
        value = value[()]
    try:
        text = repr(_plain(value))
    except ValueError:  # a struct with a datetime without a unit
        text = f"bytes {value.tobytes().hex()}" if isinstance(value, np.void) else object.__repr__(value)
    if isinstance(value, np.inexact) and not np.all(np.isfinite(value)):
        text += f" (bits {_words(np.asarray(value)).tobytes()[::-1].hex()})"
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def matches_json_text(text: object, value: object, *, tagged: bool = False) -> bool:
    """Whether `text` is JSON for `value`, as written by `--set objects=json`.

    `tagged`: with the names of types that JSON lacks, as where values may be of any type.
    """
    if not isinstance(text, str):
        return False
    try:
        return same(json.loads(text), tagged_form(value) if tagged else plain(value))
    except (ValueError, CastError):
        return False


def part_of(values: Values, region: tuple[slice, ...]) -> Values:
    """A view of a region; unlike plain indexing, also of a 0-d array (numpy would return a scalar)."""
    place: tuple[Any, ...] = (*region, ...)
    return np.asarray(values[place])


def region_text(region: tuple[slice, ...]) -> str:
    """A region in slice notation, such as `[0:64, 128:192]`."""
    return "[" + ", ".join(f"{axis.start}:{axis.stop}" for axis in region) + "]"
