"""The stored objects of an array in the source, decoded for comparison."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from zarrstack.core.errors import ZarrstackError

from ..archive.decoder import ObjectDecoder, object_decoder
from ..archive.nodes import Layout
from ..core.data_types.compare import Values, part_of
from ..core.grid.frames import Shards
from ..core.grid.overlap import within as inner_chunks_within
from ..storage.base import Storage
from ..transfer.inner_chunks import inner_chunks
from ..transfer.stored_chunks import MissingObject
from .documents import fill_of
from .regions import Region, intersection

if TYPE_CHECKING:
    from ..archive.chunk_inventory import Indexes


class SourceObjects:
    """The stored objects of one array in the source, decoded by zarrlift."""

    def __init__(self, storage: Storage, path: str, layout: Layout, *, allow_pickle: bool = False) -> None:
        self.storage = storage
        self.path = path
        self.layout = layout
        self.grid = layout.objects
        self._allow_pickle = allow_pickle
        self._stored = inner_chunks(storage, path, layout, allow_pickle=allow_pickle)
        self._fill = fill_of(layout.data_type, layout.fill_value)

    @cached_property
    def _decoder(self) -> ObjectDecoder:
        # An array without chunks may have codecs that no decoder can be built for.
        return object_decoder(self.layout, allow_pickle=self._allow_pickle)

    def key(self, coordinates: tuple[int, ...]) -> str:
        """The storage key of an object."""
        return self.layout.key(self.path, coordinates)

    def read(self, coordinates: tuple[int, ...]) -> Values | None:
        """An object's values within the array, or None if it is missing; ChunkError, StorageError."""
        data = self.storage.get(self.key(coordinates), self._stored.bound)
        if data is None:
            return None
        return part_of(self._decoder.decode(data), self.grid.valid(coordinates))

    def overlapping(
        self, coordinates: tuple[int, ...], region: Region
    ) -> Iterator[tuple[Region, Values | None]]:
        """Regions of one object that overlap `region`, with their values: None for a missing inner chunk.

        In a shard, only the overlapping inner chunks are decoded. MissingObject, before anything is yielded;
        ChunkError, StorageError.
        """
        if not isinstance(self.layout.frame, Shards):
            values = self.read(coordinates)
            if values is None:
                raise MissingObject
            yield self.grid.region(coordinates), values
            return
        grid, whole = self.layout.grid, self.grid.region(coordinates)
        wanted = inner_chunks_within(intersection(region, whole), grid)
        missing = set(wanted.tolist())
        for number, values in self._inner_chunks(coordinates, wanted):
            missing.remove(number)
            yield grid.region(grid.coordinates(number)), values
        for number in sorted(missing):
            yield grid.region(grid.coordinates(number)), None

    def _inner_chunks(self, coordinates: tuple[int, ...], wanted: Indexes) -> Iterator[tuple[int, Values]]:
        """(linear index, values within the array) of those inner chunks of a shard that exist."""
        grid = self.layout.grid
        for chunk in self._stored.stored(self.grid.index(coordinates) or 0, wanted):
            try:
                values = self._stored.decode(chunk)
            except ZarrstackError as error:
                raise self._stored.with_position(error, chunk.number) from error
            yield chunk.number, part_of(values, grid.valid(grid.coordinates(chunk.number)))

    def fill(self, shape: tuple[int, ...]) -> Values:
        """The values of a missing chunk."""
        return np.broadcast_to(self._fill, shape)
