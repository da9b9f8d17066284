"""What later pieces of a run need of source chunks that were decoded for an earlier one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from .canvas import Array, Canvas

if TYPE_CHECKING:
    from ..archive.chunk_inventory import Indexes

Region: TypeAlias = tuple[slice, ...]


class Kept:
    """Parts of decoded chunks, by linear index, while pieces of one run are made one after another.

    Pieces follow each other along one axis. Of a chunk that reaches beyond a piece only what lies in
    the rest of the run is kept, so that memory is bounded by the two grids.
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
        """Go on to the next piece, a canvas: put there what is kept, and forget what no later one needs."""
        self._piece = canvas.region
        self._seen = frozenset(self._parts)
        for number in self._seen:
            values, region = self._parts[number]
            if values is not None:
                canvas.paste(values, region)
            if region[self._axis].stop <= self._piece[self._axis].stop:
                del self._parts[number]

    def new(self, numbers: Indexes) -> Indexes:
        """Those of the chunks that were not looked at for an earlier piece."""
        return numbers[[number not in self._seen for number in numbers.tolist()]]

    def opened(self, shard: int) -> bool:
        """Whether a shard was opened before; it counts as opened from now on."""
        if shard in self._opened:
            return True
        self._opened.add(shard)
        return False

    def keep(self, number: int, region: Region, values: Array | None) -> None:
        """Remember a chunk for later pieces as far as they need it; None for one without values."""
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
    """The values of a part of a region, alone in memory."""
    place = tuple(
        slice(mine.start - whole.start, mine.stop - whole.start)
        for mine, whole in zip(part, region, strict=True)
    )
    return np.array(values[place], copy=True)
