"""The second side of a comparison of values: an array of Zarr v3 that zarr-python reads by region."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from zarrstack.core.chunk_keys_v3 import KeyEncoding
from zarrstack.core.json_text import JSONObject
from zarrstack.core.paths import prefix_of

from ..core.data_types.compare import Values
from ..core.grid.grid import Grid
from ..storage.base import Storage
from .regions import Region, inner_chunk_shape
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


class Result:
    """An array of Zarr v3 as zarr-python reads it; its `zarr.json` need not be stored. MetadataError."""

    def __init__(
        self, storage: Storage, path: str, document: JSONObject, metadata: ArrayV3Metadata | None = None
    ) -> None:
        metadata = parse(document) if metadata is None else metadata
        self.storage, self.path, self.document = storage, path, document
        self.grid = Grid(tuple(metadata.shape), chunk_shape(metadata))
        """Of stored objects."""
        self.inner_chunk = inner_chunk_shape(document, self.grid)
        """Shape of the smallest unit that is decoded."""
        self.keys = KeyEncoding.from_json(metadata.chunk_key_encoding.to_dict())
        self.prefix = prefix_of(path)
        self.type_name, self.dtype = data_type_name(metadata), native(metadata)
        self._array = open_array(metadata, reading_store(storage), path)

    def key(self, place: tuple[int, ...]) -> str:
        """The key of the object that contains the element at `place`."""
        lengths = self.grid.chunk_shape
        inside = tuple(at // length for at, length in zip(place, lengths, strict=True))
        return self.prefix + self.keys.key(inside)

    def read(self, regions: Sequence[Region]) -> list[Values | Exception]:
        """The values of all regions, read concurrently: the caller limits their size."""
        return read_regions(self._array, regions)
