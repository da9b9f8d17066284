"""The inner chunks of an array whose stored objects are their payloads, and what all frames have in common.

Objects of one inner chunk each are read completely.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import cached_property, partial
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from zarrstack.core.errors import ZarrstackError

from ..archive.decoder import object_bound
from ..core.codecs.base import Buffer
from ..core.codecs.pipeline import Pipeline
from ..storage.base import READ_AHEAD, Storage

if TYPE_CHECKING:
    from concurrent.futures import Future

    from ..archive.chunk_inventory import Indexes
    from ..archive.nodes import Layout
    from ..storage.local.files import ReadLimit
    from ..storage.versions import ListedVersions, Version
    from .counts import MoveCounts
    from .region_buffer import CarryOver, Region

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


class InnerChunks:
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
        self, keys: Sequence[str], counts: MoveCounts, versions: Sequence[Version | None]
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
        counts: MoveCounts,
        *,
        region: Region | None = None,
        carried: CarryOver | None = None,
        versions: ListedVersions | None = None,
    ) -> Iterator[tuple[str, InnerChunk]]:
        """Yield the inner chunks of objects, each with its object's key; missing ones are omitted.

        An object of another version than in `versions` is an error. With `region`, those that overlap it
        suffice. Those in `carried` are not read again. An object that is missing or cannot be read is
        recorded in `counts`, and the others are counted.
        """
        if carried is not None:
            numbers = carried.new(carried.readable(numbers))
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
            if carried is not None:
                carried.lost.add(number)

    def stored(self, number: int, wanted: Indexes | None = None) -> Iterator[InnerChunk]:
        """Yield the inner chunks of one object, or those of them that are wanted and exist.

        MissingObject, ChunkError, StorageError.
        """
        data = self.storage.get(self.key(number), self.bound)
        if data is None:
            raise MissingObject
        yield from self.split(number, data)

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
    counts: MoveCounts,
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
