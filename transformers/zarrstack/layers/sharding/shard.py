"""What one shard object holds: chunks and their index, taken apart and put together. No I/O.

The bytes are those of `core.shard`: chunks in any order, gaps allowed, and the index at one end. The
draft's shard is the ratified one without the checksum, so one description serves both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any, Final, TypeAlias

import numpy as np

from ...core.errors import UsageError
from ...core.grid.shard_index import IndexFormat, ShardIndex
from ...core.json_text import JSON, excerpt

Place: TypeAlias = tuple[int, ...]

MAX_CHUNKS: Final = 2**26
"""Chunks of one shard: their index takes 1 GiB, and whatever asks for more is not meant."""
REMEMBERED_BYTES: Final = 2**14
"""Indexes up to this size, of 1,024 chunks, are remembered once they are checked."""
UNKNOWN_LENGTH: Final = 2**62
"""Stands for the length of an object that was not asked for; no object is as long."""


@dataclass(frozen=True, slots=True)
class Change:
    """One thing to do to a chunk of a shard."""

    chunk: Place
    """Its place within the shard."""
    value: Any
    """The new bytes, as anything with the buffer protocol; None removes the chunk."""
    if_absent: bool = False
    """Leave a chunk that is there as it is."""


@dataclass(frozen=True, slots=True)
class ShardForm:
    """Chunks along each axis of a shard, and how its index is written."""

    chunks: tuple[int, ...]
    index: IndexFormat

    @classmethod
    def of(cls, chunks_per_shard: JSON, ndim: int | None, index: IndexFormat) -> ShardForm:
        """Check `chunks_per_shard`; UsageError unless it is a short list of positive integers.

        With `ndim`, missing trailing numbers are 1, as zarr-python 2.18.7 takes them.
        """
        counts = tuple(chunks_per_shard) if isinstance(chunks_per_shard, list | tuple) else None
        if counts is None or not all(type(n) is int and n > 0 for n in counts) or prod(counts) > MAX_CHUNKS:
            raise UsageError(
                "layer 'sharding': bad chunks_per_shard",
                found=excerpt(chunks_per_shard),
                expected=f"a positive integer for each axis, their product at most {MAX_CHUNKS}",
            )
        if ndim is not None and (type(ndim) is not int or len(counts) > ndim):
            # zarr-python 2.18.7 writes (1,) for an array without axes.
            if not (ndim == 0 and counts == (1,)):
                raise UsageError(
                    "layer 'sharding': chunks_per_shard has more numbers than the array has axes",
                    found=excerpt(chunks_per_shard),
                    expected=f"at most {ndim}",
                )
            counts = ()
        return cls(counts + (1,) * ((ndim or 0) - len(counts)), index)

    @property
    def index_size(self) -> int:
        """Bytes of the index."""
        return self.index.size(self.chunks)

    def locate(self, chunk: Place) -> tuple[Place, Place]:
        """The shard that holds a chunk of the array, and the chunk's place within it."""
        pairs = [divmod(position, count) for position, count in zip(chunk, self.chunks, strict=True)]
        return tuple(shard for shard, _ in pairs), tuple(inner for _, inner in pairs)

    def members(self, shard: Place, index: ShardIndex) -> Iterator[Place]:
        """The chunks of the array that a shard holds, in C order."""
        first = [position * count for position, count in zip(shard, self.chunks, strict=True)]
        for inner in np.argwhere(index.present).tolist():
            # Python integers: a key may name a chunk beyond int64.
            yield tuple(base + step for base, step in zip(first, inner, strict=True))

    def parse_index(self, data: Any, object_length: int = UNKNOWN_LENGTH) -> ShardIndex:
        """The index from its bytes, checked as far as it can be without the object's length.

        ChunkError for a wrong length, a wrong checksum, half-missing or overlapping chunks, and for
        chunks outside the object.
        """
        if len(data) <= REMEMBERED_BYTES:
            return _parse(self, bytes(data), object_length)
        return _parse.__wrapped__(self, data, object_length)

    def needed(self, stop: int) -> int:
        """Length that an object must have for a chunk to end at `stop`."""
        return stop + self.index_size if self.index.location == "end" else stop

    def open(self, data: memoryview) -> dict[Place, memoryview]:
        """The chunks of a whole shard object by their places; ChunkError as `parse_index`."""
        index = self.parse_index(data[self.index.place(self.chunks, len(data))], len(data))
        found = {}
        for place in map(tuple, np.argwhere(index.present).tolist()):
            part = index.get(place)
            assert part is not None
            found[place] = data[part]
        return found

    def close(self, chunks: Mapping[Place, Any]) -> bytes:
        """A shard object of these chunks, in C order without gaps."""
        index = ShardIndex.empty(self.chunks)
        offset = self.index_size if self.index.location == "start" else 0
        parts = []
        for place in sorted(chunks):
            part = memoryview(chunks[place])
            index.offsets[place], index.lengths[place] = offset, part.nbytes
            offset += part.nbytes
            parts.append(part)
        encoded = index.to_bytes(self.index)
        return b"".join([encoded, *parts] if self.index.location == "start" else [*parts, encoded])

    def replaces_all(self, changes: Iterable[Change]) -> bool:
        """Whether nothing of the old shard can be left, so that it need not be read."""
        return len({change.chunk for change in changes if not change.if_absent}) == prod(self.chunks)


@lru_cache(maxsize=64)
def _parse(form: ShardForm, data: Any, object_length: int) -> ShardIndex:
    """The checked index of these bytes; nobody changes what is given back.

    Checking takes longer than reading from memory: the same bytes, chunk after chunk, are checked once.
    """
    index = ShardIndex.from_bytes(data, form.chunks, form.index)
    index.check(object_length, form.index)
    return index


def apply(chunks: dict[Place, Any], changes: Iterable[Change]) -> bool:
    """Change the chunks of a shard in place, one change after the other; whether anything changed."""
    changed = False
    for change in changes:
        if change.value is None:
            changed |= chunks.pop(change.chunk, None) is not None
        elif not (change.if_absent and change.chunk in chunks):
            chunks[change.chunk] = change.value
            changed = True
    return changed
