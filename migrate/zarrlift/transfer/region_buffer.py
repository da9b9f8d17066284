"""The values of a region, assembled from one grid and divided by another.

Decoded parts of source chunks that a later region needs are kept until then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from ..archive.chunk_inventory import Indexes

Array: TypeAlias = npt.NDArray[Any]
Region: TypeAlias = tuple[slice, ...]


class RegionBuffer:
    """The values of one region during assembly."""

    def __init__(
        self, region: Region, dtype: np.dtype[Any], fill: Any, inner_chunk_shape: tuple[int, ...]
    ) -> None:
        self.region = region
        self._inner_chunk = inner_chunk_shape
        self._fill = fill
        self._values: Array = np.empty(tuple(axis.stop - axis.start for axis in region), dtype)
        self._values[...] = fill
        # Inner chunks of the destination that overlap stored values; the others remain missing.
        first = tuple(axis.start // length for axis, length in zip(region, inner_chunk_shape, strict=True))
        counts = tuple(
            -(-axis.stop // length) - start
            for axis, length, start in zip(region, inner_chunk_shape, first, strict=True)
        )
        self._first = first
        self._reached = np.zeros(counts, dtype=np.bool_)

    def paste(self, values: Array, region: Region) -> None:
        """Insert the values of a source object with this region, as far as they overlap."""
        here: list[Any] = []
        within: list[Any] = []
        inner_chunks: list[Any] = []
        for mine, theirs, length, first in zip(
            self.region, region, self._inner_chunk, self._first, strict=True
        ):
            start, stop = max(mine.start, theirs.start), min(mine.stop, theirs.stop)
            here.append(slice(start - mine.start, stop - mine.start))
            within.append(slice(start - theirs.start, stop - theirs.start))
            inner_chunks.append(slice(start // length - first, -(-stop // length) - first))
        inside: tuple[Any, ...] = (*here, ...)
        self._values[inside] = values[(*within, ...)]  # the ellipsis keeps a 0-d array an array
        self._reached[(*inner_chunks, ...)] = True

    def holds(self, region: Region) -> bool:
        """Whether stored values overlap the inner chunk that begins at this region's corner."""
        place = tuple(
            axis.start // length - first
            for axis, length, first in zip(region, self._inner_chunk, self._first, strict=True)
        )
        return bool(self._reached[place])

    def inner_chunk(self, region: Region) -> Array:
        """A whole inner chunk; elements beyond the array's end have the fill value."""
        inside: tuple[Any, ...] = tuple(
            slice(axis.start - mine.start, axis.stop - mine.start)
            for axis, mine in zip(region, self.region, strict=True)
        )
        part = np.asarray(self._values[(*inside, ...)])
        if part.shape == self._inner_chunk:
            return part
        whole: Array = np.empty(self._inner_chunk, part.dtype)
        whole[...] = self._fill
        whole[tuple(map(slice, part.shape))] = part
        return whole


class CarryOver:
    """Parts of decoded chunks, by linear index, while the pieces of one run are processed in order.

    Pieces follow each other along one axis. Of a chunk that extends beyond a piece, only the part in the rest
    of the run is kept, so memory is limited by the two grids.
    """

    def __init__(self, run: Region, axis: int) -> None:
        self._run = run
        self._axis = axis
        self._piece: Region = run
        self._parts: dict[int, tuple[Array | None, Region]] = {}
        self._seen: frozenset[int] = frozenset()
        self._opened: set[int] = set()
        self.lost: set[int] = set()
        """Objects that are missing or could not be read."""

    def paste(self, buffer: RegionBuffer) -> None:
        """Start the next piece: insert the kept parts into its buffer, and drop those no longer needed."""
        self._piece = buffer.region
        self._seen = frozenset(self._parts)
        for number in self._seen:
            values, region = self._parts[number]
            if values is not None:
                buffer.paste(values, region)
            if region[self._axis].stop <= self._piece[self._axis].stop:
                del self._parts[number]

    def new(self, numbers: Indexes) -> Indexes:
        """The chunks that were not read for an earlier piece."""
        return numbers[[number not in self._seen for number in numbers.tolist()]]

    def readable(self, objects: Indexes) -> Indexes:
        """The objects that are not `lost`."""
        return objects[[number not in self.lost for number in objects.tolist()]] if self.lost else objects

    def opened_before(self, shard: int) -> bool:
        """Whether a shard was opened before; marks it as opened."""
        if shard in self._opened:
            return True
        self._opened.add(shard)
        return False

    def keep(self, number: int, region: Region, values: Array | None) -> None:
        """Store a chunk for later pieces as far as they need it; None for a chunk without values."""
        axis = self._axis
        if region[axis].stop <= self._piece[axis].stop:
            return
        rest = [
            slice(max(mine.start, run.start), min(mine.stop, run.stop))
            for mine, run in zip(region, self._run, strict=True)
        ]
        rest[axis] = slice(self._piece[axis].stop, rest[axis].stop)
        if rest[axis].start < rest[axis].stop:
            self._parts[number] = (None if values is None else _cut(values, region, rest), tuple(rest))


def _cut(values: Array, region: Region, part: Sequence[slice]) -> Array:
    """A copy of the values in a part of a region."""
    place = tuple(
        slice(mine.start - whole.start, mine.stop - whole.start)
        for mine, whole in zip(part, region, strict=True)
    )
    return np.array(values[place], copy=True)
