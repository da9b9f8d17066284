"""A remote storage as a zarr store, for readers in another event loop than ours.

zarr-python's synchronous interface runs stores in its own event loop, in which a file system or a lock first
used in our loop fails. Calls are therefore forwarded to our loop. They are subject to the storage's
concurrency limit, and are repeated like its own requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from typing import Any, Final, TypeVar

from zarr.abc.buffer import Buffer, BufferPrototype
from zarr.abc.store import ByteRequest, Store

from zarrstack.base.byte_ranges import slice_of

from ..local.files import ReadLimit
from .async_storage import AsyncStorage, ListedKeys, settled
from .event_loop import loop

T = TypeVar("T")

_UNLIMITED: Final = ReadLimit(1 << 62)


class StorageAsStore(Store):
    """The objects of a storage, with each call run in our event loop."""

    supports_deletes = True
    supports_writes = True
    supports_listing = True

    def __init__(self, storage: AsyncStorage, *, read_only: bool) -> None:
        super().__init__(read_only=read_only)
        self.storage = storage

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StorageAsStore):
            return False
        mine, theirs = self.storage, other.storage
        return mine.base == theirs.base and mine.identity == theirs.identity

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        return self.storage.url

    def with_read_only(self, read_only: bool = False) -> StorageAsStore:
        return StorageAsStore(self.storage, read_only=read_only)

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        storage, place = self.storage, self.storage.key(key)
        if byte_range is None:
            data = await self._across(lambda: storage.read(place, _UNLIMITED, None), single=True)
        else:
            part = slice_of(byte_range)
            data = await self._across(lambda: storage.read_part(place, part, None), single=True)
        return None if data is None else prototype.buffer.from_bytes(data)

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        return list(await asyncio.gather(*[self.get(key, prototype, part) for key, part in key_ranges]))

    async def exists(self, key: str) -> bool:
        return await self._across(lambda: self.storage.exists(self.storage.key(key)))

    async def getsize(self, key: str) -> int:
        size = await self._across(lambda: self.storage.length(self.storage.key(key)))
        if size is None:
            raise FileNotFoundError(key)
        return size

    async def set(self, key: str, value: Buffer) -> None:
        self._check_writable()
        data = value.to_bytes()
        await self._across(lambda: self.storage.write(self.storage.key(key), data), single=True)

    async def delete(self, key: str) -> None:
        self._check_writable()
        await self._across(lambda: self.storage.remove(self.storage.key(key)))

    async def list(self) -> AsyncIterator[str]:
        """All keys, collected in our loop first."""
        async for key in self.list_prefix(""):
            yield key

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Keys with a prefix, collected in our loop first."""

        async def collect() -> ListedKeys:
            listed = ListedKeys()
            async for page in self.storage.pages(self.storage.key(prefix)):
                listed.take(page)
            return listed

        start = len(self.storage.key(""))
        for key in (await self._across(lambda: settled(collect))).keys:
            yield key[start:]

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """Names below a prefix, collected in our loop first."""
        directory = self.storage.key(prefix.strip("/")).rstrip("/")
        for name in await self._across(lambda: settled(lambda: self.storage.names(directory))):
            yield name

    async def _across(self, ask: Callable[[], Coroutine[Any, Any, T]], *, single: bool = False) -> T:
        """Run one request in our loop."""

        async def paced() -> T:
            await self.storage.open()
            return await self.storage.pace(ask, single=single)

        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(paced(), loop()))
