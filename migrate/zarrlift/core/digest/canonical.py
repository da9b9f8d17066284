"""The canonical form of values: unsigned whole numbers, whatever byte order and memory order they have."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from zarrstack.core.errors import UnsupportedError
from zarrstack.core.json_text import JSON

from ..data_types.bits import numbers
from ..data_types.numpy_types import VARIABLE
from ..data_types.v3 import DataType, fill_from_json
from .box_sum import Words

UNIT: Final = 16
"""Bytes of a number. Longer values have several, along an axis of their own."""


def canonical_type(data_type: DataType) -> JSON:
    """One name for all data types with the same values, as in a `zarr.json`."""
    if data_type.name in VARIABLE:
        return "bytes" if data_type.known.name == "bytes" else "string"
    try:
        return DataType.from_numpy(data_type.numpy).to_json()
    except UnsupportedError:  # readable, but never written
        return data_type.known.to_json()


def fill_bytes(data_type: DataType, fill_value: JSON) -> bytes:
    """The bytes of the fill value: little-endian, or as UTF-8."""
    fill = fill_from_json(fill_value, data_type)
    if data_type.name in VARIABLE:
        # A fill value of Python objects that is not text becomes the empty string.
        if data_type.name == "object" and not isinstance(fill, str):
            fill = ""
        return _encoded(fill)
    return _little_endian(np.asarray(fill), data_type).tobytes()


def fill_units(data_type: DataType, fill: bytes) -> list[int]:
    """The numbers of the fill value with these bytes."""
    data = _hashed(fill) if data_type.name in VARIABLE else fill
    return [int.from_bytes(data[at : at + UNIT], "little") for at in range(0, len(data), UNIT)] or [0]


def words_of(values: npt.NDArray[Any], data_type: DataType) -> Words:
    """The words of values (`box_sum.Words`); of values longer than `UNIT`, with a further axis of units."""
    if data_type.name in VARIABLE:
        items = values.reshape(-1).tolist()
        hashed = b"".join([_hashed(_encoded(item)) for item in items])
        return np.frombuffer(hashed, dtype="<u2").reshape(*values.shape, UNIT // 2)
    size = data_type.numpy.itemsize
    if size == 0:
        return np.zeros((*values.shape, 1), dtype=np.uint8)
    plain = _little_endian(values, data_type)
    axes = sorted(range(plain.ndim), key=lambda axis: -abs(plain.strides[axis]))
    # In the order of memory, so that an array in Fortran order is not copied.
    ordered = np.ascontiguousarray(plain.transpose(axes)).reshape(-1)
    words = _divided(ordered.view(np.uint8), size)
    words = words.reshape(*(plain.shape[axis] for axis in axes), *_word_shape(size))
    back = [axes.index(axis) for axis in range(plain.ndim)]
    return words.transpose(*back, *range(plain.ndim, words.ndim))


def _word_shape(size: int) -> Sequence[int]:
    if size == 1:
        return (1,)
    return (-(-size // 2),) if size <= UNIT else (-(-size // UNIT), UNIT // 2)


def _divided(items: npt.NDArray[np.uint8], size: int) -> Words:
    """Values of `size` bytes as words; padded with zeros where their number is not whole."""
    if size == 1:
        return items
    whole = -(-size // 2) * 2 if size <= UNIT else -(-size // UNIT) * UNIT
    if whole != size:
        padded = np.zeros((len(items) // size, whole), dtype=np.uint8)
        padded[:, :size] = items.reshape(-1, size)
        items = padded.reshape(-1)
    return items.view("<u2")


def _little_endian(values: npt.NDArray[Any], data_type: DataType) -> npt.NDArray[Any]:
    """The same bits in little-endian order, without padding between fields."""
    plain = numbers(values)
    native = np.dtype("i8") if plain is not values else data_type.numpy
    return plain.astype(native.newbyteorder("<"), copy=False)


def _encoded(value: object) -> bytes:
    if isinstance(value, str):
        return b"s" + value.encode("utf-8", "surrogatepass")
    if isinstance(value, bytes):
        return b"b" + value
    raise UnsupportedError(
        "the digest of an array of Python objects covers text and bytes only",
        found=type(value).__name__,
    )


def _hashed(encoded: bytes) -> bytes:
    return hashlib.blake2b(encoded, digest_size=UNIT).digest()
