"""The second side of a comparison of values: what is read by region, by zarr-python or by zarrlift."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from zarrstack.core.chunk_keys_v3 import KeyEncoding
from zarrstack.core.errors import ZarrstackError
from zarrstack.core.json_text import JSONObject
from zarrstack.core.paths import prefix_of

from ..core.data_types.compare import Values, part_of
from ..core.grid.chunk_keys import ChunkKeys
from ..core.grid.grid import Grid
from ..storage.base import Storage
from ..transfer.stored_chunks import MissingObject
from .regions import Region, inner_chunk_shape, intersection, overlapping, within
from .source_objects import SourceObjects
from .zarr_python_reader import (
    chunk_shape,
    data_type_name,
    native,
    open_array,
    parse,
    read_regions,
    reading_store,
)

if TYPE_CHECKING:
    from zarr.core.metadata.v3 import ArrayV3Metadata

    from ..archive.nodes import Layout


class Result(ABC):
    """One array that is read by region."""

    storage: Storage
    path: str
    document: JSONObject | None = None
    """Its `zarr.json`, with which another process can read it; None if there is none."""
    grid: Grid
    """Of stored objects."""
    inner_chunk: tuple[int, ...]
    """Shape of the smallest unit that is decoded."""
    keys: ChunkKeys
    prefix: str
    """Of the keys of its objects."""
    type_name: str
    """Name of the data type."""
    dtype: np.dtype[Any]
    """Type of its values in memory."""

    def key(self, place: tuple[int, ...]) -> str:
        """The key of the object that contains the element at `place`."""
        lengths = self.grid.chunk_shape
        inside = tuple(at // length for at, length in zip(place, lengths, strict=True))
        return self.prefix + self.keys.key(inside)

    @abstractmethod
    def read(self, regions: Sequence[Region]) -> list[Values | Exception]:
        """The values of each region, or why it cannot be read."""


class ZarrPythonResult(Result):
    """An array of Zarr v3 as zarr-python reads it; its `zarr.json` need not be stored. MetadataError."""

    def __init__(
        self, storage: Storage, path: str, document: JSONObject, metadata: ArrayV3Metadata | None = None
    ) -> None:
        metadata = parse(document) if metadata is None else metadata
        self.storage, self.path, self.document = storage, path, document
        self.grid = Grid(tuple(metadata.shape), chunk_shape(metadata))
        self.inner_chunk = inner_chunk_shape(document, self.grid)
        self.keys = KeyEncoding.from_json(metadata.chunk_key_encoding.to_dict())
        self.prefix = prefix_of(path)
        self.type_name, self.dtype = data_type_name(metadata), native(metadata)
        self._array = open_array(metadata, reading_store(storage), path)

    def read(self, regions: Sequence[Region]) -> list[Values | Exception]:
        """The values of all regions, read concurrently: the caller limits their size."""
        return read_regions(self._array, regions)


class DecodedResult(Result):
    """An array of any format as zarrlift decodes it; ZarrstackError if it cannot be decoded at all."""

    def __init__(self, storage: Storage, path: str, layout: Layout) -> None:
        self.storage, self.path = storage, path
        self.grid, self.inner_chunk = layout.objects, layout.chunk_shape
        self.keys, self.prefix = layout.keys, layout.prefix(path)
        self.type_name, self.dtype = layout.data_type.name, layout.data_type.numpy
        self._objects = SourceObjects(storage, path, layout)

    def read(self, regions: Sequence[Region]) -> list[Values | Exception]:
        """The values of each region; missing objects read as the fill value."""
        values: list[Values | Exception] = []
        for region in regions:
            try:
                values.append(self._read(region))
            except ZarrstackError as error:
                values.append(error)
        return values

    def _read(self, region: Region) -> Values:
        shape = tuple(axis.stop - axis.start for axis in region)
        result: Values = np.empty(shape, self.dtype)
        result[...] = self._objects.fill(shape)
        for place in overlapping(region, self.grid.chunk_shape):
            try:
                for whole, values in self._objects.overlapping(place, region):
                    if values is not None:
                        part = intersection(whole, region)
                        target = part_of(result, within(part, region))
                        target[...] = part_of(values, within(part, whole))
            except MissingObject:
                continue
            except ZarrstackError as error:
                error.at(node=self.path, key=self._objects.key(place))
                raise
        return result
