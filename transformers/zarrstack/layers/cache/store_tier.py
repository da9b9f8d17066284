"""The disk tier in any zarr store, for one process at a time.

Each record (record.py) is the object `records/<source>/<key>/~<range>`, so a later process can list what is
cached. Records are removed *before* the store below is changed: a process that dies at any moment leaves no
stale record.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter, OrderedDict
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final

from zarr.abc.store import Store
from zarr.core.buffer import default_buffer_prototype

from ...core.errors import UsageError
from .record import NO_TIER, Found, Part, identity, parse, part_text, record_head
from .versions import Place, Versions, fold

FORMAT: Final = "zarrstack-cache-store"
VERSION: Final = 1
MARKER: Final = "zarrstack-cache.json"
RECORDS: Final = "records/"
AT_ONCE: Final = 32
"""Size requests in flight when the tier is opened."""


@dataclass(slots=True)
class Kept:
    """The known properties of an object that has not been read."""

    size: int
    stamp: int
    """Stamp of its path when it was stored, or when the tier was opened."""
    inherited: bool
    """Found when the tier was opened: its stored stamp is another process's."""


class StoreTier:
    """Records in a store; methods may be called from any thread and event loop."""

    def __init__(self, store: Store, budget: int, versions: Versions) -> None:
        self.budget = budget
        self.used = 0
        self.evictions = 0
        self.damaged = 0
        self._store = store
        self._versions = versions
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, Kept] = OrderedDict()
        self._folders: Counter[str] = Counter()
        """Number of records below each folder: a change below an empty one needs no search."""
        self._writing: dict[str, Future[None]] = {}

    async def open(self) -> None:
        """Index the records of earlier processes; UsageError if the store does not hold a cache."""
        prototype = default_buffer_prototype()
        marker = await self._store.get(MARKER, prototype)
        if marker is None:
            if not await self._store.is_empty(""):
                raise UsageError(
                    "layer 'cache': the store for the disk tier holds other objects, or half of a tier",
                    found=repr(self._store),
                    expected="an empty store, or one that a cache has made",
                    advice="Name an empty place: a cache removes objects from its own.",
                )
            text = json.dumps({"format": FORMAT, "version": VERSION})
            await self._store.set(MARKER, prototype.buffer.from_bytes(text.encode()))
            return
        if (version := _version(marker.to_bytes())) != VERSION:
            raise UsageError(
                "layer 'cache': the disk tier was made by another version",
                found=f"version {version} in {self._store!r}",
                expected=f"version {VERSION}",
                advice="Name another place, or remove this one: it holds only copies.",
            )
        gate = asyncio.Semaphore(AT_ONCE)

        async def weigh(name: str) -> tuple[str, int]:
            async with gate:
                return name, await self._store.getsize(name)

        names = sorted([name async for name in self._store.list_prefix(RECORDS)])
        for name, size in await asyncio.gather(*map(weigh, names)):
            source, _, rest = name.removeprefix(RECORDS).partition("/")
            stamp = self._versions.place(source, rest.rpartition("/~")[0]).quiet()
            self._add(name, Kept(size, -1 if stamp is None else stamp, inherited=True))
        await self._evict(self._choose())

    async def read(self, source: str, key: str, part: Part, place: Place) -> Found | None:
        """Read a valid record and mark it as most recently used."""
        name = _name(source, key, part)
        with self._lock:
            kept = self._kept.get(name)
            if kept is None or kept.stamp != place.stamp():
                return None
            self._kept.move_to_end(name)
        raw = await self._store.get(name, default_buffer_prototype())
        found = None if raw is None else parse(raw.to_bytes(), identity(source, key, part), NO_TIER)
        if found is None:
            self.damaged += raw is not None
            self._forget(name)
            return None
        if not kept.inherited and found.stamp != kept.stamp:
            return None
        return Found(data=found.data, stored=found.stored, stamp=kept.stamp)

    async def write(self, source: str, key: str, part: Part, found: Found) -> None:
        """Write a record, evicting older ones; a record larger than the budget is not kept."""
        name = _name(source, key, part)
        raw = record_head(identity(source, key, part), found, NO_TIER) + (found.data or b"")
        with self._lock:
            if name in self._writing or len(raw) > self.budget:
                return
            done = self._writing[name] = Future()
            self._drop(name)
            self._add(name, Kept(len(raw), found.stamp, inherited=False))

        async def work() -> None:
            try:
                await self._evict(self._choose(but=name))
                await self._store.set(name, default_buffer_prototype().buffer.from_bytes(raw))
            except BaseException:
                self._forget(name)
                raise
            finally:
                with self._lock:
                    del self._writing[name]
                done.set_result(None)

        # The write must complete even if its reader is cancelled.
        await asyncio.shield(asyncio.ensure_future(work()))

    async def remove(self, source: str, path: str) -> None:
        """Remove the records of a key, or of every key below a folder; raises the store's errors."""
        folder = fold(f"{RECORDS}{source}/{path}".rstrip("/"))
        with self._lock:
            if folder not in self._folders:
                return
            busy = [done for name, done in self._writing.items() if fold(name).startswith(folder + "/")]
        for done in busy:
            await asyncio.wrap_future(done)
        with self._lock:
            names = [name for name in self._kept if fold(name).startswith(folder + "/")]
        await self._evict(names, counted=False)

    # -- index of records; call these with the lock held ----------------------------------------------

    def _add(self, name: str, kept: Kept) -> None:
        self._kept[name] = kept
        self.used += kept.size
        self._folders.update(_folders(name))

    def _drop(self, name: str) -> bool:
        kept = self._kept.pop(name, None)
        if kept is None:
            return False
        self.used -= kept.size
        for folder in _folders(name):
            self._folders[folder] -= 1
            if not self._folders[folder]:
                del self._folders[folder]
        return True

    def _choose(self, but: str = "") -> list[str]:
        """Least recently used records to evict."""
        with self._lock:
            over, names = self.used - self.budget, []
            for name, kept in self._kept.items():
                if over <= 0:
                    break
                if name not in self._writing and name != but:
                    names.append(name)
                    over -= kept.size
            return names

    async def _evict(self, names: list[str], *, counted: bool = True) -> None:
        for name in names:
            await self._store.delete(name)
            if self._forget(name):
                self.evictions += counted

    def _forget(self, name: str) -> bool:
        with self._lock:
            return self._drop(name)


def _folders(name: str) -> list[str]:
    """Every folder above an object, including its key, in folded spelling."""
    parts = fold(name).split("/")
    return ["/".join(parts[:length]) for length in range(2, len(parts))]


def _name(source: str, key: str, part: Part) -> str:
    return f"{RECORDS}{source}/{key}/~{part_text(part)}"


def _version(raw: bytes) -> object:
    try:
        content = json.loads(raw)
        return content["version"] if content["format"] == FORMAT else None
    except (ValueError, TypeError, KeyError):
        return None
