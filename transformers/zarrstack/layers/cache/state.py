"""State shared by all views of a cache: tiers, versions and statistics."""

from __future__ import annotations

import contextlib
import errno
import logging
import threading
import weakref
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final

from ...system.fork_safety import reset_after_fork
from .folder_tier import LocalTier
from .memory_tier import MemoryTier
from .record import CachedValue, Part, candidates, identity, is_below, slice_value
from .single_flight import PendingFetches
from .versions import OWN_TABLE, OwnCounters, VersionedPath, Versions

logger = logging.getLogger("zarrstack.cache")
LARGEST_LISTING: Final = 64 * 1024 * 1024
"""Bytes of the largest listing that is cached."""
PAUSE: Final = 60.0
"""Seconds, by the cache's clock, without writes to a disk tier that failed: a full disk may be cleared."""


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

    @property
    def advice(self) -> str | None:
        """What would probably serve more reads; None if nothing stands out."""
        if self.evictions <= self.hits:
            return None
        return (
            f"{self.evictions} entries were evicted for {self.hits} hits: what is read again is larger than "
            'the cache. With when_full="keep" it serves the share that fits; or give it more bytes.'
        )


class CacheState:
    """Tiers, versions, flights and counts; methods are thread-safe."""

    def __init__(
        self,
        *,
        memory_bytes: int,
        folder: str | None,
        disk_bytes: int,
        keeps: bool,
        listings: bool,
        ttl: float | None,
        offline: bool,
        clock: Callable[[], float],
    ) -> None:
        self.folder, self.disk_bytes = folder, disk_bytes
        self.keeps = keeps
        """Whether a full tier keeps what it holds, and refuses more."""
        self.listings = listings
        self.memory = MemoryTier(memory_bytes, keeps=keeps)
        self.flights = PendingFetches()
        self.ttl = ttl
        self.offline = offline
        self.clock = clock
        self.source = ""
        self.ready = folder is None
        """Whether the disk tier, if any, has been opened."""
        self.opening = threading.Lock()
        self.tier: LocalTier | None = None
        self.versions = self._own()
        self.failure: str | None = None
        self._pause = 0.0
        self._counts = [0] * 6
        self._count_lock = threading.Lock()
        self._held: list[LocalTier] = []
        weakref.finalize(self, _close_all, self._held)
        reset_after_fork(self)

    # -- the tiers ------------------------------------------------------------------------------

    def _own(self) -> Versions:
        return Versions(OwnCounters(), OWN_TABLE, threading.Lock())

    def open(self, root: str, source: str) -> None:
        """Open the disk tier, once, for the source with this digest."""
        with self.opening:
            if not self.ready:
                self.source = source
                self._open_folder(root, self.disk_bytes)
                self.ready = True

    def _open_folder(self, root: str, budget: int) -> None:
        """Use a folder as the disk tier; on failure, report it and continue without the tier."""
        # a strong reference would keep this object alive through its tier
        disable = weakref.WeakMethod(self.disable)

        def failed(tier: LocalTier, error: OSError) -> None:
            if (method := disable()) is not None:
                method(tier, error)

        try:
            tier = LocalTier(root, budget, self.source, failed, keeps=self.keeps)
        except OSError as error:
            self.report(f"the disk tier in {root} cannot be used", error)
            return
        self._held[:] = [tier]
        self.memory.drop_below("")
        self.tier, self.versions = tier, tier.versions

    def current_tier(self) -> LocalTier | None:
        """The disk tier, reopened if its folder was removed; None if there is none or it is switched off."""
        tier = self.tier
        if tier is None:
            return None
        if tier.is_current():
            if tier.is_sound():
                return tier
            self.disable(tier, OSError(errno.EIO, "another program wrote to its control file"))
            return None
        with self.opening:
            if self.tier is tier:
                tier.close()
                self.tier, self.versions = None, self._own()
                self.memory.drop_below("")
                self._open_folder(tier.root, tier.budget)
        return self.tier

    def disable(self, tier: LocalTier, error: OSError) -> None:
        """Switch off a disk tier that can no longer track changes by other processes."""
        tier.invalidate()
        with self.opening:
            if self.tier is tier:
                _close_all(self._held)
                self.memory.drop_below("")
                self.tier, self.versions = None, self._own()
                self.report(f"the disk tier in {tier.root} is switched off", error)

    def report(self, what: str, error: Exception) -> None:
        """Report a failure of the disk tier; reads continue without it."""
        text = f"{what}: {error}"
        if self.failure is None:
            logger.warning("layer 'cache': %s; continuing without it", text)
        self.failure = text
        self._pause = self.clock() + PAUSE

    def may_write(self) -> bool:
        """Whether the disk tier accepts new records: after a failure, only once a pause has passed."""
        return self.tier is not None and (self.failure is None or not 0 < self._pause - self.clock() <= PAUSE)

    def close(self) -> None:
        """Leave the disk tier and clear the memory; the next use reopens the tier."""
        with self.opening:
            _close_all(self._held)
            self.reset()

    def reset(self) -> None:
        """Return to the initial state, keeping the statistics."""
        self.memory.drop_below("")
        self.tier, self.versions = None, self._own()
        self.failure = None
        self.ready = self.folder is None

    def after_fork(self) -> None:
        """Replace everything inherited from the parent process, including its files and locks."""
        for tier in self._held:
            tier.abandon()
        self._held.clear()
        self.opening = threading.Lock()
        self._count_lock = threading.Lock()
        self.flights = PendingFetches()
        self.memory = MemoryTier(self.memory.budget, keeps=self.keeps)
        self.reset()

    def invalidate(self, path: str) -> None:
        """Make what is cached of a key, or below a folder, invalid for all processes, and remove it."""
        tier = self.current_tier()
        place = self.change_place(path)
        place.table.end(place, place.table.begin(place))
        self.memory.drop_below(path)
        if tier is not None:
            tier.remove_if(lambda ident: is_below(ident, self.source, path))

    # -- looking up -------------------------------------------------------------------------------

    def change_place(self, path: str) -> VersionedPath:
        """Place of a key or folder that changes.

        Listings are invalidated if any process may have cached one: those that share a folder do not know
        each other's options.
        """
        return self.versions.change(path, listings=self.listings or self.tier is not None)

    def remembered(self, key: str, part: Part) -> CachedValue | None:
        """Look up the memory tier and return the requested part."""
        if part is None:
            entry = self.memory.get(key)
            return None if entry is None or not self.is_valid(entry[0], entry[1]) else entry[0]
        for each in candidates(part):
            entry = self.memory.get(key if each is None else (key, each))
            if entry is not None and self.is_valid(entry[0], entry[1]):
                piece = entry[0] if each == part else slice_value(entry[0], part)
                if piece is not None:
                    return piece
        return None

    def in_memory(self, key: str, part: Part) -> CachedValue | None:
        """`remembered`, counted as a hit."""
        cached = self.remembered(key, part)
        if cached is not None:
            self.count(MEMORY, cached.size)
        return cached

    def version_of(self, key: str) -> tuple[VersionedPath, int, float] | None:
        """What `remember_as` needs to know from before the fetch; None while the key changes."""
        place = self.versions.place(key)
        stamp = None if place is None else place.stable_stamp()
        return None if place is None or stamp is None else (place, stamp, self.clock())

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

    def on_disk(
        self, tier: LocalTier, ident: bytes, place: VersionedPath, part: Part = None
    ) -> CachedValue | None:
        """Read a valid record, or a part of its value, from the disk tier."""
        cached = tier.read(ident, part)
        if cached is None or self.is_valid(cached, place):
            return cached
        if self.keeps and not self.offline:  # otherwise it would occupy a full folder for ever
            tier.remove(ident)
        return None

    def is_valid(self, cached: CachedValue, place: VersionedPath) -> bool:
        """Whether nothing on its path has changed since a value was fetched, and it is within its ttl.

        Offline, any age is. If the clock was set back, the age is negative and the value is fetched again.
        """
        return (
            place.table is self.versions
            and cached.stamp == self.versions.stamp(place.slots)
            and (self.ttl is None or self.offline or 0 <= self.clock() - cached.stored < self.ttl)
        )

    def remember(self, key: str, part: Part, cached: CachedValue, place: VersionedPath) -> None:
        """Store a value in memory."""
        self.memory.put(key if part is None else (key, part), cached, place, self.is_valid)

    def to_disk(self, key: str, part: Part, cached: CachedValue, place: VersionedPath) -> None:
        """Store a value in the disk tier if it accepts writes; never fails."""
        tier = self.current_tier()
        if tier is None or tier.versions is not place.table or not self.may_write():
            return
        try:
            tier.write(identity(self.source, key, part), cached)
        except OSError as error:
            self.report(f"cannot write to the disk tier in {tier.root}", error)
        else:
            self.failure = None

    # -- counting -------------------------------------------------------------------------------

    @property
    def listing_limit(self) -> int:
        """Largest listing in bytes that is cached: a quarter of a tier's budget."""
        return min(LARGEST_LISTING, max(self.memory.budget, self.disk_bytes if self.folder else 0) // 4)

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


MEMORY, DISK, SHARED, MISS, SERVED, FETCHED = range(6)


def _close_all(tiers: list[LocalTier]) -> None:
    while tiers:
        with contextlib.suppress(OSError):
            tiers.pop().close()
