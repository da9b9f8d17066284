"""`Cache`: values that were read once are read from memory or a disk nearby.

How it stays right:

- Whether a cached value is still true is decided by counters on its path (versions.py), read before
  the value is fetched and compared whenever it is served. Every mutating call moves them on.
- A whole value also serves ranges of it; a range is an entry of its own; a missing key is one too.
- Values are copied on the way in and cannot be written to on the way out.

What it cannot know: changes made past it. Give `ttl` for data that others change.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from zarr.abc.store import ByteRequest, Store
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.core.buffer.core import default_buffer_prototype

from ...base.transformer import StorageTransformer
from ...core.errors import StorageError
from .buffers import copied, found_in, size_of
from .changes import change, change_sync
from .folder_control import LEAST_BUDGET, check_folder
from .lookup import keep, keep_sync, look, look_sync, open_tiers, open_tiers_sync
from .options import check_bytes, check_ttl, parse_disk
from .ranges import ODD, part_of
from .record import Found, Part
from .single_flight import wait_async
from .source_identity import source_digest, source_of
from .state import MEMORY, MISS, SHARED, CacheState, Figures
from .versions import Place

Work: TypeAlias = Callable[[], Awaitable[None]]


class Cache(StorageTransformer):
    """Keeps what is read and written in memory, and in a second, larger place if one is named.

    Parameters
    ----------
    store
        The store below.
    memory_bytes
        Budget of the memory tier, in bytes; 0 for none.
    disk
        A folder (text or path), shared by all processes of this machine that name it; or any zarr
        store, for one process at a time. None for no disk tier.
    disk_bytes
        Budget of the disk tier, in bytes. For a shared folder, that of the last process to open it.
    ttl
        Seconds after which a value is fetched anew; None for never.
    negative
        Whether missing keys are remembered too.
    offline
        Never ask the store below: what is cached is served at any age, everything else is an error.
    keep_writes
        Whether values that are written are kept as well.
    source
        A name for what is cached, where the disk tier cannot tell by itself (source_identity.py).
    clock
        Seconds; wall time, since processes share it.

    A request that makes no sense is a UsageError; so is a disk tier of another version, or a folder with
    other files. A disk that is full or out of order is reported in `figures().trouble` and by the
    logger `zarrstack.cache`, and reading goes on without it.
    """

    name = "cache"
    transparent = True
    short = "disk"

    def __init__(
        self,
        store: Store | None = None,
        *,
        memory_bytes: int = 256 * 1024 * 1024,
        disk: str | os.PathLike[str] | Store | None = None,
        disk_bytes: int = 10 * 1024**3,
        ttl: float | None = None,
        negative: bool = True,
        offline: bool = False,
        keep_writes: bool = True,
        source: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(store)
        check_bytes("memory_bytes", memory_bytes, 0)
        check_bytes("disk_bytes", disk_bytes, LEAST_BUDGET)
        check_ttl(ttl)
        folder, disk_store = parse_disk(disk)
        if folder is not None:
            check_folder(folder)
        self._negative = negative
        self._keep_writes = keep_writes
        self._source = source
        self._state = CacheState(
            memory_bytes=memory_bytes,
            folder=folder,
            store=disk_store,
            disk_bytes=disk_bytes,
            ttl=ttl,
            offline=offline,
            clock=clock,
        )

    @property
    def options(self) -> Mapping[str, Any]:
        """What makes an equal cache; a folder is the same however it was given."""
        folder = self._state.folder
        return self._options if folder is None else {**self._options, "disk": folder}

    def figures(self) -> Figures:
        """Hits, misses, bytes and evictions so far; shared by read-only copies."""
        return self._state.figures()

    # -- opening and closing ---------------------------------------------------------------------

    async def _ensure_tiers(self) -> None:
        if not self._state.ready:
            await open_tiers(self._state, self._digest())

    def _ensure_tiers_sync(self) -> None:
        if not self._state.ready:
            open_tiers_sync(self._state, self._digest())

    def _digest(self) -> str:
        """What stands for the source in the disk tier."""
        if self._state.folder is None and self._state.store is None:
            return ""
        return source_digest(source_of(self._store) if self._source is None else self._source)

    def close(self) -> None:
        """Leave the disk tier, and close the store below."""
        self._state.close()
        super().close()

    # Offline, the store below is not even opened: its disk may be gone.

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
        """As the store below; offline always."""
        return self._state.offline or self._store.read_only

    @property
    def _supports_sync_io(self) -> bool:
        return self._state.store is None and super()._supports_sync_io

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
        """The value or a range of it, from the nearest tier that has it."""
        if prototype is None:
            prototype = default_buffer_prototype()
        state = self._state
        part = None if byte_range is None else part_of(byte_range)
        found = state.remembered(key, part)
        if found is None:
            await self._ensure_tiers()
            place = state.place(key)
            if place is None or part is ODD:
                self._online(key)
                return await self._store.get(key, prototype, byte_range)
            found = await self._fetch(key, part, place, prototype, byte_range)
        else:
            state.count(MEMORY, size_of(found))
        return None if found.data is None else prototype.buffer.from_bytes(found.data)

    async def _fetch(
        self, key: str, part: Part, place: Place, prototype: BufferPrototype, byte_range: ByteRequest | None
    ) -> Found:
        state = self._state
        while True:
            flight, leads = state.flights.join((key, part), place.stamp(), blocking=False)
            if leads:
                break
            shared: Found | None = await wait_async(flight)
            if shared is not None:
                state.count(SHARED, size_of(shared))
                return shared
        try:
            # Another leader may have landed since the caller looked.
            found = state.remembered(key, part) or await look(state, key, part, place)
            if found is None:
                self._online(key)
                stamp, started = place.quiet(), state.clock()
                value = await self._store.get(key, prototype, byte_range)
                found = found_in(value, started, stamp)
                state.count(MISS, size_of(found))
                if self._is_kept(part, found):
                    await keep(state, key, part, found, place)
        except BaseException as error:
            state.flights.crash(flight, error)
            raise
        state.flights.land(flight, found)
        return found

    def _is_kept(self, part: Part, found: Found) -> bool:
        if found.stamp < 0:  # a change was under way
            return False
        return self._negative if found.data is None else part is None or len(found.data) > 0

    async def _known(self, key: str) -> Found | None:
        """The whole value, if a tier holds it."""
        found = self._state.remembered(key, None)
        if found is not None:
            self._state.count(MEMORY, 0)
            return found
        await self._ensure_tiers()
        place = self._state.place(key)
        return None if place is None else await look(self._state, key, None, place)

    async def exists(self, key: str) -> bool:
        """Whether the key has a value; what is cached is not asked for."""
        found = await self._known(key)
        if found is not None:
            return found.data is not None
        self._online(key)
        return await self._store.exists(key)

    async def getsize(self, key: str) -> int:
        """Length of the value in bytes; FileNotFoundError when it is missing."""
        found = await self._known(key)
        if found is None:
            self._online(key)
            return await self._store.getsize(key)
        if found.data is None:
            raise FileNotFoundError(key)
        return len(found.data)

    async def getsize_prefix(self, prefix: str) -> int:
        """Length in bytes of all values below a path, as the store below says."""
        self._online(prefix, "asks for what lies below a path")
        # Without the slash, zarr 3.1.6 counts `a/c/10` as below `a/c/1`.
        return await self._store.getsize_prefix(prefix.rstrip("/") + "/" if prefix else "")

    async def is_empty(self, prefix: str) -> bool:
        """Whether no key lies below a path, as the store below says."""
        self._online(prefix, "asks for a listing")
        return await self._store.is_empty(prefix)

    def list(self) -> AsyncIterator[str]:
        """Every key, as the store below says."""
        self._online("", "asks for a listing")
        return self._store.list()

    def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Every key that starts with this text, as the store below says."""
        self._online(prefix, "asks for a listing")
        return self._store.list_prefix(prefix)

    def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """The names right below a path, as the store below says."""
        self._online(prefix, "asks for a listing")
        return self._store.list_dir(prefix)

    # -- writing ---------------------------------------------------------------------------------

    async def set(self, key: str, value: Buffer) -> None:
        """Write a whole value to the store below, then keep it."""
        self._check_writable()
        kept = copied(value) if self._keep_writes else None
        await self._apply(key, lambda: self._store.set(key, value), kept)

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """As the store below does it; which value is there then is not known, so none is kept."""
        self._check_writable()
        await self._apply(key, lambda: self._store.set_if_not_exists(key, value))

    async def delete(self, key: str) -> None:
        """Remove a key (a local store takes a folder as well, with all that is in it)."""
        self._check_writable()
        await self._apply(key, lambda: self._store.delete(key))

    async def delete_dir(self, prefix: str) -> None:
        """Remove every key below a path, as the store below does it."""
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

    async def _apply(self, path: str, work: Work, kept: memoryview | None = None) -> None:
        await self._ensure_tiers()
        await change(self._state, path, work, kept)

    def _apply_sync(self, path: str, work: Callable[[], None], kept: memoryview | None = None) -> None:
        self._ensure_tiers_sync()
        change_sync(self._state, path, work, kept)

    # -- without an event loop (zarr 3.3+) -----------------------------------------------------------

    def get_sync(
        self, key: str, *, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """As `get`."""
        if prototype is None:
            prototype = default_buffer_prototype()
        state = self._state
        part = None if byte_range is None else part_of(byte_range)
        found = state.remembered(key, part)
        if found is None:
            self._ensure_tiers_sync()
            place = state.place(key)
            if place is None or part is ODD:
                self._online(key)
                return self._below_sync(key, prototype, byte_range)
            found = self._fetch_sync(key, part, place, prototype, byte_range)
        else:
            state.count(MEMORY, size_of(found))
        return None if found.data is None else prototype.buffer.from_bytes(found.data)

    def _below_sync(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None
    ) -> Buffer | None:
        value: Buffer | None = self._sync.get_sync(key, prototype=prototype, byte_range=byte_range)
        return value

    @property
    def _sync(self) -> Any:  # zarr's Store does not name the synchronous methods
        return self._store

    def _fetch_sync(
        self, key: str, part: Part, place: Place, prototype: BufferPrototype, byte_range: ByteRequest | None
    ) -> Found:
        state = self._state
        while True:
            flight, leads = state.flights.join((key, part), place.stamp(), blocking=True)
            if leads:
                break
            if (shared := flight.result.result()) is not None:
                state.count(SHARED, size_of(shared))
                return shared
        try:
            found = state.remembered(key, part) or look_sync(state, key, part, place)
            if found is None:
                self._online(key)
                stamp, started = place.quiet(), state.clock()
                found = found_in(self._below_sync(key, prototype, byte_range), started, stamp)
                state.count(MISS, size_of(found))
                if self._is_kept(part, found):
                    keep_sync(state, key, part, found, place)
        except BaseException as error:
            state.flights.crash(flight, error)
            raise
        state.flights.land(flight, found)
        return found

    def set_sync(self, key: str, value: Buffer) -> None:
        """As `set`."""
        self._check_writable()
        kept = copied(value) if self._keep_writes else None
        self._apply_sync(key, lambda: self._sync.set_sync(key, value), kept)

    def delete_sync(self, key: str) -> None:
        """As `delete`."""
        self._check_writable()
        self._apply_sync(key, lambda: self._sync.delete_sync(key))
