"""The digest of an array's values: a sum for each fixed block of the index space.

The sum of a block is that of key(position) * (value - fill value) modulo 2^128, where values are unsigned
whole numbers with their little-endian bits, whatever byte order and memory order they have. Elements that
equal the fill value add nothing, and parts of an array may be added in any order and any division. It detects
errors, not forgery.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from zarrstack.core.errors import MetadataError, UnsupportedError
from zarrstack.core.json_text import JSON, JSONObject, canonical, excerpt

from ..data_types.bits import numbers
from ..data_types.numpy_types import VARIABLE
from ..data_types.v3 import DataType, fill_from_json
from ..grid.grid import Grid
from ..shapes import read_lengths
from .box_sum import Axis, Words, sum_of_box
from .position_keys import MODULUS, key_of, sum_of_keys

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


_BLOCK: Final = 1 << 24
_MOST_BLOCKS: Final = 1 << 16
_NUMBER, _SUM = 8, 16
"""Bytes of a block's number and of its sum in `BlockSums.to_bytes`."""


def block_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """Shape of the blocks of an array, which depends on its shape only.

    Every length is at first the next power of two of the axis. The longest (the first of several) is halved
    until a block has at most 2^24 elements or, of a larger array, a 65,536th of it.
    """
    sides = [1 << max(length - 1, 0).bit_length() for length in shape]
    most = max(_BLOCK, -(-prod(shape) // _MOST_BLOCKS))
    while prod(sides) > most:
        longest = sides.index(max(sides))
        sides[longest] //= 2
    return tuple(sides)


class BlockSums:
    """Sums by linear index of the block; those that are 0 are left out. Picklable."""

    def __init__(self, sums: Mapping[int, int] | None = None) -> None:
        self.sums: dict[int, int] = dict(sums or {})

    def add(self, block: int, number: int) -> None:
        """Add to the sum of one block."""
        total = (self.sums.pop(block, 0) + number) % MODULUS
        if total:
            self.sums[block] = total

    def update(self, other: BlockSums) -> None:
        """Add the sums of other parts of the same array."""
        for block, number in other.sums.items():
            self.add(block, number)

    def to_bytes(self) -> bytes:
        """The sums as bytes, 24 for each block."""
        return b"".join(
            block.to_bytes(_NUMBER, "little") + number.to_bytes(_SUM, "little")
            for block, number in sorted(self.sums.items())
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Inverse of `to_bytes`."""
        return cls(
            {
                int.from_bytes(data[at : at + _NUMBER], "little"): int.from_bytes(
                    data[at + _NUMBER : at + _NUMBER + _SUM], "little"
                )
                for at in range(0, len(data), _NUMBER + _SUM)
            }
        )


class ValueSums:
    """Adds up the values of one array; shared between threads."""

    def __init__(self, shape: tuple[int, ...], data_type: DataType, fill_value: JSON) -> None:
        """MetadataError for a fill value that is not one of the data type."""
        self._type = data_type
        self._fill = fill_bytes(data_type, fill_value)
        self._grid = Grid(shape, block_shape(shape))
        units = fill_units(data_type, self._fill)
        # The units of a long value have keys along an axis of their own.
        self._unit_axis = [] if len(units) == 1 else [Axis(len(shape), 0)]
        self._number = sum(
            unit * (key_of(len(shape), place) if self._unit_axis else 1) for place, unit in enumerate(units)
        )

    def nothing(self) -> BlockSums:
        """The sums before any value is added."""
        return BlockSums()

    def add(self, sums: BlockSums, region: Sequence[slice], values: npt.NDArray[Any]) -> None:
        """Add the values of a region to `sums`; UnsupportedError for Python objects that are not text."""
        if not values.size:
            return
        words = words_of(values, self._type)
        sides = self._grid.chunk_shape
        near = (
            range(axis.start // side, -(-axis.stop // side)) for axis, side in zip(region, sides, strict=True)
        )
        for place in product(*near):
            cut: list[Any] = []
            axes = []
            keys = []
            for number, (axis, side, at) in enumerate(zip(region, sides, place, strict=True)):
                start, stop = max(at * side, axis.start), min((at + 1) * side, axis.stop)
                cut.append(slice(start - axis.start, stop - axis.start))
                axes.append(Axis(number, start))
                keys.append(sum_of_keys(number, start, stop))
            total = sum_of_box(words[(*cut, ...)], [*axes, *self._unit_axis])
            if self._number:
                total -= self._number * prod(keys)
            sums.add(self._grid.index(place) or 0, total)

    def digest(self, sums: BlockSums) -> ArrayDigest:
        """The digest of the array, after all its values are in `sums`."""
        return ArrayDigest(
            shape=self._grid.shape,
            data_type=canonical_type(self._type),
            fill_value=self._fill.hex(),
            blocks=dict(sorted(sums.sums.items())),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayDigest:
    """The digest of one array; equal digests mean equal values."""

    shape: tuple[int, ...]
    data_type: JSON
    fill_value: str
    """The bytes of the fill value in hexadecimal."""
    blocks: Mapping[int, int] = field(default_factory=dict)
    """Sums other than 0, by linear index of the block."""

    @property
    def block_shape(self) -> tuple[int, ...]:
        """Shape of the blocks in elements."""
        return block_shape(self.shape)

    @property
    def text(self) -> str:
        """One short text for the whole: equal texts mean equal digests."""
        return hashlib.blake2b(canonical(self._members()).encode(), digest_size=16).hexdigest()

    @property
    def grid(self) -> Grid:
        """The grid of the blocks."""
        return Grid(self.shape, self.block_shape)

    def differing_blocks(self, other: ArrayDigest) -> Iterator[int]:
        """Linear indexes of the blocks whose values differ, for arrays of the same shape."""
        for block in sorted(self.blocks.keys() | other.blocks.keys()):
            if self.blocks.get(block) != other.blocks.get(block):
                yield block

    def _members(self) -> JSONObject:
        return {
            "shape": list(self.shape),
            "data_type": self.data_type,
            "fill_value": self.fill_value,
            "blocks": {str(block): f"{number:032x}" for block, number in sorted(self.blocks.items())},
        }

    def to_json(self) -> JSONObject:
        """JSON for files and attributes; member names are stable."""
        return {"digest": self.text, **self._members(), "block_shape": list(self.block_shape)}

    @classmethod
    def from_json(cls, data: JSON) -> Self:
        """Inverse of `to_json`; MetadataError for anything else, and if the parts do not match `digest`."""
        try:
            digest = cls(
                shape=read_lengths(data["shape"], "shape"),
                data_type=data["data_type"],
                fill_value=data["fill_value"],
                blocks={int(block): int(number, 16) for block, number in data["blocks"].items()},
            )
            if digest.blocks and not 0 <= min(digest.blocks) <= max(digest.blocks) < digest.grid.total:
                raise ValueError("a block outside the array")  # noqa: TRY301
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise MetadataError("this is not a digest of an array", found=excerpt(data)) from error
        if digest.text != data.get("digest"):
            raise MetadataError(
                "a digest of an array is damaged", found=excerpt(data.get("digest")), expected=digest.text
            )
        return digest
