"""Linear indexes of chunks from a page of their keys, at once: one key at a time costs four times as much."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

import numpy as np

from zarrstack.core.chunk_keys_v3 import KeyEncoding

from ..core.grid.chunk_keys import ChunkKeys, N5Keys
from ..core.grid.grid import Grid
from .chunk_columns import Indexes

NO_CHUNK: Final = -1
_ZERO, _NINE, _NEWLINE, _C = b"09\nc"
_MAX_DIGITS: Final = 18
"""Decimal digits that always fit an int64."""
_FEW: Final = 16
"""Number of keys up to which one at a time is faster."""


def chunk_indexes(names: Sequence[str], keys: ChunkKeys, grid: Grid) -> Indexes:
    """The linear index of each key's chunk, or NO_CHUNK; keys are relative to the array."""
    if isinstance(keys, KeyEncoding | N5Keys) and grid.shape and len(names) > _FEW:
        indexes = _all_regular(names, keys, grid)
        if indexes is not None:
            return indexes
    ndim = len(grid.shape)
    places = (keys.coordinates(name, ndim) for name in names)
    each = (None if place is None else grid.index(place) for place in places)
    return np.array([NO_CHUNK if index is None else index for index in each], np.int64)


def _all_regular(names: Sequence[str], keys: KeyEncoding | N5Keys, grid: Grid) -> Indexes | None:
    """The same if every key has the form of a chunk's key; None if one has not, or is unusually long."""
    separator = "/" if isinstance(keys, N5Keys) else keys.separator
    led = isinstance(keys, KeyEncoding) and keys.name == "default"
    text = np.frombuffer(("\n".join(names) + "\n").encode("utf-8", "surrogatepass"), np.uint8)
    at_end = text == _NEWLINE
    stops = np.flatnonzero(at_end | (text == ord(separator)))
    ndim = len(grid.shape)
    fields = ndim + led
    if len(stops) != len(names) * fields or not at_end[stops[fields - 1 :: fields]].all():
        return None
    others = len(text) - len(stops)
    starts = np.concatenate(([0], stops[:-1] + 1)).reshape(-1, fields)
    ends = stops.reshape(-1, fields)
    if led:
        if (ends[:, 0] - starts[:, 0] != 1).any() or (text[starts[:, 0]] != _C).any():
            return None
        starts, ends, others = starts[:, 1:], ends[:, 1:], others - len(names)
    lengths = ends - starts
    longest = int(lengths.max(initial=0))
    digits = np.count_nonzero((text >= _ZERO) & (text <= _NINE))
    leading_zero = (text[starts] == _ZERO) & (lengths > 1)
    if digits != others or longest > _MAX_DIGITS or lengths.min(initial=1) < 1 or leading_zero.any():
        return None
    places = np.zeros(starts.shape, np.int64)
    for digit in range(longest):
        has = lengths > digit
        values = text[np.where(has, starts + digit, 0)] - np.int64(_ZERO)
        places = np.where(has, places * 10 + values, places)
    if isinstance(keys, N5Keys) and keys.axes == "reversed":
        places = places[:, ::-1]
    counts = grid.counts
    if prod(counts) > np.iinfo(np.int64).max:
        return None
    strides = np.array([prod(counts[axis + 1 :]) for axis in range(ndim)], np.int64)
    inside = (places < np.array(counts, np.int64)).all(axis=1)
    return np.where(inside, places @ strides, NO_CHUNK)
