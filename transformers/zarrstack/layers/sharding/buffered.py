"""What a sharding layer holds in memory: its place in the table of open shards, its flush and its close.

Open shards are also stored when a store is closed without a way to wait, and when the interpreter exits.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import warnings
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Hashable
from functools import partial
from typing import Any, Final, Self

from zarr.abc.store import Store
from zarr.core.sync import sync

from ...base.chunks import ChunkNames
from ...base.descend import UNBOUND, descend
from ...base.locations import Location, location_of, same_location
from ...base.transformer import StorageTransformer
from ...core.errors import UsageError
from ...system.shared_locks import SharedLock, lock_of, may_block
from .buffer import (
    ShardBuffer,
    ShardingStatistics,
    ShardPlace,
    Waiting,
    flush,
    open_arrays,
    open_shard,
    open_shards,
)
from .shard import ChunkChange, Place, ShardForm
from .stored_shard import StoredShard

logger = logging.getLogger("zarrstack.sharding")
STORED: Final = object()
"""Stands for a value that does not wait in memory."""


class Buffering(StorageTransformer):
    """A layer that may hold chunks in memory, and stores them before it is closed or sent to a process."""

    _own_buffer: ShardBuffer | None = None

    @property
    def _buffer(self) -> ShardBuffer | None:
        """Where changes wait; None if `set` returns when they are stored."""
        return self._own_buffer if self._own_buffer is not None and self._own_buffer.active else None

    @property
    def buffers(self) -> bool:
        return self._buffer is not None

    def figures(self) -> ShardingStatistics:
        """What waits, and how often shards were written; of all arrays that share the buffer."""
        return (ShardBuffer(0) if self._buffer is None else self._buffer).figures()

    def _waits(self) -> bool:
        """Whether anything may wait in memory."""
        return True

    async def store_waiting(self, *, seen: bool = True) -> None:
        """Store all chunks of this layer that wait; errors not `seen` are raised by the next change, too."""
        raise NotImplementedError

    def close(self) -> None:
        """Store what waits, then close the store below.

        In an event loop that cannot wait for it, this begins when the loop runs on; await `flush` first to
        know that it has ended, and of errors.
        """
        if may_block():
            self.flush_sync()
        elif self._waits():
            later(self._close_later())
            return
        super().close()

    async def _close_later(self) -> None:
        await self.store_waiting(seen=False)
        await self.flush()
        super().close()

    def __reduce__(self) -> tuple[Any, ...]:
        if self._store is not UNBOUND:
            self.flush_sync()
        return super().__reduce__()


class BufferedArray(Buffering):
    """The shards of one array, and the changes to them that wait.

    A layer with a buffer sees what waits. A layer without one stores it first, so that whatever it returns is
    stored.
    """

    _form: ShardForm
    _names: ChunkNames
    _known_location: tuple[Location, Hashable] | None = None

    def use_buffer(self, buffer: ShardBuffer | None) -> None:
        """Keep changes in this buffer from now on; None: store each change before `set` returns."""
        self._own_buffer = buffer

    # -- where the array is ----------------------------------------------------------------------------

    def _location(self) -> tuple[Location, Hashable]:
        """The location of the array, and its name in the table of open shards."""
        if self._known_location is None:
            location, names = location_of(self._store), self._names
            depth = sum(isinstance(each, BufferedArray) for each in descend(self))
            # Nested shards may have the same keys as outer ones; the depth distinguishes them.
            location = location._replace(place=(location.place, depth))
            origin = location.base + names.key((0,) * names.ndim)
            region = location.base + names.region
            array = (location.exact, region, origin, names.encoding.separator, self._form)
            self._known_location = (location, array)
        return self._known_location

    @property
    def _array(self) -> Hashable:
        return self._location()[1]

    def _with_store(self, store: Store) -> Self:
        if self._store is not UNBOUND:
            self._location()  # a copy has that of the original
            same_location(store, self._store)
        return super()._with_store(store)

    def _shard(self, key: str) -> StoredShard:
        return StoredShard(store=self._store, key=key, form=self._form, node=self._names.path)

    def _lock(self, shard: str) -> SharedLock:
        """The lock of a shard; the empty name stands for all shards of this array."""
        location, _ = self._location()
        kind = "shard" if shard else "array"
        return lock_of((kind, location.place), location.base + (shard or self._names.region))

    # -- changes that wait -------------------------------------------------------------------------------

    def _at(self, shard: Place) -> ShardPlace:
        return ShardPlace(self._array, shard, partial(self._open_shard, shard))

    def _open_shard(self, shard: Place, buffer: ShardBuffer) -> Waiting:
        stored = self._shard(self._names.key(shard))
        return Waiting(
            at=self._at(shard),
            shard=stored,
            lock=self._lock(stored.key),
            array_lock=self._lock(""),
            buffer=buffer,
            chunks=self._form.count,
        )

    async def _waiting(self, shard: Place, chunk: Place) -> Any:
        """The value of a chunk that waits, None if its removal does, else STORED."""
        waiting = open_shard(self._array, shard)
        if waiting is None:
            return STORED
        if self._buffer is None:
            await waiting.buffer.store(waiting)
            return STORED
        return waiting.changes.get(chunk, STORED)

    async def _put_missing(self, buffer: ShardBuffer, shard: Place, change: ChunkChange) -> None:
        """Keep a value if the chunk has none, waiting or stored."""
        stored = self._shard(self._names.key(shard))
        async with self._lock("").reading(), self._lock(stored.key).writing():
            waiting = open_shard(self._array, shard)
            value = STORED if waiting is None else waiting.changes.get(change.chunk, STORED)
            exists = change.chunk in await stored.open() if value is STORED else value is not None
            if exists:
                return
            waiting = buffer.add(change, self._at(shard))
        assert waiting is not None
        if waiting.is_whole or waiting.buffer.used > waiting.buffer.limit:
            await waiting.buffer.store(waiting)

    async def _flushed(self, prefix: str, names: AsyncIterator[str]) -> AsyncGenerator[str, None]:
        """A listing that begins when what waits below its prefix is stored."""
        prefix, region = prefix.strip("/"), self._names.region
        if region.startswith(prefix) or prefix.startswith(region.rstrip("/")):
            await flush(self._array)
        async for name in names:
            yield name

    # -- flush and close -----------------------------------------------------------------------------------

    async def flush(self) -> None:
        """Store all chunks of this array that wait in memory, of any stack in this process."""
        await self.store_waiting()
        await super().flush()

    async def store_waiting(self, *, seen: bool = True) -> None:
        await flush(self._array, seen=seen)

    def _waits(self) -> bool:
        return bool(open_shards(self._array))

    def flush_sync(self) -> None:
        flush_sync(self._array)
        super().flush_sync()


def flush_sync(array: Hashable) -> None:
    """Synchronous `flush`; UsageError in an event loop that cannot wait for it."""
    if not open_shards(array):
        return
    if not may_block():
        raise UsageError(
            "layer 'sharding': chunks wait to be written, and this event loop cannot wait for that",
            advice="Await `store.flush()` first.",
        )
    sync(flush(array))


_later: set[asyncio.Task[None]] = set()


def later(work: Coroutine[Any, Any, None]) -> None:
    """Close a store in the running event loop, which cannot wait for it."""
    task = asyncio.ensure_future(work)
    _later.add(task)
    task.add_done_callback(_ended)


def _ended(task: asyncio.Task[None]) -> None:
    _later.discard(task)
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.warning("layer 'sharding': a shard could not be written at close(): %r", error)


def _at_exit() -> None:
    """Store what waits when the interpreter exits, and warn of what cannot be stored."""
    failed: set[Hashable] = set()
    while arrays := [array for array in open_arrays() if array not in failed]:
        for array in arrays:
            try:
                sync(flush(array))
            except Exception as error:  # noqa: BLE001 - reported
                failed.add(array)
                for waiting in open_shards(array):
                    warnings.warn(
                        f"zarrstack: {len(waiting.changes)} chunks of the shard {waiting.shard.key!r} were "
                        f"never written to {waiting.shard.store}: {error!r}",
                        RuntimeWarning,
                        stacklevel=1,
                    )


# Before concurrent.futures ends its threads, which LocalStore needs; `atexit` runs after that. There is no
# public name for it (Python 3.11 to 3.14).
threading._register_atexit(_at_exit)  # type: ignore[attr-defined]  # noqa: SLF001
