"""Parsing and assembly of shard objects: chunks and their index, without I/O.

The bytes are those of `core.shard_index`: chunks in any order, gaps allowed, and the index at one end. A
draft shard is a ratified one without the checksum, so one implementation serves both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any, Final, TypeAlias

import numpy as np

from ...core.errors import UsageError
from ...core.json_text import JSON, excerpt
from ...core.shard_index import IndexFormat, ShardIndex, packed

Place: TypeAlias = tuple[int, ...]

MAX_CHUNKS: Final = 2**26
"""Limit on the chunks of a shard: their index takes 1 GiB; a larger count is an error, not intent."""
REMEMBERED_BYTES: Final = 2**14
"""Limit on the size of cached checked indexes: 1,024 chunks."""
UNKNOWN_LENGTH: Final = 2**62
"""Stands for an object length that was not requested; no object is this long."""


@dataclass(frozen=True, slots=True)
class ShardForm:
    """Chunks along each axis of a shard, and the format of its index."""

    chunks: tuple[int, ...]
    index: IndexFormat

    @classmethod
    def of(cls, chunks_per_shard: JSON, ndim: int | None, index: IndexFormat) -> ShardForm:
        """Validate `chunks_per_shard`; UsageError unless it is a short list of positive integers.

        With `ndim`, missing trailing numbers are 1, as in zarr-python 2.18.7.
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
        """Length of the index in bytes."""
        return self.index.size(self.chunks)

    @property
    def count(self) -> int:
        """The number of chunks of a whole shard."""
        return prod(self.chunks)

    def locate(self, chunk: Place) -> tuple[Place, Place]:
        """The coordinates of the shard that holds a chunk, and the chunk's coordinates within it."""
        pairs = [divmod(position, count) for position, count in zip(chunk, self.chunks, strict=True)]
        return tuple(shard for shard, _ in pairs), tuple(inner for _, inner in pairs)

    def members(self, shard: Place, index: ShardIndex) -> Iterator[Place]:
        """The chunks present in a shard, as array coordinates in C order."""
        first = [position * count for position, count in zip(shard, self.chunks, strict=True)]
        for inner in np.argwhere(index.present).tolist():
            # Python integers: a key may name a chunk beyond int64.
            yield tuple(base + step for base, step in zip(first, inner, strict=True))

    def parse_index(self, data: bytes) -> ShardIndex:
        """Parse an index and check it, as far as possible without the object's length.

        ChunkError for a wrong length or checksum, and for half-missing or overlapping chunks.
        """
        return (_parse if len(data) <= REMEMBERED_BYTES else _parse.__wrapped__)(self, data)

    def needed(self, stop: int) -> int:
        """Minimum length of the object if a chunk ends at `stop`."""
        return stop + self.index_size if self.index.location == "end" else stop

    def open(self, data: memoryview) -> dict[Place, memoryview]:
        """The chunks of a whole shard object by coordinates; ChunkError also for chunks outside of it."""
        index = ShardIndex.of_shard(data, self.chunks, self.index)
        places = map(tuple, np.argwhere(index.present).tolist())
        return {place: data[part] for place in places if (part := index.get(place)) is not None}

    def close(self, chunks: Mapping[Place, Any]) -> bytes:
        """Assemble a shard object from chunks, in C order without gaps."""
        return packed(((place, chunks[place]) for place in sorted(chunks)), self.chunks, self.index)


@lru_cache(maxsize=64)
def _parse(form: ShardForm, data: bytes) -> ShardIndex:
    """Parse and check an index; the result is shared and must not be modified.

    Reading a chunk from a shard of 512 in memory takes three times as long without this cache.
    """
    index = ShardIndex.from_bytes(data, form.chunks, form.index)
    index.check(UNKNOWN_LENGTH, form.index)
    return index
