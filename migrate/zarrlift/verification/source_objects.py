"""The stored objects of an array in the source, decoded for comparison."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from zarrstack.core.errors import ZarrstackError

from ..archive.nodes import Layout
from ..core.data_types.compare import Values, part_of
from ..core.grid.overlap import within as inner_chunks_within
from ..storage.base import Storage
from ..transfer.inner_chunks import inner_chunks
from .documents import fill_of
from .regions import Region, intersection


class SourceObjects:
    """The stored objects of one array in the source, decoded by zarrlift."""

    def __init__(self, storage: Storage, path: str, layout: Layout, *, allow_pickle: bool) -> None:
        self.storage = storage
        self.path = path
        self.layout = layout
        self.grid = layout.objects
        self._stored = inner_chunks(storage, path, layout, allow_pickle=allow_pickle)
        self._fill = fill_of(layout.data_type, layout.fill_value)

    def key(self, coordinates: tuple[int, ...]) -> str:
        """The storage key of an object."""
        return self.layout.key(self.path, coordinates)

    def overlapping(
        self, coordinates: tuple[int, ...], region: Region
    ) -> Iterator[tuple[Region, Values | None]]:
        """Regions of one object that overlap `region`, with their values: None for a missing inner chunk.

        In a shard, only the overlapping inner chunks are decoded. MissingObject, before anything is yielded;
        ChunkError, StorageError.
        """
        grid = self.layout.grid
        wanted = inner_chunks_within(intersection(region, self.grid.region(coordinates)), grid)
        missing = set(wanted.tolist())
        for chunk in self._stored.stored(self.grid.index(coordinates) or 0, wanted):
            try:
                values = self._stored.decode(chunk)
            except ZarrstackError as error:
                if (positioned := self._stored.with_position(error, chunk.number)) is error:
                    raise
                raise positioned from error
            missing.remove(chunk.number)
            place = grid.coordinates(chunk.number)
            yield grid.region(place), part_of(values, grid.valid(place))
        for number in sorted(missing):
            yield grid.region(grid.coordinates(number)), None

    def fill(self, shape: tuple[int, ...]) -> Values:
        """The values of a missing chunk."""
        return np.broadcast_to(self._fill, shape)
