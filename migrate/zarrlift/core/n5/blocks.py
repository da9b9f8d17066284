"""N5 blocks: the header before a payload, and the order of axes. Pure; no I/O.

Specification: https://github.com/saalfeldlab/n5/blob/master/README.md#file-system-specification, version
4.0.0, points 5 and 7 to 9. N5 counts axes from the fastest-varying one, so a block of `blockSize` (4, 3)
holds its values as a C-ordered array of shape (3, 4). `Axes` is the order in which they are displayed:
*reversed* (default; as in zarr-python's N5Store and z5) or *kept* (as in Java and tensorstore, which requires
a transpose).

A block is a header, then the payload: big-endian values, compressed. All numbers of the header are
big-endian: mode (uint16), number of axes (uint16), a length per axis (uint32), and in mode 1 the number of
elements (uint32). Mode 2 has that number and no axes (Java's N5 4.0, `N5BlockCodecs`). Java reads the lengths
as *signed*; lengths beyond the block size are refused here anyway.

Edge blocks are truncated to the array (Java, z5 3.0) or padded to the block size (zarr-python's N5Store,
tensorstore), sometimes both in one array. Readers agree that the rest of a short block's cell is zeros
(zarr-python 2.18, tensorstore 0.1.86, Java through imglib2).
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from zarrstack.core.errors import ChunkError
from zarrstack.core.shard_index import CHECKSUM_BYTES, MISSING, PAIR_BYTES

from ..codecs.base import memory
from ..shapes import Shape

if TYPE_CHECKING:
    from ..codecs.base import Buffer


DEFAULT: Final = 0
VARLENGTH: Final = 1
OBJECT: Final = 2
"""Modes."""

_START: Final = struct.Struct(">HH")
_NUMBER: Final = struct.Struct(">I")
_OBJECT: Final = struct.Struct(">HI")
_MISSING_PAIR: Final = PAIR_BYTES * b"\xff"


def head_bytes(ndim: int) -> int:
    """Length in bytes of the start of a block that contains its header, in any mode."""
    return _START.size + _NUMBER.size * (ndim + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockHeader:
    """The header before a block's payload."""

    mode: int = DEFAULT
    shape: Shape
    """Elements along each axis, in N5's order; () in mode 2, which states none."""
    elements: int
    """Values in the payload (in mode 1 the writer's own count, usually of bytes)."""

    @classmethod
    def of(cls, shape: Shape) -> BlockHeader:
        """The header of a block with one value per element."""
        return cls(shape=shape, elements=math.prod(shape))

    @classmethod
    def parse(cls, data: Buffer, block_size: Shape) -> BlockHeader:
        """Parse the header at the start of `data`: a whole block, or its first `head_bytes`.

        ChunkError for a truncated header, an invalid mode or number of axes, and lengths beyond the block
        size. A length of 0 is allowed: Java writes blocks without elements on request (observed in 3.5.1 and
        4.0.2), and reads zeros from them; the payload must then be empty too.
        """
        view = memory(data)[: head_bytes(len(block_size))].cast("B")
        _require(view, _START.size)
        mode, ndim = _START.unpack_from(view)
        if mode == OBJECT:
            _require(view, _OBJECT.size)
            return cls(mode=mode, shape=(), elements=_OBJECT.unpack_from(view)[1])
        if mode not in (DEFAULT, VARLENGTH):
            raise ChunkError(
                "an N5 block has an unknown mode",
                found=str(mode),
                expected="0 (default), 1 (variable length) or 2 (object)",
            )
        if ndim != len(block_size):
            raise ChunkError(
                "an N5 block has another number of axes than its dataset",
                found=str(ndim),
                expected=str(len(block_size)),
            )
        _require(view, head_bytes(ndim) - (_NUMBER.size if mode == DEFAULT else 0))
        numbers = struct.unpack_from(f">{ndim + mode}I", view, _START.size)
        shape = numbers[:ndim]
        if any(length > most for length, most in zip(shape, block_size, strict=True)):
            raise ChunkError(
                "an N5 block is larger than its dataset's block size",
                found=" x ".join(map(str, shape)),
                expected=f"at most {' x '.join(map(str, block_size))}",
            )
        return cls(mode=mode, shape=shape, elements=numbers[-1] if mode else math.prod(shape))

    def to_bytes(self) -> bytes:
        """The inverse of `parse`."""
        if self.mode == OBJECT:
            return _OBJECT.pack(self.mode, self.elements)
        numbers = self.shape if self.mode == DEFAULT else (*self.shape, self.elements)
        return _START.pack(self.mode, len(self.shape)) + struct.pack(f">{len(numbers)}I", *numbers)

    @property
    def size(self) -> int:
        """Length of the header in bytes."""
        if self.mode == OBJECT:
            return _OBJECT.size
        return _START.size + _NUMBER.size * (len(self.shape) + (self.mode == VARLENGTH))

    def require_values(self) -> BlockHeader:
        """Return this header if the payload has one value per element; otherwise raise ChunkError."""
        if self.mode == OBJECT:
            raise ChunkError(
                "an N5 block holds a serialized object (mode 2)",
                found=f"{self.elements} bytes",
                expected="numbers (mode 0)",
            )
        if self.elements != math.prod(self.shape):
            raise ChunkError(
                "an N5 block is of variable length (mode 1), as label multisets are",
                found=f"{self.elements} values for {' x '.join(map(str, self.shape))} elements",
                expected="a value per element (mode 0)",
            )
        return self


def split(data: Buffer, block_size: Shape) -> tuple[BlockHeader, memoryview]:
    """Header and payload of a whole block of values; ChunkError as in `parse` and `require_values`."""
    header = BlockHeader.parse(data, block_size).require_values()
    return header, memory(data)[header.size :]


def require_end(surplus: int) -> None:
    """Raise ChunkError if bytes follow a payload, as the other chunks of a shard do (`has_shard_index`)."""
    if surplus:
        raise ChunkError(
            "bytes follow the payload of an N5 block", found=f"{surplus} bytes", expected="the block's end"
        )


def has_shard_index(head: bytes, tail: bytes, size: int) -> bool:
    """Whether the first and last bytes of an object of `size` bytes are those of a shard.

    Java's N5 4.0 (observed with 4.0.2) writes shards in place of blocks, although the format has none
    (https://github.com/saalfeldlab/n5/pull/177), and `attributes.json` states neither their shape nor their
    index: an (offset, nbytes) pair of uint64 per chunk, both 2^64 - 1 for a missing one, in either byte
    order, perhaps followed by its crc32c; after the chunks or before them, which fill the rest.
    """
    for checksum, order in product((0, CHECKSUM_BYTES), (">", "<")):
        stop = len(tail) - checksum
        while tail[stop - PAIR_BYTES : stop] == _MISSING_PAIR:
            stop -= PAIR_BYTES
        if stop >= PAIR_BYTES:
            start = sum(struct.unpack_from(order + "QQ", tail, stop - PAIR_BYTES))
            if _fill(tail[max(start - size, -len(tail)) : len(tail) - checksum], order, start):
                return True
        first = 0
        while head[first : first + PAIR_BYTES] == _MISSING_PAIR:
            first += PAIR_BYTES
        if len(head) >= first + PAIR_BYTES:
            (stop,) = struct.unpack_from(order + "Q", head, first)
            if _fill(head[: max(stop - checksum, 0)], order, size - stop):
                return True
    return False


def _fill(index: bytes, order: str, size: int) -> bool:
    """Whether the chunks of an index have so many bytes together."""
    if not index or len(index) % PAIR_BYTES:
        return False
    lengths: list[int] = np.frombuffer(index, order + "u8")[1::2].tolist()
    return sum(length for length in lengths if length != MISSING) == size > 0


def pad_block(array: np.ndarray[Any, Any], shape: Shape) -> np.ndarray[Any, Any]:
    """Pad a short block with zeros to a cell; its axes may be in either order."""
    if array.shape == shape:
        return array
    result = np.zeros(shape, array.dtype)
    result[tuple(map(slice, array.shape))] = array
    return result


def _require(view: memoryview, size: int) -> None:
    if len(view) < size:
        raise ChunkError(
            "an N5 block is shorter than its header",
            found=f"{len(view)} bytes",
            expected=f"at least {size} bytes",
        )
