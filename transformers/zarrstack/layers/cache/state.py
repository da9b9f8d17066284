"""State shared by all views of a cache: tiers, versions and statistics."""

from __future__ import annotations

import asyncio
import logging
import threading
import weakref
from collections.abc import Callable, Coroutine, Hashable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

from ...system.fork_safety import reset_after_fork
from .folder_tier import LocalTier, WouldTakeLongError
from .memory_tier import MemoryTier
from .record import CachedValue, Part, slice_value
from .single_flight import PendingFetches
from .versions import OWN_TABLE, OwnCounters, VersionedPath, Versions, is_stable

logger = logging.getLogger("zarrstack.cache")
PAUSE: Final = 60.0
"""Seconds, by the cache's clock, without writes to a disk tier that failed: a full disk may be cleared."""
MEMORY, DISK, SHARED, MISS, SERVED, FETCHED = range(6)
Work: TypeAlias = Callable[[], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheStatistics:
    """Statistics of a cache since its creation."""

    hits: int
    """Reads answered without the store below."""
    memory_hits: int
    disk_hits: int
    shared_hits: int
    """Reads that waited for another reader's fetch."""
    misses: int
    """Reads that reached the store below."""
    bytes_served: int
    """Bytes served from the cache."""
    bytes_fetched: int
    """Bytes fetched from the store below."""
    memory_bytes: int
    """Current size of the memory tier, counting 600 bytes and the key per entry."""
    memory_entries: int
    disk_bytes: int
    """Current size of the disk tier, including other processes' records."""
    evictions: int
    """Entries evicted by this process, in both tiers."""
    refusals: int
    """Entries that this process did not cache because a tier was full; only with `when_full="keep"`."""
    damaged: int
    """Records of the disk tier that were damaged, and not served."""
    failure: str | None
    """Why the disk tier is not written to, or not used at all."""


class CacheState:
    """Tiers, versions, flights and counts; methods are thread-safe.

    With `blocking` a coroutine never suspends, so that `complete` runs it without an event loop.
    """

    def __init__(
        self,
        *,
        memory_bytes: int,
        folder: str | None,
        disk_bytes: int,
        keeps: bool,
        ttl: float | None,
        clock: Callable[[], float],
    ) -> None:
        self.folder, self.disk_bytes = folder, disk_bytes
        self.keeps = keeps
        """Whether a full tier keeps what it holds, and refuses more."""
        self.memory = MemoryTier(memory_bytes, keeps=keeps)
        self.ttl = ttl
        self.clock = clock
        self._counts = [0] * 6
        self.tier: LocalTier | None = None
        self._leave: weakref.finalize[[], CacheState] | None = None
        self.after_fork()
        reset_after_fork(self)

    def after_fork(self) -> None:
        """Replace everything inherited from the parent process, including its files and locks."""
        if self.tier is not None and self._leave is not None:
            self._leave.detach()
            self.tier.abandon()
        self.flights = PendingFetches()
        self.memory = MemoryTier(self.memory.budget, keeps=self.keeps)
        self._opening = threading.Lock()
        self._count_lock = threading.Lock()
        self._reset()

    def _reset(self) -> None:
        """Return to the initial state, keeping the statistics."""
        self._leave_tier()
        self.failure: str | None = None
        self._pause = 0.0
        self._source = ""
        self.ready = self.folder is None
        """Whether the disk tier, if any, has been opened."""

    def _leave_tier(self) -> None:
        if self._leave is not None:
            self._leave()
        self.tier = self._leave = None
        self._versions = Versions(OwnCounters(), OWN_TABLE, threading.Lock())
        self.memory.drop_below("")

    # -- the disk tier ----------------------------------------------------------------------------

    def open(self, source: str) -> None:
        """Open the disk tier, once, for the source with this digest."""
        with self._opening:
            if self.ready or self.folder is None:
                return
            self._source = source
            try:
                tier = LocalTier(self.folder, self.disk_bytes, source, keeps=self.keeps)
            except OSError as error:
                self._report(f"the disk tier in {self.folder} cannot be used", error)
            else:
                self.memory.drop_below("")
                self.tier, self._versions = tier, tier.versions
                # At the latest when this object is gone, or the interpreter ends.
                self._leave = weakref.finalize(self, tier.close)
            self.ready = True

    def close(self) -> None:
        """Leave the disk tier and clear the memory; the next use reopens the tier."""
        with self._opening:
            self._reset()

    @property
    def versions(self) -> Versions:
        """The table in use.

        A folder that was removed is made again. A disk tier whose table has failed in another way is switched
        off, for other processes too.
        """
        failure = self._versions.failure
        if failure is not None:
            with self._opening:
                if self.tier is not None and self._versions.failure is not None:
                    self.ready = not isinstance(failure, FileNotFoundError)
                    if self.ready:
                        self.tier.invalidate()
                        self._report(f"the disk tier in {self.folder} is switched off", failure)
                    self._leave_tier()
            self.open(self._source)
        return self._versions

    def begin(self, path: str) -> tuple[VersionedPath, int]:
        """Begin a change of a key or folder, which every process that shares the folder sees."""
        while True:
            place = self.versions.change(path)
            begun = place.begin()
            if place.table is self.versions:  # it has not failed
                return place, begun

    def end(self, path: str, place: VersionedPath, begun: int) -> int:
        """End a change; return the stamp for the written value, not stable if another change intervened."""
        stamp = place.end(begun)
        if (
            place.table is not self.versions
        ):  # a folder that was removed: those who made it again see the change
            place, begun = self.begin(path)
            place.end(begun)
        return stamp

    def invalidate(self, path: str) -> None:
        """Make what is cached of a key, or below a folder, invalid for all processes; "" also removes it."""
        self.end(path, *self.begin(path))
        self.memory.drop_below(path)
        if not path and self.tier is not None:
            self.tier.remove_all()

    def from_disk(
        self, key: str, record: Part, part: Part, place: VersionedPath, stamp: int, *, inline: bool
    ) -> CachedValue | None:
        """Read a record, or a part of it, if it was valid at this stamp of its path."""
        tier = self.tier
        if tier is None or tier.versions is not place.table:
            return None
        cached = tier.read(key, record, part, inline=inline)
        if cached is None or self._is_fresh(cached, stamp):
            return cached
        if self.keeps and not self.is_valid(cached, place):
            tier.remove(key, record)  # otherwise it would occupy a full folder for ever
        return None

    def to_disk(
        self, key: str, part: Part, cached: CachedValue, place: VersionedPath, *, inline: bool
    ) -> None:
        """Write a record if the disk tier accepts it; fails only with WouldTakeLongError."""
        tier = self.tier
        if tier is None or tier.versions is not place.table:
            return
        if self.failure is not None and 0 < self._pause - self.clock() <= PAUSE:
            return
        try:
            tier.write(key, part, cached, inline=inline)
        except FileNotFoundError as error:  # it was removed
            tier.versions.failure = error
        except OSError as error:
            self._report(f"cannot write to the disk tier in {tier.root}", error)
        else:
            self.failure = None

    def _report(self, what: str, error: Exception) -> None:
        """Report a failure of the disk tier; reads continue without it."""
        text = f"{what}: {error}"
        if self.failure is None:
            logger.warning("layer 'cache': %s; continuing without it", text)
        self.failure = text
        self._pause = self.clock() + PAUSE

    # -- both tiers -------------------------------------------------------------------------------

    async def look(
        self, key: str, part: Part, place: VersionedPath, stamp: int, *, blocking: bool
    ) -> CachedValue | None:
        """Look up the disk tier and return the requested part; a hit is also cached in memory.

        Of a whole value, only the part is read.
        """
        if self.tier is None:
            return None
        for record in (None,) if part is None else (None, part):
            read = partial(self.from_disk, key, record, part if record is None else None, place, stamp)
            try:
                cached = read(inline=not blocking)
            except WouldTakeLongError:
                cached = await asyncio.to_thread(read, inline=False)
            if cached is not None:
                self.count(DISK, cached.size)
                self.remember(key, None if cached.data is None else part, cached, place)
                return cached
        return None

    async def keep(
        self, key: str, part: Part, cached: CachedValue, place: VersionedPath, *, blocking: bool
    ) -> None:
        """Store a value in both tiers; never fails."""
        part = None if cached.data is None else part  # a missing key has no ranges
        self.remember(key, part, cached, place)
        try:
            self.to_disk(key, part, cached, place, inline=not blocking)
        except WouldTakeLongError:
            await asyncio.to_thread(self.to_disk, key, part, cached, place, inline=False)

    async def change(self, path: str, work: Work, value: bytes | None = None, *, blocking: bool) -> None:
        """Change a key, or all keys below a path, then cache what was written.

        Work that is cancelled may still take effect, since a thread of a LocalStore cannot be interrupted:
        its path stays uncached until the cache is reopened.
        """
        place, begun = self.begin(path)
        started = self.clock()
        try:
            await work()
        except asyncio.CancelledError:
            raise
        except BaseException:
            self.end(path, place, begun)
            raise
        stamp = self.end(path, place, begun)
        if value is None or not is_stable(stamp) or len(place.slots) == 1:  # or another change intervened
            self.memory.drop(path)
        else:
            await self.keep(path, None, CachedValue(value, started, stamp), place, blocking=blocking)

    # -- the memory tier --------------------------------------------------------------------------

    def is_valid(self, cached: CachedValue, place: VersionedPath) -> bool:
        """Whether nothing on its path has changed since a value was fetched, and it is within its ttl."""
        return place.table is self._versions and self._is_fresh(cached, place.stamp())

    def _is_fresh(self, cached: CachedValue, stamp: int) -> bool:
        """If the clock was set back, the age is negative, and the value is not fresh."""
        return cached.stamp == stamp and (self.ttl is None or 0 <= self.clock() - cached.stored < self.ttl)

    def in_memory(self, key: str, part: Part) -> CachedValue | None:
        """Look up a part of a value in memory, counted as a hit."""
        for each in (None,) if part is None else (None, part):
            entry = self.memory.get(key if each is None else (key, each))
            if entry is not None and self.is_valid(entry[0], entry[1]):
                piece = entry[0] if each == part else slice_value(entry[0], part)
                if piece is not None:
                    self.count(MEMORY, piece.size)
                    return piece
        return None

    def remember(self, key: str, part: Part, cached: CachedValue, place: VersionedPath) -> None:
        """Store a value in memory."""
        self.memory.put(key if part is None else (key, part), cached, place, self.is_valid)

    def version_of(self, key: str) -> tuple[VersionedPath, int, float] | None:
        """What `remember_as` needs to know from before the fetch; None while the key changes."""
        place = self.versions.place(key)
        stamp = -1 if place is None else place.stamp()
        return (place, stamp, self.clock()) if place is not None and is_stable(stamp) else None

    def remember_as(
        self,
        key: str,
        kind: Hashable,
        data: memoryview,
        version: tuple[VersionedPath, int, float],
        *,
        instead: bool = True,
    ) -> None:
        """Store what a value means in memory, such as a decoded chunk: `instead` of the value, or too."""
        place, stamp, started = version
        entry = self.memory.get(key)
        if self.ttl is not None:  # as old as the value, which may have been fetched long before
            if entry is None:
                return
            started = min(started, entry[0].stored)
        self.memory.put((key, kind), CachedValue(data, started, stamp), place, self.is_valid)
        if instead and entry is not None and self.memory.get((key, kind)) is not None:
            self.memory.drop(key)

    def in_memory_as(self, key: str, kind: Hashable) -> bytes | memoryview | None:
        """What `remember_as` stored, if it is still valid; counted as a hit."""
        entry = self.memory.get((key, kind))
        if entry is None or not self.is_valid(entry[0], entry[1]):
            return None
        self.count(MEMORY, entry[0].size)
        return entry[0].data

    # -- counting -------------------------------------------------------------------------------

    def count(self, what: int, size: int) -> None:
        """Count a read; `what` is MEMORY, DISK, SHARED or MISS."""
        with self._count_lock:
            self._counts[what] += 1
            self._counts[FETCHED if what == MISS else SERVED] += size

    def figures(self) -> CacheStatistics:
        memory, disk, shared, misses, served, fetched = self._counts
        tier = self.tier
        return CacheStatistics(
            hits=memory + disk + shared,
            memory_hits=memory,
            disk_hits=disk,
            shared_hits=shared,
            misses=misses,
            bytes_served=served,
            bytes_fetched=fetched,
            memory_bytes=self.memory.used,
            memory_entries=len(self.memory),
            disk_bytes=0 if tier is None else tier.used,
            evictions=self.memory.evictions + (0 if tier is None else tier.evictions),
            refusals=self.memory.refusals + (0 if tier is None else tier.refusals),
            damaged=0 if tier is None else tier.damaged,
            failure=self.failure,
        )
