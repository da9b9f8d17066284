"""The base of views: layers that describe a hierarchy once and present it in another format."""

from __future__ import annotations

import asyncio
import threading
from abc import abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from zarr.abc.store import ByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.core.buffer.core import default_buffer_prototype

from zarrstack.base.byte_ranges import cut
from zarrstack.core.paths import prefix_of
from zarrstack.layers.readonly import ReadOnlyLayer

from .hierarchy import PresentedHierarchy, StoredValue

if TYPE_CHECKING:
    from ..archive.nodes import Layout
    from ..storage.base import Storage

H = TypeVar("H", bound=PresentedHierarchy[Any])


class HierarchyView(ReadOnlyLayer, Generic[H]):
    """A hierarchy in another format, described on first access.

    Later changes of its metadata are not followed.
    """

    def __init__(self, store: Store | None = None) -> None:
        super().__init__(store)
        self._described: H | None = None
        self._lock = threading.Lock()

    @abstractmethod
    def _describe(self) -> H:
        """Describe the hierarchy below; UsageError if there is no archive, StorageError."""

    @abstractmethod
    def _chunks(self, hierarchy: H, path: str) -> AsyncIterator[str]:
        """The keys of an array's chunks, as they are listed."""

    def _hierarchy(self) -> H:
        with self._lock:
            if self._described is None:
                self._described = self._describe()
            return self._described

    async def _ready(self) -> H:
        described = self._described
        return await asyncio.to_thread(self._hierarchy) if described is None else described

    # -- values ---------------------------------------------------------------------------------

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """A document or a chunk in the view's format; None if it is missing. ChunkError, StorageError."""
        hierarchy = await self._ready()
        value = hierarchy.find(key)
        result: bytes | None
        if value is None or isinstance(value, bytes):
            result = value
        elif value.part is not None:
            result = await asyncio.to_thread(value.read, hierarchy.storage)
        else:
            span = _span(byte_range, value.bound.most) if value.is_unchanged and not value.header else None
            data = await _stored(hierarchy.storage, value, span)
            if data is None:
                return None
            if span is not None:
                return prototype.buffer.from_bytes(data)
            result = await asyncio.to_thread(value.shown, data)
        return None if result is None else cut(prototype.buffer.from_bytes(result), byte_range)

    def get_sync(
        self, key: str, *, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Like `get`, without an event loop (zarr 3.3+)."""
        hierarchy = self._hierarchy()
        value = hierarchy.find(key)
        result = value if value is None or isinstance(value, bytes) else value.read(hierarchy.storage)
        kind = (prototype or default_buffer_prototype()).buffer
        return None if result is None else cut(kind.from_bytes(result), byte_range)

    async def exists(self, key: str) -> bool:
        """Whether the key has a value; decodes no chunk."""
        hierarchy = await self._ready()
        value = hierarchy.find(key)
        if value is None or isinstance(value, bytes):
            return value is not None
        if value.part is not None:
            return await asyncio.to_thread(value.part.size) is not None
        return await hierarchy.store.exists(value.key)

    async def getsize(self, key: str) -> int:
        """Length of the value in bytes; unchanged values are not read."""
        hierarchy = await self._ready()
        value = hierarchy.find(key)
        if value is None or isinstance(value, bytes) or not value.is_unchanged:
            return await super().getsize(key)
        if value.part is None:
            return len(value.header) + await hierarchy.store.getsize(value.key)
        size = await asyncio.to_thread(value.part.size)
        if size is None:
            raise FileNotFoundError(key)
        return len(value.header) + size

    # -- names ----------------------------------------------------------------------------------

    def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """All keys with this prefix: documents, then chunks as they are listed."""
        return self._list_prefix(prefix)

    async def _list_prefix(self, prefix: str) -> AsyncGenerator[str, None]:
        hierarchy = await self._ready()
        for key in hierarchy.fixed:
            if key.startswith(prefix):
                yield key
        for path in hierarchy.arrays:
            below = prefix_of(path)
            if below.startswith(prefix) or prefix.startswith(below):
                async for key in self._chunks(hierarchy, path):
                    if key.startswith(prefix):
                        yield key

    def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """The names directly below a path; chunks are listed only if an array contains them."""
        return self._names(prefix.strip("/"))

    async def _names(self, path: str) -> AsyncGenerator[str, None]:
        hierarchy = await self._ready()
        seen = hierarchy.children.get(path, {})
        for name in seen:
            yield name
        if hierarchy.array_above(path) is not None:
            async for name in self._list_dir(path):
                if name not in seen:
                    yield name


def _span(part: ByteRequest | None, most: int) -> tuple[int, int] | None:
    """(start, stop) within an object, for `StoreRequests.parts`; None if the whole object must be read.

    None for a request without a length, or with one above the object's bound `most`.
    """
    match part:
        case RangeByteRequest(start, stop) if start < stop <= start + most:
            return start, stop
        case SuffixByteRequest(size) if 0 < size <= most:
            return -size, 0
    return None


async def _stored(storage: Storage, held: StoredValue, span: tuple[int, int] | None) -> bytes | None:
    """A stored object or a part of it, limited to its bound; ChunkError, StorageError."""
    requests = storage.requests
    if span is None:
        if requests is None:
            return await asyncio.to_thread(held.stored, storage)
        return await asyncio.wrap_future(requests.get([held.key], held.bound)[0])
    if requests is None:
        return await asyncio.to_thread(storage.get_part, held.key, span[0], span[1] - span[0])
    return await asyncio.wrap_future(requests.parts(held.key, [span])[0])


async def stored_objects(store: Store, path: str, layout: Layout) -> AsyncGenerator[tuple[int, ...], None]:
    """Grid positions of the stored objects of the array at a path, as they are listed."""
    ndim, grid, prefix = len(layout.shape), layout.objects, layout.prefix(path)
    async for key in store.list_prefix(prefix):
        place = layout.keys.coordinates(key.removeprefix(prefix), ndim)
        if place is not None and grid.index(place) is not None:
            yield place
