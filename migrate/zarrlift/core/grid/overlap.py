"""Overlap of the chunks of two grids over the same array. Pure.

Both grids are regular and start at the origin, so along one axis chunk k of length a overlaps chunks k*a // b
to ((k+1)*a - 1) // b of length b, within the array.
"""

from __future__ import annotations

from itertools import product
from math import lcm
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from .grid import Grid

Indexes: TypeAlias = "npt.NDArray[np.int64]"
Region: TypeAlias = tuple[slice, ...]
"""One slice with start and stop for each axis, in the coordinates of the array."""
_AT_ONCE: Final = 1 << 20
"""Chunks per batch, to limit the memory for a grid of 10^8."""


def touched(indexes: Indexes, source: Grid, blocks: Grid) -> Indexes:
    """Linear indexes, ascending, of the chunks of `blocks` that overlap the given chunks of `source`."""
    parts = [
        _touched(indexes[start : start + _AT_ONCE], source, blocks)
        for start in range(0, len(indexes), _AT_ONCE)
    ]
    return np.unique(np.concatenate(parts)) if parts else np.empty(0, dtype=np.int64)


def _touched(indexes: Indexes, source: Grid, blocks: Grid) -> Indexes:
    places = source.coordinates_of(indexes)
    if not source.shape:
        return np.unique(blocks.indices_of(places))
    first, last = _span(places, source, blocks)
    parts = []
    for step in product(*(range(int(most) + 1) for most in (last - first).max(axis=0, initial=0))):
        reached = first + np.array(step)
        parts.append(blocks.indices_of(reached[(reached <= last).all(axis=1)]))
    return np.unique(np.concatenate(parts))


def gathered(
    values: npt.NDArray[np.float64], indexes: Indexes, source: Grid, blocks: Grid, targets: Indexes
) -> npt.NDArray[np.float64]:
    """For each chunk of `blocks` in `targets`, the sum of the values of the overlapping chunks of `source`.

    `targets` is `touched(indexes, source, blocks)`.
    """
    result = np.zeros(len(targets))
    for start in range(0, len(indexes), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        places, weights = source.coordinates_of(indexes[part]), values[part]
        if not source.shape:
            return weights.copy()
        first, last = _span(places, source, blocks)
        for step in product(*(range(int(most) + 1) for most in (last - first).max(axis=0, initial=0))):
            reached = first + np.array(step)
            inside = (reached <= last).all(axis=1)
            np.add.at(result, np.searchsorted(targets, blocks.indices_of(reached[inside])), weights[inside])
    return result


def touches(indexes: Indexes, source: Grid, blocks: Grid) -> Indexes:
    """Number of chunks of `blocks` that each given chunk of `source` overlaps."""
    result = np.ones(len(indexes), dtype=np.int64)
    for start in range(0, len(indexes), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        first, last = _span(source.coordinates_of(indexes[part]), source, blocks)
        result[part] = (last - first + 1).prod(axis=1)
    return result


def _span(places: Indexes, source: Grid, blocks: Grid) -> tuple[Indexes, Indexes]:
    """The first and the last overlapping chunk of `blocks` along each axis, (n, ndim) like `places`."""
    size, other = np.array(source.chunk_shape, dtype=np.int64), np.array(blocks.chunk_shape, dtype=np.int64)
    ends = np.array(source.shape, dtype=np.int64)
    # A chunk length may be as large as 2^63 - 1: it is clipped to the array before it is added.
    first = places * np.minimum(size, np.maximum(ends, 1))
    last = first + np.minimum(size, ends - first) - 1
    return first // other, last // other


def touching(place: tuple[int, ...], blocks: Grid, source: Grid) -> Indexes:
    """Linear indexes, ascending, of the chunks of `source` that overlap one chunk of `blocks`."""
    return within(blocks.region(place), source)


def within(region: Region, grid: Grid) -> Indexes:
    """Linear indexes, ascending, of the chunks that overlap a region of the array."""
    result = np.zeros(1, dtype=np.int64)
    for axis, length, count in zip(region, grid.chunk_shape, grid.counts, strict=True):
        along = np.arange(axis.start // length, -(-axis.stop // length), dtype=np.int64)
        result = (result[:, None] * count + along[None, :]).reshape(-1)
    return result


def intersection(one: Region, other: Region) -> Region:
    """The common part of two regions that overlap."""
    return tuple(slice(max(a.start, b.start), min(a.stop, b.stop)) for a, b in zip(one, other, strict=True))


def relative(part: Region, whole: Region) -> Region:
    """A region in the coordinates of another one that contains it."""
    return tuple(slice(a.start - b.start, a.stop - b.start) for a, b in zip(part, whole, strict=True))


def present_candidates(candidates: Indexes, present: Indexes) -> Indexes:
    """The candidates that are present; both ascending."""
    place = np.searchsorted(present, candidates)
    place[place == len(present)] = 0
    return candidates[present[place] == candidates] if len(present) else candidates[:0]


def times_read(shape: tuple[int, ...], source: tuple[int, ...], blocks: tuple[int, ...]) -> float:
    """Average number of `blocks`, processed one by one, that each chunk of `source` overlaps."""
    pairs, chunks = 1, 1
    for length, chunk, block in zip(shape, source, blocks, strict=True):
        if length:
            pairs *= _pairs(length, chunk, block)
            chunks *= -(-length // chunk)
    return pairs / chunks if chunks else 1.0


def cutting_order(source: tuple[int, ...], inner_chunks: tuple[int, ...]) -> tuple[int, ...]:
    """The axes of a shard in the order of cutting it into parts.

    A chunk of `source` that is long compared with an inner chunk is read again for every cut across it, so
    axes along which it is short come first. The order depends only on the two shapes, and shards store their
    inner chunks in it, so that their bytes do not depend on the parts.
    """
    return tuple(sorted(range(len(source)), key=lambda axis: source[axis] / inner_chunks[axis]))


def _pairs(length: int, chunk: int, block: int) -> int:
    """Number of overlapping pairs of a chunk and a block along one axis."""
    # Every boundary of either kind inside the array starts one more pair.
    chunks, blocks, common = ((length - 1) // step for step in (chunk, block, lcm(chunk, block)))
    return 1 + chunks + blocks - common
