"""Re-encodes a few chunks of an array while it is planned, to estimate the bytes that will be written.

A plan of many arrays becomes hardly slower: once its arrays, bytes or seconds are used up, an array gets the
ratio of those of its kind.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from math import prod
from typing import Final

import numpy as np

from zarrstack.core.errors import StorageError, ZarrstackError

from ..archive.chunk_inventory import Inventory
from ..archive.chunk_reader import MissingObject
from ..archive.nodes import Layout
from ..archive.shard_reader import chunk_reader
from ..core.codecs.base import memory
from ..core.codecs.pipeline import Pipeline
from ..core.data_types.v3 import fill_from_json
from ..core.grid.overlap import Region, intersection, relative, within
from ..core.identity_cache import IdentityCache
from ..planning.estimates import Ratio
from ..planning.routes import Move
from ..storage.base import Storage
from .recode import InnerChunkConversion, convert

_OBJECTS: Final = 8
"""Objects of an array that are read, spread over those that exist."""
_INNER_CHUNKS: Final = 4
"""Inner chunks of a shard."""
_ARRAY_BYTES: Final = 8 << 20
"""Decoded bytes after which no further object of an array is read."""
_PIECE_BYTES: Final = 8 << 20
"""Decoded bytes from which a chunk of another shape is assembled."""
_MOST_BYTES: Final = 256 << 20
"""Decoded bytes of a plan, and the largest chunk that is read."""
_ARRAYS: Final = 256
_ARRAYS_OF_STORE: Final = 4
"""Arrays of a plan; of a store, where each object is a request."""
_SECONDS: Final = 3.0


@dataclass(slots=True)
class _Sums:
    stored: int = 0
    values: int = 0
    encoded: int = 0

    def add(self, stored: int, values: int, encoded: int) -> None:
        self.stored += stored
        self.values += values
        self.encoded += encoded

    @property
    def ratio(self) -> Ratio | None:
        if not self.values:
            return None
        per_byte = self.encoded / self.stored if self.stored else None
        return Ratio(per_byte=per_byte, per_value=self.encoded / self.values)


class SizeSamples:
    """The ratios of the arrays of one plan."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._arrays = _ARRAYS if storage.requests is None else _ARRAYS_OF_STORE
        self._bytes = _MOST_BYTES
        self._seconds = _SECONDS
        self._kinds: dict[object, _Sums] = {}
        self._kind = IdentityCache(self._sums)

    def __call__(self, move: Move, inventory: Inventory) -> Ratio | None:
        """What payloads of an array become; None if that is not known."""
        kind = self._kind(move.source, move.destination)
        size = prod(move.source.chunk_shape) * move.source.item_bytes
        if self._arrays > 0 and self._seconds > 0 and size <= self._bytes and not move.values.allow_pickle:
            self._arrays -= 1
            start = time.perf_counter()
            own = self._sampled(move, inventory)
            self._seconds -= time.perf_counter() - start
            kind.add(own.stored, own.values, own.encoded)
            if own.values:
                return own.ratio
        return kind.ratio

    def _sums(self, source: Layout, destination: Layout) -> _Sums:
        key = source.chain, source.data_type, destination.chain, destination.data_type
        return self._kinds.setdefault((*key, source.chunk_shape == destination.chunk_shape), _Sums())

    def _sampled(self, move: Move, inventory: Inventory) -> _Sums:
        """Chunks that cannot be converted are left out: the run reports them, and waits for a store."""
        sums, budget = _Sums(), min(_ARRAY_BYTES, self._bytes)
        count = min(len(inventory.indexes), _OBJECTS if self._storage.requests is None else 2)
        places = (2 * np.arange(count) + 1) * len(inventory.indexes) // max(2 * count, 1)
        try:
            reader = chunk_reader(self._storage, move.path, move.source)
            conversion = InnerChunkConversion(move, reader, recheck=False)
            for number in inventory.indexes[places].tolist():
                read = sums.values
                for figures in _converted(conversion, number):
                    sums.add(*figures)
                spent = (sums.values - read) * move.source.item_bytes
                budget -= spent
                self._bytes -= spent
                if budget <= 0:
                    break
        except StorageError:
            self._arrays = 0
        except (ZarrstackError, MissingObject, MemoryError, OSError):
            pass
        return sums


def _converted(conversion: InnerChunkConversion, number: int) -> Iterator[tuple[int, int, int]]:
    """(stored bytes, values, encoded bytes) of some inner chunks of an object, or of a new one."""
    source = conversion.move.source
    if conversion.move.route.name == "regrid":
        yield _assembled(conversion, number)
        return
    for chunk in islice(conversion.source.encoded(number), _INNER_CHUNKS):
        payload = conversion(chunk)
        yield chunk.size, prod(source.chunk_shape), 0 if payload is None else memory(payload).nbytes


def _assembled(conversion: InnerChunkConversion, number: int) -> tuple[int, int, int]:
    """The figures of an inner chunk of the result, or of as much of it as takes few chunks of the source."""
    move = conversion.move
    source, target = move.source, move.destination
    region, is_whole = _piece(source, target, source.objects.region(source.objects.coordinates(number)))
    shape = target.chunk_shape if is_whole else tuple(axis.stop - axis.start for axis in region)
    fill = fill_from_json(source.fill_value, source.data_type)
    array = np.full(shape, fill, dtype=source.data_type.numpy)
    for other in within(region, source.objects).tolist():
        try:
            for whole, values in conversion.source.decoded(other, region):
                if values is not None:
                    common = intersection(whole, region)
                    array[relative(common, region)] = values[relative(common, whole)]
        except MissingObject:
            continue
    if conversion.casts:
        array = np.asarray(convert(move, array))
    payload = Pipeline(target.chain, shape, target.data_type).encode(array)
    return 0, prod(axis.stop - axis.start for axis in region), memory(payload).nbytes


def _piece(source: Layout, target: Layout, place: Region) -> tuple[Region, bool]:
    """The region of an inner chunk of the result at a place, cut to a few chunks; whether it is whole."""
    lengths = target.chunk_shape
    at = tuple(axis.start // length for axis, length in zip(place, lengths, strict=True))
    region, is_whole = list(target.grid.region(at)), True
    while True:
        axes = zip(region, source.chunk_shape, strict=True)
        counts = [-(-axis.stop // length) - axis.start // length for axis, length in axes]
        if prod(counts) * prod(source.chunk_shape) * source.item_bytes <= _PIECE_BYTES or max(counts) == 1:
            return tuple(region), is_whole
        widest = counts.index(max(counts))
        start = max(region[widest].start, place[widest].start)
        stop = min(region[widest].stop, start + source.chunk_shape[widest] * (counts[widest] // 2))
        region[widest], is_whole = slice(start, stop), False
