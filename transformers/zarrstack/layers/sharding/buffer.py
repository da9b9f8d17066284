"""Shards that are open for writing: changes to chunks that wait in memory until their shard is whole.

One idea: the open shards of this process are one table, by array and shard, which every stack over the
same location consults. A change stays in it, and is visible, until its shard has been stored. If storing
fails, the change stays, and the error is raised by the call that stored, or by the next `put`.

A shard is stored by the caller that makes it whole, by a caller that needs room, or by a flush; never by a
task of its own. What was read for it is read at that moment, so a change never revives an older shard.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple

from ...system.fork_safety import new_lock, reset_after_fork
from ...system.shared_locks import SharedLock, run_to_completion
from .shard import ChunkChange, Place
from .stored_shard import StoredShard

DEFAULT_BYTES: Final = 256 * 10**6
"""Budget inside `with zarrstack.open(...)`."""
CHUNK_COST: Final = 250
"""Bytes counted for a waiting change besides its value; 220 to 240 by tracemalloc (CPython 3.11 and 3.13)."""
SHARD_COST: Final = 2200
"""Bytes counted for an open shard; 2,050 to 2,280 by tracemalloc."""
MAX_AT_ONCE: Final = 10
"""Shards stored concurrently by a flush, as many as zarr's default concurrency."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardingStatistics:
    """Statistics of the buffer of a sharding layer since its creation."""

    memory_bytes: int
    """Its budget; 0 without a buffer."""
    open_shards: int
    """Shards with changes that are not stored yet."""
    open_bytes: int
    """What these changes take, counting 250 bytes for each besides its value, and 2,200 for each shard."""
    whole: int
    """Shards stored with all their chunks: written once, and not read."""
    partial: int
    """Shards stored with some of their chunks: read, merged and rewritten."""
    evictions: int
    """Of `partial`, those stored because the budget was full."""
    warning: str | None
    """What to change if shards are written more than once for lack of memory."""


class ShardPlace(NamedTuple):
    """A shard of an array, whichever stack accesses it."""

    array: Hashable
    """Equal for all layers that store this array's chunks in the same objects."""
    shard: Place
    open: Callable[[ShardBuffer], Waiting]
    """Creates the shard's entry, without changes."""


@dataclass(slots=True, eq=False, kw_only=True)
class Waiting:
    """The changes to one shard that are not stored yet."""

    at: ShardPlace
    shard: StoredShard
    lock: SharedLock
    array_lock: SharedLock
    """Of all shards of the array; held exclusively while they are removed."""
    buffer: ShardBuffer
    """Whose budget they count against."""
    chunks: int
    """The number of chunks of a whole shard."""
    changes: dict[Place, bytes | memoryview | None] = field(default_factory=dict)
    """New values by the chunk's place in the shard; None removes the chunk."""
    size: int = 0
    """Bytes that the changes count."""

    @property
    def is_whole(self) -> bool:
        """Whether every chunk of the shard is replaced or removed."""
        return len(self.changes) == self.chunks


_table: dict[Hashable, dict[Place, Waiting]] = {}
"""The open shards of every array in this process."""
_guard = new_lock()


class ShardBuffer:
    """A budget for open shards, of one array or of several; methods are thread-safe."""

    def __init__(self, memory_bytes: int) -> None:
        self.memory_bytes = memory_bytes
        self.active = True
        """False when its block has ended: layers then store each change before they return."""
        self.whole = self.partial = self.evictions = 0
        self._reset()
        reset_after_fork(self)

    def _reset(self) -> None:
        self.recent: OrderedDict[Waiting, None] = OrderedDict()
        """The open shards, least recently touched first."""
        self.used = 0
        self.largest = 0
        """Bytes of the largest shard so far."""
        self.failed: dict[Waiting, Exception] = {}
        """Errors that no caller has seen: it was cancelled, or did not wait."""
        self._evicting = SharedLock()

    def after_fork(self) -> None:
        """Drop the parent's changes in a forked child: the parent stores them."""
        _table.clear()
        self._reset()

    def figures(self) -> ShardingStatistics:
        warning = None
        if self.evictions:
            warning = (
                f"{self.evictions} times the budget of {self.memory_bytes:,} bytes was full, and a shard was "
                "written before it was whole. Set memory_bytes to one row of shards (all that have the same "
                "first index) and two shards more."
            )
        return ShardingStatistics(
            memory_bytes=self.memory_bytes,
            open_shards=len(self.recent),
            open_bytes=self.used,
            whole=self.whole,
            partial=self.partial,
            evictions=self.evictions,
            warning=warning,
        )

    @property
    def limit(self) -> int:
        """Bytes of changes that may wait; the rest is for one shard that is read, merged and written."""
        return max(self.memory_bytes - 2 * self.largest, self.memory_bytes // 4)

    # -- changes ----------------------------------------------------------------------------------

    async def put(self, change: ChunkChange, at: ShardPlace) -> None:
        """Keep a change until its shard is stored; if the shard is whole now, store it.

        Raises errors of storing this shard or, for lack of room, another; and those that nobody has seen yet.
        """
        while True:
            if self.failed:
                raise self.failed.popitem()[1]
            waiting = self.add(change, at)
            if waiting is not None:
                break
            await self._make_room(at, _bytes(change.value) + CHUNK_COST + SHARD_COST)
        home = waiting.buffer
        if waiting.is_whole:
            await home.store(waiting, only_whole=True)
        elif home.used > home.limit:  # larger than the whole budget
            await home.store(waiting)

    def add(self, change: ChunkChange, at: ShardPlace) -> Waiting | None:
        """Add a change if there is room, as there is for any if no shard is open; None otherwise.

        A change with `if_absent` is added in any case, unless another value waits. Its caller holds the
        shard's lock, and stores the shard if it is whole.
        """
        with _guard:
            shards = _table.get(at.array)
            waiting = None if shards is None else shards.get(at.shard)
            home = self if waiting is None else waiting.buffer
            old = None if waiting is None else waiting.changes.get(change.chunk)
            if change.if_absent and old is not None:
                return waiting
            more = _bytes(change.value) - _bytes(old)
            if waiting is None:
                more += CHUNK_COST + SHARD_COST
            elif change.chunk not in waiting.changes:
                more += CHUNK_COST
            if more > 0 and home.used + more > home.limit and home.recent and not change.if_absent:
                return None
            if waiting is None:
                waiting = at.open(self)
                _table.setdefault(at.array, {})[at.shard] = waiting
            waiting.changes[change.chunk] = change.value
            waiting.size += more
            home.used += more
            home.largest = max(home.largest, waiting.size)
            home.recent[waiting] = None
            home.recent.move_to_end(waiting)
            return waiting

    async def _make_room(self, at: ShardPlace, size: int) -> None:
        """Store the shard that was not touched for longest, unless there is room by now."""
        waiting = open_shard(at.array, at.shard)
        home = self if waiting is None else waiting.buffer
        async with home._evicting.writing():  # noqa: SLF001 - of the same class
            with _guard:
                oldest = next(iter(home.recent), None)
                if oldest is None or home.used + size <= home.limit:
                    return
            whole = oldest.is_whole
            if await home.store(oldest) and not whole:
                home.evictions += 1

    # -- storing ----------------------------------------------------------------------------------

    async def store(self, waiting: Waiting, *, only_whole: bool = False, seen: bool = True) -> bool:
        """Store the changes of a shard; return whether there were any. If it fails, they stay.

        An error that is not `seen` by a caller is raised by the next `put`, too.
        """
        async with waiting.array_lock.reading(), waiting.lock.writing():
            with _guard:
                changes = dict(waiting.changes)
            if not changes or (only_whole and not waiting.is_whole):
                return False
            try:
                await run_to_completion(self._store(waiting, changes))
            except asyncio.CancelledError:
                raise
            except Exception:
                if seen:
                    self.failed.pop(waiting, None)
                raise
        return True

    async def _store(self, waiting: Waiting, changes: dict[Place, Any]) -> None:
        whole = len(changes) == waiting.chunks
        try:
            await waiting.shard.rewrite(
                [ChunkChange(place, value) for place, value in changes.items()],
                assembled=partial(self._share, waiting, changes),
            )
        except Exception as error:
            self.failed[waiting] = error
            raise
        self.failed.pop(waiting, None)
        settle(waiting, changes)
        if whole:
            self.whole += 1
        else:
            self.partial += 1

    def _share(
        self, waiting: Waiting, changes: dict[Place, Any], new: bytes, parts: Mapping[Place, memoryview]
    ) -> None:
        """Keep values as parts of the assembled shard, so that its bytes are in memory once."""
        with _guard:
            self.largest = max(self.largest, len(new))
            for place, value in changes.items():
                if value is not None:
                    changes[place] = parts[place]
                    if waiting.changes.get(place) is value:
                        waiting.changes[place] = changes[place]


def _bytes(value: Any) -> int:
    return 0 if value is None else len(value)


def open_shard(array: Hashable, shard: Place) -> Waiting | None:
    """An open shard, of any stack in this process; None if it is not open."""
    shards = _table.get(array)
    return None if shards is None else shards.get(shard)


def open_shards(array: Hashable) -> list[Waiting]:
    """The open shards of an array, of all stacks in this process."""
    with _guard:
        return list(_table.get(array, {}).values())


def settle(waiting: Waiting, stored: Mapping[Place, Any]) -> None:
    """Forget changes that have been stored, except those replaced since; close the shard if none is left."""
    with _guard:
        at = waiting.at
        if _table.get(at.array, {}).get(at.shard) is not waiting:
            return  # in a forked child
        home = waiting.buffer
        for place, value in stored.items():
            if place in waiting.changes and waiting.changes[place] is value:
                del waiting.changes[place]
                waiting.size -= _bytes(value) + CHUNK_COST
                home.used -= _bytes(value) + CHUNK_COST
        if not waiting.changes:
            home.recent.pop(waiting, None)
            home.used -= SHARD_COST
            del _table[at.array][at.shard]
            if not _table[at.array]:
                del _table[at.array]


def open_arrays() -> list[Hashable]:
    """The arrays with open shards, of all stacks in this process."""
    with _guard:
        return list(_table)


async def flush(array: Hashable, *, seen: bool = True) -> None:
    """Store all open shards of an array, some at a time; the first error is raised after the others."""
    errors: list[BaseException] = []
    left = open_shards(array)
    while left:
        home = left[0].buffer
        room = (home.memory_bytes - home.used) // max(2 * home.largest, 1)
        some = left[: max(1, min(MAX_AT_ONCE, room))]
        work = (each.buffer.store(each, seen=seen) for each in some)
        results = await asyncio.gather(*work, return_exceptions=True)
        errors += [result for result in results if isinstance(result, BaseException)]
        left = left[len(some) :]
    if errors:
        raise errors[0]
