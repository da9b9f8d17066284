"""Recognises shards in the place of N5 blocks. Pure; reads through a callable.

Java's N5 4.0 (observed with 4.0.2) writes shards into N5 for a `DatasetAttributes` with a `ShardCodecInfo`,
but its `attributes.json` has no place for them: it states the inner chunk's size as `blockSize`, and nothing
of the shard's size or of the index. The library itself then takes each shard for one block. The format has
no shards: https://github.com/saalfeldlab/n5/pull/177 ("the n5-format will not support sharding").

Such a shard is its chunks, each an N5 block with its header, one after the other, and an index: an (offset,
nbytes) pair of uint64 per chunk, both 2^64 - 1 for a missing chunk, little-endian or big-endian (the
library's default), in N5's order, perhaps followed by its crc32c; at the end or at the start. The index tells
how many chunks there are, but not the shape of the shard, so it cannot be read without guessing.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from zarrstack.core.crc32c import crc32c
from zarrstack.core.errors import UnsupportedError
from zarrstack.core.shard_index import CHECKSUM_BYTES, MISSING, PAIR_BYTES

if TYPE_CHECKING:
    import numpy.typing as npt

_ORDERS: Final = {"<u8": "<QQ", ">u8": ">QQ"}
_NONE: Final = (MISSING, MISSING)
_MOST: Final = 1 << 20
"""Bytes read of an index to find its first or last chunk."""

Pairs: TypeAlias = "npt.NDArray[np.uint64]"
Part: TypeAlias = Callable[[int, int], bytes]
"""`part(start, length)`: bytes of an object."""


def chunks_in_shard(part: Part, size: int) -> int | None:
    """Number of places for chunks in an object of `size` bytes that is a shard; None if it is not one.

    The chunks of a shard fill it completely. Only the first and the last bytes are read of an object in which
    they are not part of an index.
    """
    head = part(0, PAIR_BYTES)
    at_tail = max(size - PAIR_BYTES - CHECKSUM_BYTES, 0)
    tail = part(at_tail, size - at_tail)

    def read(start: int, length: int) -> bytes:
        if start + length <= len(head):
            return head[start : start + length]
        if start >= at_tail:
            return tail[start - at_tail :][:length]
        return part(start, length)

    for after in (0, CHECKSUM_BYTES):
        for order in _ORDERS:
            places = _at_end(read, size, after, order) or _at_start(read, size, after, order)
            if places is not None:
                return places
    return None


def unstated_shards(places: int) -> UnsupportedError:
    """The error for a dataset with a shard of so many places for chunks."""
    return UnsupportedError(
        "shards are stored in the place of N5 blocks, and attributes.json does not state their shape",
        found=f"a shard index of {places} chunks, as Java's n5 4.0 writes it",
        expected="blocks",
        advice="Copy the dataset with the Java program that wrote it and its DatasetAttributes to one "
        "without shards: docs/howto/n5.md, Shards. Or leave it out with --exclude.",
    )


def _at_end(part: Part, size: int, after: int, order: str) -> int | None:
    stop = size - after
    pair = _pair(part, stop - PAIR_BYTES, stop, order)
    if pair == _NONE:
        room = min(stop, _MOST) // PAIR_BYTES * PAIR_BYTES
        pair = _stored_pair(part(stop - room, room), order, -1)
    if pair is None:
        return None
    start = sum(pair)
    if not start < stop or (stop - start) % PAIR_BYTES:
        return None
    return _filled(part(start, stop - start + after), after, order, 0, start)


def _at_start(part: Part, size: int, after: int, order: str) -> int | None:
    pair = _pair(part, 0, size, order)
    if pair == _NONE:
        pair = _stored_pair(part(0, min(size, _MOST) // PAIR_BYTES * PAIR_BYTES), order, 0)
    if pair is None:
        return None
    stop = pair[0]
    if not PAIR_BYTES + after <= stop <= size or (stop - after) % PAIR_BYTES:
        return None
    return _filled(part(0, stop), after, order, stop, size)


def _pair(part: Part, start: int, stop: int, order: str) -> tuple[int, int] | None:
    """The numbers at a place, without numpy: most objects are not shards."""
    if start < 0 or start + PAIR_BYTES > stop or len(data := part(start, PAIR_BYTES)) != PAIR_BYTES:
        return None
    offset, length = struct.unpack(_ORDERS[order], data)
    return offset, length


def _stored_pair(data: bytes, order: str, which: int) -> tuple[int, int] | None:
    """The first or last pair of an index that is not missing."""
    pairs = _pairs(data, order)
    if pairs is None or not len(present := pairs[~_missing(pairs)]):
        return None
    return int(present[which, 0]), int(present[which, 1])


def _filled(index: bytes, after: int, order: str, start: int, stop: int) -> int | None:
    """Number of pairs of an index, if its chunks fill the bytes from `start` to `stop` without gaps."""
    body = index[: len(index) - after]
    pairs = _pairs(body, order)
    if pairs is None or (after and int.from_bytes(index[len(body) :], "little") != crc32c(body)):
        return None
    present = pairs[~_missing(pairs)]
    at = start
    for offset, length in sorted(present.tolist()):
        if offset != at or not length:
            return None
        at += length
    return len(pairs) if len(present) and at == stop else None


def _pairs(data: bytes, order: str) -> Pairs | None:
    """Offsets and lengths; None for half a pair, as of an object that has become shorter."""
    if not data or len(data) % PAIR_BYTES:
        return None
    return np.frombuffer(data, order).astype(np.uint64).reshape(-1, 2)


def _missing(pairs: Pairs) -> npt.NDArray[np.bool_]:
    missing: npt.NDArray[np.bool_] = (pairs == MISSING).all(axis=1)
    return missing
