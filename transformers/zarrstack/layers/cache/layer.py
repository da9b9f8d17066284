"""`Cache`: serves repeated reads from memory or a nearby disk.

Counters along its path decide whether a cached value is valid (versions.py). What is cached cannot be
written to: a value is copied when it is cached, unless its bytes are immutable.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections.abc import Callable, Mapping
from typing import Any, Literal

from zarr.abc.buffer import Buffer, BufferPrototype
from zarr.abc.store import ByteRequest, Store
from zarr.buffer import default_buffer_prototype
from zarr.storage import FsspecStore, LocalStore, LoggingStore, ZipStore

from ...base.byte_ranges import immutable
from ...base.descend import descend
from ...base.locations import location_of
from ...base.option_checks import either, invalid_option, size
from ...base.sync_calls import blocking_copy, complete
from ...base.transformer import StorageTransformer
from ...core.errors import UsageError
from ...core.json_text import canonical
from ...core.paths import prefix_of
from .folder_control import MIN_BUDGET, check_folder
from .record import ODD, CachedValue, Part, part_of
from .single_flight import PendingFetch
from .state import MISS, SHARED, CacheState, CacheStatistics, Work
from .versions import is_stable


class Cache(StorageTransformer):
    """Caches values in memory and, optionally, in a second, larger tier on disk.

    If the disk is full or fails, `figures().failure` and the logger `zarrstack.cache` report it, and reads
    continue without it.

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
    keep_writes
        Whether written values are cached as well.
    when_full
        "evict": a full tier evicts the least recently used values. "keep": it keeps what it holds and caches
        no more, for data that is read in random order again and again.
    source
        A name for the data below, where none can be derived from the store.
    clock
        Returns seconds; wall-clock time, because processes share it.

    Raises
    ------
    UsageError
        Invalid options, a disk tier of another version, or a folder that holds other files.

    Examples
    --------
    >>> store = zarrstack.stack(MemoryStore(), zarrstack.Cache(memory_bytes=64_000_000))
    >>> array = zarr.create_array(store, name="a", shape=(4,), dtype="i4")
    >>> array[:] = 7
    >>> array[:]
    array([7, 7, 7, 7], dtype=int32)
    >>> store.figures().hits
    1
    """

    name = "cache"
    transparent = True
    awaits_only_below = True

    def __init__(
        self,
        store: Store | None = None,
        *,
        memory_bytes: int | str = 256 * 1024 * 1024,
        disk: str | os.PathLike[str] | LocalStore | None = None,
        disk_bytes: int | str = 10 * 1024**3,
        ttl: float | None = None,
        negative: bool = True,
        keep_writes: bool = True,
        when_full: Literal["evict", "keep"] = "evict",
        source: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(store)
        memory_bytes = size(self, "memory_bytes", memory_bytes, least=0)
        disk_bytes = size(self, "disk_bytes", disk_bytes, least=MIN_BUDGET)
        self._record_options(memory_bytes=memory_bytes, disk_bytes=disk_bytes)
        either(self, "ttl", ttl, _is_duration, "seconds above 0, or None")
        if when_full not in ("evict", "keep"):
            raise invalid_option(self, "when_full", when_full, "'evict' or 'keep'")
        folder = _folder_of(disk)
        if folder is not None:
            check_folder(folder)
        self._negative = negative
        self._keep_writes = keep_writes
        self._source = source
        self._state = CacheState(
            memory_bytes=memory_bytes,
            folder=folder,
            disk_bytes=disk_bytes,
            keeps=when_full == "keep",
            ttl=ttl,
            clock=clock,
        )

    def check_below(self, layer: StorageTransformer) -> str | None:
        """Refuse a layer that holds values in memory if this one keeps them on disk, across crashes."""
        if layer.buffers and self._state.folder is not None:
            return "its disk tier would keep values that still wait in memory; put it below"
        return None

    @property
    def options(self) -> Mapping[str, Any]:
        """The options that compare equal for equal caches; a folder is always its absolute path."""
        folder = self._state.folder
        return self._options if folder is None else {**self._options, "disk": folder}

    def figures(self) -> CacheStatistics:
        return self._state.figures()

    # -- reading ---------------------------------------------------------------------------------

    async def get(
        self, key: str, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        prototype = prototype or default_buffer_prototype()
        part = None if byte_range is None else part_of(byte_range)
        cached = self._state.in_memory(key, part)
        if cached is None:
            return await self._read(key, part, prototype, byte_range)
        return None if cached.data is None else prototype.buffer.from_bytes(cached.data)

    def get_sync(
        self, key: str, *, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Synchronous `get`; a hit in memory needs no copy of the layer."""
        prototype = prototype or default_buffer_prototype()
        part = None if byte_range is None else part_of(byte_range)
        cached = self._state.in_memory(key, part)
        if cached is None:
            return complete(blocking_copy(self)._read(key, part, prototype, byte_range))  # noqa: SLF001
        return None if cached.data is None else prototype.buffer.from_bytes(cached.data)

    async def _read(
        self, key: str, part: Part, prototype: BufferPrototype, byte_range: ByteRequest | None
    ) -> Buffer | None:
        """Read what is not in memory: from the folder or from below, one reader for all."""
        state, blocking = self._state, self._blocks
        if not state.ready:
            await self._open_tier(blocking=blocking)
        place = state.versions.place(key)
        if place is None or part is ODD:
            return await self._store.get(key, prototype, byte_range)
        while True:
            # What was valid when the read began may be returned when it ends.
            stamp = place.stamp()
            flight = state.flights.join((key, part), stamp, blocking=blocking)
            if isinstance(flight, PendingFetch):
                break
            shared = flight.result() if blocking else await asyncio.wrap_future(flight)
            if shared is not None:
                state.count(SHARED, shared.size)
                return None if shared.data is None else prototype.buffer.from_bytes(shared.data)
        value, cached = None, None
        try:
            cached = state.in_memory(key, part)  # another reader may have cached it
            if cached is None:
                cached = await state.look(key, part, place, stamp, blocking=blocking)
            if cached is None:
                started = state.clock()
                value = await self._store.get(key, prototype, byte_range)
                data = None if value is None else immutable(value)
                cached = CachedValue(data, started, stamp)
                state.count(MISS, cached.size)
                if self._is_kept(part, cached):
                    await state.keep(key, part, cached, place, blocking=blocking)
        except BaseException as error:
            state.flights.land(flight, None, error)
            raise
        state.flights.land(flight, cached)
        if value is not None:
            return value
        return None if cached.data is None else prototype.buffer.from_bytes(cached.data)

    def _is_kept(self, part: Part, cached: CachedValue) -> bool:
        if not is_stable(cached.stamp):
            return False
        return self._negative if cached.data is None else part is None or len(cached.data) > 0

    # -- writing ---------------------------------------------------------------------------------

    async def set(self, key: str, value: Buffer) -> None:
        self._check_writable()
        await self._apply(key, lambda: self._store.set(key, value), self._copied(value))

    def _copied(self, value: Any) -> bytes | None:
        """Copy what is cached, because the caller may change its array during the write."""
        return immutable(value) if self._keep_writes and isinstance(value, Buffer) else None

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

    async def delete_dir(self, prefix: str) -> None:
        path = prefix.rstrip("/")
        if not path:  # `delete_dir("")` of a LocalStore removes its root
            await self.clear()
            return
        self._check_writable()
        await self._apply(path, lambda: self._store.delete_dir(prefix))

    async def clear(self) -> None:
        """Remove everything from the store below and the cache; `clear_cache` empties only the cache."""
        self._check_writable()
        await self._apply("", self._store.clear)

    # -- the cache alone -------------------------------------------------------------------------

    def clear_cache(self) -> None:
        """Forget all cached values, in both tiers and all processes that share the folder.

        The store below does not change, and other stores that are cached in the folder keep their values.
        """
        self.invalidate("")

    def invalidate(self, prefix: str) -> None:
        """Forget what is cached of a key, or of a folder and everything below it, as `clear_cache` does.

        Call it after a change that bypassed the cache.
        """
        if not self._state.ready:
            complete(self._open_tier(blocking=True))
        self._state.invalidate(prefix.strip("/"))

    async def _apply(self, path: str, work: Work, value: bytes | None = None) -> None:
        if not self._state.ready:
            await self._open_tier(blocking=self._blocks)
        await self._state.change(path, work, value, blocking=self._blocks)

    # -- what is open, and questions ---------------------------------------------------------------

    def cache_of(self, key: str) -> CacheState:
        return self._state

    async def _open_tier(self, *, blocking: bool) -> None:
        state, source = self._state, ""
        if state.folder is not None:
            source = _source_digest(_source_of(self._store) if self._source is None else self._source)
        if blocking:
            state.open(source)
        else:
            await asyncio.to_thread(state.open, source)

    def close(self) -> None:
        self._state.close()
        super().close()

    async def _from_tiers(self, key: str) -> CachedValue | None:
        """Return the whole value if a tier holds it."""
        state = self._state
        if not state.ready:
            await self._open_tier(blocking=False)
        cached, place = state.in_memory(key, None), state.versions.place(key)
        if cached is not None or place is None:
            return cached
        return await state.look(key, None, place, place.stamp(), blocking=False)

    async def exists(self, key: str) -> bool:
        cached = await self._from_tiers(key)
        return await self._store.exists(key) if cached is None else cached.data is not None

    async def getsize(self, key: str) -> int:
        cached = await self._from_tiers(key)
        if cached is None:
            return await self._store.getsize(key)
        if cached.data is None:
            raise FileNotFoundError(key)
        return len(cached.data)

    async def getsize_prefix(self, prefix: str) -> int:
        # Without the slash, zarr 3.1.6 counts `a/c/10` as below `a/c/1`.
        return await self._store.getsize_prefix(prefix_of(prefix))


def _is_duration(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def _folder_of(disk: Any) -> str | None:
    """The folder of the disk tier as an absolute path, which a LocalStore may give; None: no disk tier."""
    if disk is None:
        return None
    if type(disk) is LocalStore:
        return os.path.abspath(disk.root)
    if isinstance(disk, str | os.PathLike) and "://" not in (path := os.fspath(disk)):
        return os.path.abspath(path)
    raise UsageError(
        "layer 'cache': the disk tier can only be a local folder, given as `disk`",
        found=repr(disk),
        expected="the path of a folder, such as disk='/var/tmp/chunks'",
        advice="Use a folder, or omit `disk` to cache in memory only.",
    )


def _source_of(store: Store) -> str:
    """Return a name that every process derives for these bytes, and for no others.

    It contains the location and every layer with its configuration, because a layer may change the bytes.
    UsageError if no such name exists: a MemoryStore's address, for example, may be reused.
    """
    return "\n".join(name for each in descend(store) if (name := _source_name(each)) is not None)


def _source_digest(source: str) -> str:
    """Digest of a source name, 32 hexadecimal digits."""
    return hashlib.blake2b(source.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _source_name(store: Any) -> str | None:
    """Name of one store of a stack; None for a wrapper that does not change bytes."""
    if isinstance(store, StorageTransformer):
        return canonical(store.to_json())
    # Exact types: a subclass may interpret its location differently, unless it sets `reads_as`.
    kind = getattr(type(store), "reads_as", type(store))
    if kind is LoggingStore:
        return None
    if kind in (LocalStore, ZipStore) or (kind is FsspecStore and "memory" not in _protocols(store)):
        return repr(location_of(store))
    raise UsageError(
        "layer 'cache': a disk tier needs a name for the store below, and none can be derived from this one",
        found=repr(store),
        advice="Pass a name: Cache(store, disk=..., source='name').",
    )


def _protocols(store: FsspecStore) -> tuple[str, ...]:
    protocol = getattr(store.fs, "sync_fs", store.fs).protocol
    return (protocol,) if isinstance(protocol, str) else tuple(protocol)
