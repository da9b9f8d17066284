"""Both sides of a comparison of values, and their regions.

The source's objects are decoded by zarrlift. The result is an array of Zarr v3 that zarr-python reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from zarrstack.core.chunk_keys_v3 import KeyEncoding
from zarrstack.core.json_text import JSONObject
from zarrstack.core.paths import prefix_of

from ..core.chain.chain import Chain
from ..core.data_types.compare import Values
from ..core.grid.chunk_keys import ChunkKeys
from ..core.grid.grid import Grid
from ..core.grid.overlap import Region
from ..storage.base import Storage
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
    from zarrstack.core.errors import Problem
    from zarrstack.system.zarr_internals import ArrayV3Metadata

    from ..archive.chunk_inventory import Indexes


class Division(NamedTuple):
    """The regions to compare, and how."""

    shape: tuple[int, ...]
    """Of the regions of a grid."""
    indexes: Indexes
    """Which of them."""
    threads: int
    most: int
    """Bytes of regions that one thread holds at a time."""
    cut: bool
    """Whether a larger region is divided further."""


class Compared(NamedTuple):
    """The result of comparing some regions."""

    problems: list[Problem]
    regions: int
    bytes: int
    """Decoded bytes of the result."""


def first_coordinates(region: Region) -> tuple[int, ...]:
    """Coordinates of a region's first element."""
    return tuple(axis.start for axis in region)


def parts(region: Region, itemsize: int, inner_chunk: tuple[int, ...], most_bytes: int) -> Iterator[Region]:
    """Split a region along its first axes into parts of at most `most_bytes`, on inner chunk boundaries."""
    size = itemsize * prod(axis.stop - axis.start for axis in region)
    if size > most_bytes:
        for axis, (extent, step) in enumerate(zip(region, inner_chunk, strict=True)):
            middle = (extent.stop - extent.start) // step // 2 * step
            if middle > 0:
                cut = extent.start + middle
                for half in (slice(extent.start, cut), slice(cut, extent.stop)):
                    smaller = (*region[:axis], half, *region[axis + 1 :])
                    yield from parts(smaller, itemsize, inner_chunk, most_bytes)
                return
    yield region


def inner_chunk_shape(document: JSONObject, grid: Grid) -> tuple[int, ...]:
    """Shape of the smallest unit that a reader of the result decodes."""
    for codec in Chain.from_json(document["codecs"]).codecs:
        if codec.name == "sharding_indexed":
            return tuple(codec.configuration["chunk_shape"])
    return grid.chunk_shape


def list_chunks(storage: Storage, prefix: str, keys: ChunkKeys, grid: Grid) -> Indexes:
    """Linear indexes of an array's stored objects, ascending; their keys start with `prefix`.

    Independent of the migration's own listing, so it finds chunks that the other one overlooks.
    """
    ndim = len(grid.shape)
    indexes: list[int] = []
    waiting = [""]
    deepest = keys.depth(ndim)
    while waiting:
        above = waiting.pop()
        for entry in storage.list_dir((prefix + above).rstrip("/")):
            name = above + entry.name
            if entry.is_dir:
                if name.count("/") + 1 < deepest and (entry.name.removeprefix("c").isdigit() or name == "c"):
                    waiting.append(name + "/")
                continue
            place = keys.coordinates(name, ndim)
            index = None if place is None else grid.index(place)
            if index is not None:
                indexes.append(index)
    return np.array(sorted(indexes), dtype=np.int64)


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
