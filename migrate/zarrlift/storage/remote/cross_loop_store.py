"""A zarr store that runs in our event loop, for readers in another one.

zarr-python's synchronous interface runs stores in its own event loop, in which a file system or a lock first
used in our loop fails. Calls are therefore forwarded to our loop. They are subject to the storage's
concurrency limit, and are repeated like its own requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from zarr.abc.buffer import Buffer, BufferPrototype
from zarr.abc.store import ByteRequest, Store

from zarrstack.base.forked import guard

from .adaptive_concurrency import ConcurrencyLimiter
from .event_loop import collect, loop
from .store_listing import settled

T = TypeVar("T")


class CrossLoopStore(Store):
    """`store` below `prefix` ("" or ending with "/"), with each call run in our event loop."""

    supports_deletes = True
    supports_writes = True
    supports_listing = True

    def __init__(self, store: Store, prefix: str, pace: ConcurrencyLimiter) -> None:
        super().__init__(read_only=store.read_only)
        self._inner = store
        guard(self, "_inner")
        self._prefix = prefix
        self._pace = pace

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CrossLoopStore):
            return False
        return self._prefix == other._prefix and self._inner == other._inner

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        return f"{self._inner}/{self._prefix}".rstrip("/")

    def with_read_only(self, read_only: bool = False) -> CrossLoopStore:
        return CrossLoopStore(self._inner.with_read_only(read_only), self._prefix, self._pace)

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        return await self._across(
            lambda: self._inner.get(self._prefix + key, prototype, byte_range), single=True
        )

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        ranges = [(self._prefix + key, byte_range) for key, byte_range in key_ranges]
        return await self._across(lambda: self._inner.get_partial_values(prototype, ranges))

    async def exists(self, key: str) -> bool:
        return await self._across(lambda: self._inner.exists(self._prefix + key))

    async def set(self, key: str, value: Buffer) -> None:
        self._check_writable()
        await self._across(lambda: self._inner.set(self._prefix + key, value))

    async def delete(self, key: str) -> None:
        self._check_writable()
        await self._across(lambda: self._inner.delete(self._prefix + key))

    async def list(self) -> AsyncIterator[str]:
        """All keys, collected in our loop first."""
        async for key in self.list_prefix(""):
            yield key

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Keys with a prefix, collected in our loop first."""
        for key in await self._listed(self._inner.list_prefix, prefix):
            yield key[len(self._prefix) :]

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """Names below a prefix, collected in our loop first."""
        for name in await self._listed(self._inner.list_dir, prefix):
            yield name

    async def _listed(self, listing: Callable[[str], AsyncIterator[str]], prefix: str) -> Sequence[str]:
        return await self._across(lambda: settled(lambda: collect(listing(self._prefix + prefix))))

    async def _across(self, ask: Callable[[], Awaitable[T]], *, single: bool = False) -> T:
        """Run one request in our loop."""

        async def paced() -> T:
            await self._inner._ensure_open()  # noqa: SLF001 - as in zarr_store
            return await self._pace(ask, single=single)

        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(paced(), loop()))
