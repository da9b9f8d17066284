"""The values of a region, assembled from one grid and divided by another."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]


class Canvas:
    """The values of one region during assembly."""

    def __init__(
        self, region: tuple[slice, ...], dtype: np.dtype[Any], fill: Any, leaf_shape: tuple[int, ...]
    ) -> None:
        self.region = region
        self._leaf = leaf_shape
        self._fill = fill
        self._values: Array = np.empty(tuple(axis.stop - axis.start for axis in region), dtype)
        self._values[...] = fill
        # Leaves of the destination that overlap stored values; the others remain missing.
        first = tuple(axis.start // length for axis, length in zip(region, leaf_shape, strict=True))
        counts = tuple(
            -(-axis.stop // length) - start
            for axis, length, start in zip(region, leaf_shape, first, strict=True)
        )
        self._first = first
        self._reached = np.zeros(counts, dtype=np.bool_)

    def paste(self, values: Array, region: tuple[slice, ...]) -> None:
        """Insert the values of a source object with this region, as far as they overlap."""
        here: list[Any] = []
        there: list[Any] = []
        leaves: list[Any] = []
        for mine, theirs, length, first in zip(self.region, region, self._leaf, self._first, strict=True):
            start, stop = max(mine.start, theirs.start), min(mine.stop, theirs.stop)
            here.append(slice(start - mine.start, stop - mine.start))
            there.append(slice(start - theirs.start, stop - theirs.start))
            leaves.append(slice(start // length - first, -(-stop // length) - first))
        inside: tuple[Any, ...] = (*here, ...)
        self._values[inside] = values[(*there, ...)]  # the ellipsis keeps a 0-d array an array
        self._reached[(*leaves, ...)] = True

    def holds(self, region: tuple[slice, ...]) -> bool:
        """Whether stored values overlap the leaf that begins at this region's corner."""
        place = tuple(
            axis.start // length - first
            for axis, length, first in zip(region, self._leaf, self._first, strict=True)
        )
        return bool(self._reached[place])

    def leaf(self, region: tuple[slice, ...]) -> Array:
        """A whole leaf; elements beyond the array's end have the fill value."""
        inside: tuple[Any, ...] = tuple(
            slice(axis.start - mine.start, axis.stop - mine.start)
            for axis, mine in zip(region, self.region, strict=True)
        )
        part = np.asarray(self._values[(*inside, ...)])
        if part.shape == self._leaf:
            return part
        whole: Array = np.empty(self._leaf, part.dtype)
        whole[...] = self._fill
        whole[tuple(map(slice, part.shape))] = part
        return whole
