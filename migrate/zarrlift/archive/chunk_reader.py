"""Reads the inner chunks of an array: payloads, N5 blocks, and what all frames have in common.

A reader is used wherever chunks are decoded, except by `transfer/recheck.py`, which shares nothing with it.
What every reader promises:

- An object that is larger than a chunk of its array can be is not read, and no decoder returns more than a
  chunk.
- A missing object is MissingObject; where several are read, it is counted, and the others are read.
- Values have the chunk's shape and the data type in native byte order. N5 blocks that do not fill their cell
  are padded with zeros; elements beyond the array's end are undefined.
- Errors are ChunkError, with the position in an object of several inner chunks, and StorageError.

`shard_reader.chunk_reader` selects the reader by the frame of the layout.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import cached_property, partial
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np

from zarrstack.core.errors import ZarrstackError

from ..core.codecs.base import OBJECT_LIMIT, Buffer
from ..core.codecs.pipeline import Pipeline
from ..core.data_types.compare import part_of
from ..core.grid.frames import N5Blocks, Shards
from ..core.grid.overlap import Region, intersection, present_candidates, within
from ..core.n5.block_pipeline import BlockPipeline
from ..core.n5.blocks import head_bytes
from ..storage.base import READ_AHEAD, Storage
from ..storage.local.files import ReadLimit

if TYPE_CHECKING:
    from concurrent.futures import Future

    from ..storage.versions import ListedVersions, Version
    from .chunk_columns import Indexes
    from .nodes import Layout

Array: TypeAlias = np.ndarray[Any, Any]
E = TypeVar("E", bound=Exception)


class MissingObject(Exception):  # noqa: N818 - in a store that cannot list this is no error
    """Raised for an object that does not exist."""


class InnerChunk(NamedTuple):
    """A stored inner chunk."""

    number: int
    """Its linear index in the grid of inner chunks; -1 if it is entirely beyond the array's end."""
    payload: Buffer
    size: int
    """Bytes read for it, with any header."""
    shape: tuple[int, ...] | None = None
    """Of an N5 block that does not fill its cell, the shape of its values in the displayed order."""


class ReadCounts(Protocol):
    """Receives what happens to the objects that are read together."""

    chunks: int
    """Objects read."""

    def failed(self, error: ZarrstackError | OSError | MemoryError, key: str) -> None:
        """Record an object that could not be read."""

    def missing(self, key: str) -> None:
        """Record a missing object."""


class ChunkReader:
    """The inner chunks of an array whose objects are payloads; thread-safe.

    Its chain is compiled on first use: codecs of an array without chunks need not be supported.
    """

    def __init__(self, storage: Storage, path: str, layout: Layout, *, allow_pickle: bool = False) -> None:
        self.storage = storage
        self.path = path
        self.layout = layout
        self._objects = layout.objects
        self._allow_pickle = allow_pickle

    @cached_property
    def pipeline(self) -> Pipeline:
        """The compiled chain of a payload that has the inner chunk's shape."""
        layout = self.layout
        return Pipeline(layout.chain, layout.chunk_shape, layout.data_type, allow_pickle=self._allow_pickle)

    @cached_property
    def bound(self) -> ReadLimit:
        """The maximum size of an object."""
        with contextlib.suppress(ZarrstackError):  # reported when an object is decoded
            return object_bound(self.layout, self.pipeline)
        return object_bound(self.layout)

    def keys(self, numbers: Indexes) -> list[str]:
        """The keys of objects with these linear indexes."""
        return self.layout.object_keys(self.path, self._objects.coordinates_of(numbers))

    def key(self, number: int) -> str:
        """The key of one object."""
        return self.layout.key(self.path, self._objects.coordinates(number))

    def contents(
        self, keys: Sequence[str], counts: ReadCounts, versions: Sequence[Version | None]
    ) -> Iterator[bytes | None]:
        """Yield whole objects in order; None for a missing or an unreadable one, which `counts` records.

        `versions` has the version for each key from the listing, or None.
        """
        storage, limit = self.storage, self.bound
        decoded = prod(self.layout.object_shape) * (self.layout.data_type.itemsize or 1)
        requests = storage.requests
        items = list(zip(keys, versions, strict=True))
        if requests is None:
            return _each(
                keys, counts, (partial(storage.get, key, limit, version=each) for key, each in items)
            )
        from ..storage.remote.async_requests import read_ahead  # files do not need asyncio

        def ask(part: Sequence[tuple[str, Version | None]]) -> list[Future[bytes | None]]:
            return requests.get([key for key, _ in part], limit, [version for _, version in part])

        coming = read_ahead(items, lambda _: decoded, ask, most=READ_AHEAD)
        return _each(keys, counts, (future.result for future in coming), coming)

    def split(self, number: int, data: bytes) -> Iterable[InnerChunk]:
        """The inner chunks in the content of an object, in stored order; ChunkError."""
        return (InnerChunk(number, data, len(data)),)

    def read(
        self,
        numbers: Indexes,
        counts: ReadCounts,
        *,
        wanted: Indexes | None = None,
        versions: ListedVersions | None = None,
        opened: set[int] | None = None,
        lost: set[int] | None = None,
    ) -> Iterator[tuple[str, InnerChunk]]:
        """Yield the inner chunks of objects, each with its object's key; missing ones are omitted.

        `wanted` are linear indexes of the inner chunks that suffice. An object of another version than in
        `versions` is an error. Objects are counted unless they are in `opened`, to which shards are added. An
        object that is missing or cannot be read is recorded, and added to `lost`.
        """
        if wanted is not None:
            numbers = present_candidates(numbers, wanted)
        keys = self.keys(numbers)
        contents = self.contents(keys, counts, versions_of(versions, numbers))
        for number, key, data in zip(numbers.tolist(), keys, contents, strict=True):
            try:
                if data is not None:
                    counts.chunks += 1
                    for chunk in self.split(number, data):
                        yield key, chunk
                    continue
            except ZarrstackError as error:
                counts.failed(error, key)
            if lost is not None:
                lost.add(number)

    def encoded(
        self, number: int, wanted: Indexes | None = None, versions: ListedVersions | None = None
    ) -> Iterator[InnerChunk]:
        """Yield the inner chunks of one object, in stored order, or those of them that are wanted and exist.

        `wanted` are linear indexes. MissingObject, ChunkError, StorageError.
        """
        version = None if versions is None else versions.of_index(number)
        data = self.storage.get(self.key(number), self.bound, version=version)
        if data is None:
            raise MissingObject
        yield from self.split(number, data)

    def decoded(
        self, number: int, region: Region | None = None, seen: Callable[[InnerChunk], None] | None = None
    ) -> Iterator[tuple[Region, Array | None]]:
        """Yield the regions of an object's inner chunks within the array, with their values.

        With `region`, only of those that overlap it. The values are None for a missing inner chunk. `seen`
        gets each valid one as it is stored.
        MissingObject, before anything is yielded; ChunkError, StorageError.
        """
        grid = self.layout.grid
        whole = self._objects.region(self._objects.coordinates(number))
        if region is not None:
            whole = intersection(whole, region)
        wanted = within(whole, grid)
        missing = set(wanted.tolist())
        for chunk in self.encoded(number, wanted):
            try:
                values = self.decode(chunk)
            except ZarrstackError as error:
                if (positioned := self.with_position(error, chunk.number)) is error:
                    raise
                raise positioned from error
            if seen is not None:
                seen(chunk)
            missing.remove(chunk.number)
            place = grid.coordinates(chunk.number)
            yield grid.region(place), part_of(values, grid.valid(place))
        for absent in sorted(missing):
            yield grid.region(grid.coordinates(absent)), None

    def decode(self, chunk: InnerChunk) -> Array:
        """The values of an inner chunk, in its whole shape; ChunkError."""
        return self.pipeline.decode(chunk.payload)

    def with_position(self, error: E, number: int) -> E:
        """An error of an inner chunk, with its position in the object if there are several."""
        return error


def versions_of(versions: ListedVersions | None, indexes: Indexes) -> Sequence[Version | None]:
    """The version of each object from a listing; None for each if nothing is compared."""
    return [None] * len(indexes) if versions is None else versions.of_indexes(indexes)


def _each(
    keys: Sequence[str],
    counts: ReadCounts,
    results: Iterable[Callable[[], bytes | None]],
    coming: Generator[Future[bytes | None], None, None] | None = None,
) -> Iterator[bytes | None]:
    """Yield the result for each object; `coming` is closed at the end."""
    try:
        for key, result in zip(keys, results, strict=True):
            data = None
            try:
                data = result()
                if data is None:
                    counts.missing(key)
            except (ZarrstackError, MemoryError) as error:
                # One unreadable object must not affect the others.
                counts.failed(error, key)
            yield data
    finally:
        if coming is not None:
            coming.close()


class BlockReader(ChunkReader):
    """For N5: each object is a header and a payload, perhaps of fewer values than a whole inner chunk."""

    @cached_property
    def _blocks(self) -> BlockPipeline:
        layout, frame = self.layout, self.layout.frame
        assert isinstance(frame, N5Blocks)
        return BlockPipeline(layout.chain, layout.chunk_shape, layout.data_type, frame.axes)

    @cached_property
    def pipeline(self) -> Pipeline:
        """That of a whole block."""
        return self._blocks.whole

    def split(self, number: int, data: bytes) -> Iterable[InnerChunk]:
        """The payload behind the header, with its shape if the block does not fill its cell."""
        payload = self._blocks.whole_payload(data)
        if payload is not None:
            return (InnerChunk(number, payload, len(data)),)
        shape, payload = self._blocks.part(data)
        return (InnerChunk(number, payload, len(data), shape),)

    def decode(self, chunk: InnerChunk) -> Array:
        """The values of a block, padded to a whole inner chunk."""
        if chunk.shape is None:
            return super().decode(chunk)
        return self._blocks.filled(self._blocks.decode_part(chunk.shape, chunk.payload))


def object_bound(layout: Layout, inner_chunk: Pipeline | None = None) -> ReadLimit:
    """The maximum size of a stored object of an array; `inner_chunk` is its compiled chain, if made."""
    most = most_in_inner_chunk(layout) if inner_chunk is None else inner_chunk.most_stored
    if isinstance(layout.frame, N5Blocks):
        most += head_bytes(len(layout.chunk_shape))
    elif isinstance(layout.frame, Shards):
        most = most * layout.frame.inner_chunks + layout.frame.index.size(layout.frame.chunks_per_shard)
    return ReadLimit(most)


def most_in_inner_chunk(layout: Layout) -> int:
    """Maximum size of an inner chunk's payload in bytes."""
    try:
        return Pipeline(layout.chain, layout.chunk_shape, layout.data_type, allow_pickle=True).most_stored
    except ZarrstackError:  # a chain that cannot decode, which is reported when it is compiled
        return OBJECT_LIMIT
