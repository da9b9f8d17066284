"""Regular chunk grids: counts, linear indexes, edges.

A chunk's *linear index* is its position in the grid in C order (last axis fastest). Plans, tasks and
inventories use linear indexes. Facts: the `regular` grid,
https://zarr-specs.readthedocs.io/en/latest/v3/chunk-grids/regular-grid/.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from zarrstack.core.errors import MetadataError, UnsupportedError

if TYPE_CHECKING:
    import numpy.typing as npt

MAX_LENGTH: Final = 2**63 - 1
"""Longest axis and longest chunk edge: numpy, zarr-python and tensorstore count in int64."""


@dataclass(frozen=True, slots=True)
class Grid:
    """A regular grid of chunks over an array; a chunk may extend past the array's end.

    `shape` and `chunk_shape` are in elements, one length per axis. MetadataError for different numbers of
    axes, for lengths that are not integers from 0 to 2^63 - 1, and for chunk lengths of 0 (as written by
    zarr-python 2 with `chunks=False` for an empty axis; readers convert them to 1). The number of chunks is
    not limited here; only `indices_of` and `coordinates_of` require it to fit an int64.
    """

    shape: tuple[int, ...]
    chunk_shape: tuple[int, ...]
    counts: tuple[int, ...] = field(init=False, repr=False, compare=False)
    """Chunks along each axis; 0 if the array has length 0."""

    def __post_init__(self) -> None:
        if len(self.shape) != len(self.chunk_shape):
            raise MetadataError(
                "shape and chunk shape differ in their number of axes",
                found=f"shape {self.shape}, chunks {self.chunk_shape}",
            )
        for length in self.shape:
            if type(length) is not int or not 0 <= length <= MAX_LENGTH:
                raise _bad("shape", self.shape, 0)
        for length in self.chunk_shape:
            if type(length) is not int or not 1 <= length <= MAX_LENGTH:
                raise _bad("chunk shape", self.chunk_shape, 1)
        counts = tuple([-(-n // c) for n, c in zip(self.shape, self.chunk_shape, strict=True)])
        object.__setattr__(self, "counts", counts)

    @property
    def total(self) -> int:
        """Number of chunks in the grid; 1 for a 0-d array."""
        return prod(self.counts)

    def index(self, coordinates: tuple[int, ...]) -> int | None:
        """Linear index of a chunk, or None outside the grid."""
        index = 0
        for position, count in zip(coordinates, self.counts, strict=True):
            if not 0 <= position < count:
                return None
            index = index * count + position
        return index

    def coordinates(self, index: int) -> tuple[int, ...]:
        """The inverse of `index`; IndexError outside the grid."""
        counts = self.counts
        rest = index
        reverse = []
        for count in reversed(counts):
            if count == 0:
                break
            rest, position = divmod(rest, count)
            reverse.append(position)
        if rest or len(reverse) < len(counts):
            raise IndexError(f"chunk {index} of a grid of {self.total}")
        return tuple(reversed(reverse))

    def indices_of(self, coordinates: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Linear indexes of many chunks: (n, ndim) coordinates to (n,) int64, -1 outside the grid.

        UnsupportedError for a grid of 2^63 chunks or more; use `index` for those.
        """
        self._countable()
        points = np.asarray(coordinates, dtype=np.int64)
        result = np.zeros(len(points), dtype=np.int64)
        inside = np.ones(len(points), dtype=np.bool_)
        for axis, count in enumerate(self.counts):
            column = points[:, axis]
            inside &= (column >= 0) & (column < count)
            result *= count
            result += column
        # Values outside the grid may have wrapped around; they are replaced here.
        return np.where(inside, result, np.int64(-1))

    def coordinates_of(self, indices: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Coordinates of many chunks: (n,) linear indexes to (n, ndim) int64; IndexError outside the grid.

        UnsupportedError for a grid of 2^63 chunks or more; use `coordinates` for those.
        """
        self._countable()
        rest = np.array(indices, dtype=np.int64).reshape(-1)
        if rest.size and (int(rest.min()) < 0 or int(rest.max()) >= self.total):
            raise IndexError(f"chunks {rest.min()} to {rest.max()} of a grid of {self.total}")
        result = np.zeros((len(rest), len(self.shape)), dtype=np.int64)
        for axis in range(len(self.shape) - 1, -1, -1):
            if rest.size:
                rest, result[:, axis] = np.divmod(rest, self.counts[axis])
        return result

    def valid(self, coordinates: tuple[int, ...]) -> tuple[slice, ...]:
        """The part of a chunk inside the array, in the chunk's coordinates."""
        return tuple(
            slice(0, min(c, n - p * c))
            for p, n, c in zip(coordinates, self.shape, self.chunk_shape, strict=True)
        )

    def region(self, coordinates: tuple[int, ...]) -> tuple[slice, ...]:
        """The region of the array covered by a chunk, in the array's coordinates."""
        return tuple(
            slice(p * c, min((p + 1) * c, n))
            for p, n, c in zip(coordinates, self.shape, self.chunk_shape, strict=True)
        )

    def _countable(self) -> None:
        if self.total > MAX_LENGTH:
            raise UnsupportedError(
                "the grid has too many chunks to number them in int64",
                found=f"{self.total} chunks",
                expected="fewer than 2^63",
            )


def _bad(what: str, found: Any, low: int) -> MetadataError:
    return MetadataError(f"bad {what}", found=str(found), expected=f"integers from {low} to 2^63 - 1")
