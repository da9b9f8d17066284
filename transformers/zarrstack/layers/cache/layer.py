"""`Cache`: serves repeated reads from memory or a nearby disk.

Consistency:

- Counters along a key's path (versions.py) decide whether a cached value is valid. They are read before the
  value is fetched and compared each time it is served; every mutating call increments them.
- A cached value also answers byte ranges of it. A range, or the absence of a key, is cached as a separate
  entry.
- Values are copied when they are cached, and are returned read-only.

The cache cannot detect changes that bypass it. Set `ttl` for data that other programs change.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from zarr.abc.store import ByteRequest, Store
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.core.buffer.core import default_buffer_prototype
from zarr.storage import LocalStore

from ...base.option_checks import either, number
from ...base.sync_calls import Synchronous, complete
from ...base.transformer import StorageTransformer
from ...core.errors import StorageError
from .changes import change
from .folder_control import MIN_BUDGET, check_folder
from .lookup import keep, look
from .options import folder_of, is_duration
from .ranges import ODD, part_of
from .record import CachedValue, Part
from .source_identity import source_digest, source_of
from .state import MEMORY, MISS, SHARED, CacheState, CacheStatistics

Work: TypeAlias = Callable[[], Awaitable[None]]


class Cache(StorageTransformer):
    """Caches values in memory and, optionally, in a second, larger tier on disk.

    Parameters
    ----------
    store
        The store below.
    memory_bytes
        Budget of the memory tier in bytes; 0 disables it.
    disk
        A folder (text, path or LocalStore), shared by all processes on this machine that name it. None: no
        disk tier.
    disk_bytes
        Budget of the disk tier in bytes. The last process to open a shared folder sets its budget.
    ttl
        Seconds after which a value is fetched again; None: never.
    negative
        Whether missing keys are cached too.
    offline
        Never access the store below: cached values are served at any age, any other read is an error.
    keep_writes
        Whether written values are cached as well.
    source
        A name for the data below, where none can be derived from the store (source_identity.py).
    clock
        Returns seconds; wall-clock time, because processes share it.

    Raises UsageError for invalid options, a disk tier of another version, or a folder that holds other files.
    If the disk is full or fails, `figures().trouble` and the logger `zarrstack.cache` report it, and reads
    continue without it.
    """

    name = "cache"
    transparent = True
    short = "disk"

    def __init__(
        self,
        store: Store | None = None,
        *,
        memory_bytes: int = 256 * 1024 * 1024,
        disk: str | os.PathLike[str] | LocalStore | None = None,
        disk_bytes: int = 10 * 1024**3,
        ttl: float | None = None,
        negative: bool = True,
        offline: bool = False,
        keep_writes: bool = True,
        source: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(store)
        number(self, "memory_bytes", memory_bytes, whole=True)
        number(self, "disk_bytes", disk_bytes, least=MIN_BUDGET, whole=True)
        either(self, "ttl", ttl, is_duration, "seconds above 0, or None")
        folder = folder_of(disk)
        if folder is not None:
            check_folder(folder)
        self._negative = negative
        self._keep_writes = keep_writes
        self._source = source
        self._state = CacheState(
            memory_bytes=memory_bytes,
            folder=folder,
            disk_bytes=disk_bytes,
            ttl=ttl,
            offline=offline,
            clock=clock,
        )

    @property
    def options(self) -> Mapping[str, Any]:
        """The options that compare equal for equal caches; a folder is always its absolute path."""
        folder = self._state.folder
        return self._options if folder is None else {**self._options, "disk": folder}

    def figures(self) -> CacheStatistics:
        """Hits, misses, bytes and evictions so far; shared with read-only copies."""
        return self._state.figures()

    # -- opening and closing ---------------------------------------------------------------------

    async def _open_tier(self, *, blocking: bool) -> None:
        """Open the disk tier, if there is one."""
        state = self._state
        if state.folder is None:
            state.ready = True
            return
        source = source_digest(source_of(self._store) if self._source is None else self._source)
        if blocking:
            state.open(state.folder, source)
        else:
            await asyncio.to_thread(state.open, state.folder, source)

    def close(self) -> None:
        """Close the disk tier and the store below."""
        self._state.close()
        super().close()

    # Offline, the store below is not opened, because it may no longer exist.

    async def _open(self) -> None:
        if not self._state.offline:
            await super()._open()

    async def _ensure_open(self) -> None:
        if not self._state.offline:
            await super()._ensure_open()

    @property  # type: ignore[misc]  # WrapperStore's setter only raises
    def _is_open(self) -> bool:  # type: ignore[override]
        return self._state.offline or self._store._is_open  # noqa: SLF001

    @property
    def read_only(self) -> bool:
        """Whether the store below is read-only; always true offline."""
        return self._state.offline or self._store.read_only

    def _online(self, key: str, what: str = "is not in the cache") -> None:
        if self._state.offline:
            raise StorageError(
                f"layer 'cache' is offline, and this {what}",
                key=key,
                advice="Read it once with offline=False.",
            )

    # -- reading ---------------------------------------------------------------------------------

    async def get(
        self, key: str, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Return the value or a byte range of it, from the nearest tier that holds it."""
        prototype = prototype or default_buffer_prototype()
        part = None if byte_range is None else part_of(byte_range)
        found = self._state.in_memory(key, part)
        if found is None:
            return await self._read(key, part, prototype, byte_range, blocking=False)
        return None if found.data is None else prototype.buffer.from_bytes(found.data)

    def get_sync(
        self, key: str, *, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Synchronous `get`."""
        prototype = prototype or default_buffer_prototype()
        part = None if byte_range is None else part_of(byte_range)
        found = self._state.in_memory(key, part)
        if found is None:
            return complete(self._read(key, part, prototype, byte_range, blocking=True))
        return None if found.data is None else prototype.buffer.from_bytes(found.data)

    async def _read(
        self,
        key: str,
        part: Part,
        prototype: BufferPrototype,
        byte_range: ByteRequest | None,
        *,
        blocking: bool,
    ) -> Buffer | None:
        """Read what is not in memory, from the disk tier or the store below."""
        state = self._state
        if not state.ready:
            await self._open_tier(blocking=blocking)
        place = state.place(key)
        if place is None or part is ODD:
            self._online(key)
            return await self._below(blocking).get(key, prototype, byte_range)
        while True:
            flight, leads = state.flights.join((key, part), place.stamp(), blocking=blocking)
            if leads:
                break
            if (shared := await flight.wait(blocking=blocking)) is not None:
                state.count(SHARED, shared.size)
                return None if shared.data is None else prototype.buffer.from_bytes(shared.data)
        try:
            # Another reader may have cached the value in the meantime.
            found = state.remembered(key, part) or await look(state, key, part, place, blocking=blocking)
            if found is None:
                self._online(key)
                stamp, started = place.quiet(), state.clock()
                value = await self._below(blocking).get(key, prototype, byte_range)
                data = None if value is None else memoryview(value.to_bytes())
                found = CachedValue(data=data, stored=started, stamp=-1 if stamp is None else stamp)
                state.count(MISS, found.size)
                if self._is_kept(part, found):
                    await keep(state, key, part, found, place, blocking=blocking)
        except BaseException as error:
            state.flights.crash(flight, error)
            raise
        state.flights.land(flight, found)
        return None if found.data is None else prototype.buffer.from_bytes(found.data)

    def _below(self, blocking: bool) -> Store | Synchronous:
        return Synchronous(self._store) if blocking else self._store

    def _is_kept(self, part: Part, found: CachedValue) -> bool:
        if found.stamp < 0:  # a change is in progress
            return False
        return self._negative if found.data is None else part is None or len(found.data) > 0

    async def _known(self, key: str) -> CachedValue | None:
        """Return the whole value if a tier holds it."""
        found = self._state.remembered(key, None)
        if found is not None:
            self._state.count(MEMORY, 0)
            return found
        if not self._state.ready:
            await self._open_tier(blocking=False)
        place = self._state.place(key)
        return None if place is None else await look(self._state, key, None, place, blocking=False)

    async def exists(self, key: str) -> bool:
        """Whether the key has a value; answered from the cache if possible."""
        found = await self._known(key)
        if found is not None:
            return found.data is not None
        self._online(key)
        return await self._store.exists(key)

    async def getsize(self, key: str) -> int:
        """Length of the value in bytes; FileNotFoundError if the key is missing."""
        found = await self._known(key)
        if found is None:
            self._online(key)
            return await self._store.getsize(key)
        if found.data is None:
            raise FileNotFoundError(key)
        return len(found.data)

    async def getsize_prefix(self, prefix: str) -> int:
        """Total length in bytes of all values below a path, from the store below."""
        self._online(prefix, "asks for what lies below a path")
        # Without the slash, zarr 3.1.6 counts `a/c/10` as below `a/c/1`.
        return await self._store.getsize_prefix(prefix.rstrip("/") + "/" if prefix else "")

    async def is_empty(self, prefix: str) -> bool:
        """Whether no key exists below a path, from the store below."""
        self._online(prefix, "asks for a listing")
        return await self._store.is_empty(prefix)

    def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Every key with this prefix, from the store below."""
        self._online(prefix, "asks for a listing")
        return self._store.list_prefix(prefix)

    def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """The names directly below a path, from the store below."""
        self._online(prefix, "asks for a listing")
        return self._store.list_dir(prefix)

    # -- writing ---------------------------------------------------------------------------------

    async def set(self, key: str, value: Buffer) -> None:
        """Write a whole value to the store below, then cache it."""
        self._check_writable()
        await self._apply(key, lambda: self._store.set(key, value), self._copied(value))

    def set_sync(self, key: str, value: Buffer) -> None:
        """Synchronous `set`."""
        self._check_writable()
        below = Synchronous(self._store)
        complete(self._apply(key, lambda: below.set(key, value), self._copied(value), blocking=True))

    def _copied(self, value: Any) -> memoryview | None:
        """Copy what is cached, because the caller may change its array during the write."""
        is_kept = self._keep_writes and isinstance(value, Buffer)
        return memoryview(value.to_bytes()) if is_kept else None

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Write a value if the key is missing.

        Nothing is cached, because it is unknown which value the key has afterwards.
        """
        self._check_writable()
        await self._apply(key, lambda: self._store.set_if_not_exists(key, value))

    async def delete(self, key: str) -> None:
        """Remove a key; LocalStore also removes a folder and its contents."""
        self._check_writable()
        await self._apply(key, lambda: self._store.delete(key))

    def delete_sync(self, key: str) -> None:
        """Synchronous `delete`."""
        self._check_writable()
        complete(self._apply(key, lambda: Synchronous(self._store).delete(key), blocking=True))

    async def delete_dir(self, prefix: str) -> None:
        """Remove every key below a path."""
        path = prefix.rstrip("/")
        if not path:  # `delete_dir("")` of a LocalStore removes its root
            await self.clear()
            return
        self._check_writable()
        await self._apply(path, lambda: self._store.delete_dir(prefix))

    async def clear(self) -> None:
        """Remove everything."""
        self._check_writable()
        await self._apply("", self._store.clear)

    async def _apply(
        self, path: str, work: Work, kept: memoryview | None = None, *, blocking: bool = False
    ) -> None:
        if not self._state.ready:
            await self._open_tier(blocking=blocking)
        await change(self._state, path, work, kept, blocking=blocking)
