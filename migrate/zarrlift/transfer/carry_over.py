"""Decoded parts of source chunks that later pieces of a run need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from .canvas import Array, Canvas

if TYPE_CHECKING:
    from ..archive.chunk_inventory import Indexes

Region: TypeAlias = tuple[slice, ...]


class Kept:
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
        """Shards that could not be read."""

    def paste(self, canvas: Canvas) -> None:
        """Start the next piece: insert the kept parts into its canvas, and drop those no longer needed."""
        self._piece = canvas.region
        self._seen = frozenset(self._parts)
        for number in self._seen:
            values, region = self._parts[number]
            if values is not None:
                canvas.paste(values, region)
            if region[self._axis].stop <= self._piece[self._axis].stop:
                del self._parts[number]

    def new(self, numbers: Indexes) -> Indexes:
        """The chunks that were not read for an earlier piece."""
        return numbers[[number not in self._seen for number in numbers.tolist()]]

    def opened(self, shard: int) -> bool:
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
