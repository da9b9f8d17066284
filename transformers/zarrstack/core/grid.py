"""Regular chunk grids: counts, linear indexes, edges.

A chunk's *linear index* is its place when the grid is walked in C order (last axis
fastest). It is what plans, tasks and inventories speak of.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod


@dataclass(frozen=True, slots=True)
class Grid:
    """A regular grid of chunks over an array; a chunk may reach past the array's end."""

    shape: tuple[int, ...]
    chunk_shape: tuple[int, ...]

    @property
    def counts(self) -> tuple[int, ...]:
        """Chunks along each axis; 0 where the array has length 0."""
        return tuple(-(-n // c) for n, c in zip(self.shape, self.chunk_shape, strict=True))

    @property
    def total(self) -> int:
        """Number of chunks in the grid; 1 for a 0-d array."""
        return prod(self.counts)

    def index(self, coordinates: tuple[int, ...]) -> int | None:
        """Linear index of a chunk, or None if it lies outside the grid."""
        index = 0
        for position, count in zip(coordinates, self.counts, strict=True):
            if not 0 <= position < count:
                return None
            index = index * count + position
        return index

    def coordinates(self, index: int) -> tuple[int, ...]:
        """The inverse of `index`."""
        reverse = []
        for count in reversed(self.counts):
            index, position = divmod(index, count)
            reverse.append(position)
        return tuple(reversed(reverse))

    def valid(self, coordinates: tuple[int, ...]) -> tuple[slice, ...]:
        """The part of a chunk that lies inside the array, in the chunk's own coordinates."""
        return tuple(
            slice(0, min(c, n - p * c))
            for p, n, c in zip(coordinates, self.shape, self.chunk_shape, strict=True)
        )

    def region(self, coordinates: tuple[int, ...]) -> tuple[slice, ...]:
        """The part of the array that a chunk holds, in the array's coordinates."""
        return tuple(
            slice(p * c, min((p + 1) * c, n))
            for p, n, c in zip(coordinates, self.shape, self.chunk_shape, strict=True)
        )
