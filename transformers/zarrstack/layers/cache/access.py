"""Looks up, keeps and changes values in the tiers.

With `blocking` a coroutine never suspends, so that `complete` runs it without an event loop.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final, TypeAlias

from .record import BLOCK, CachedValue, Part, candidates, identity, slice_value, span_of
from .state import DISK, CacheState
from .versions import VersionedPath

INLINE: Final = 256 * 1024
"""Largest record in bytes that is read or written on the event loop: 30 microseconds from the page cache and
90 to it, against 40 to 180 to hand it to a thread (measured, 2 cores, Python 3.11 and 3.13).
"""
_EAGERLY: Final[dict[str, Any]] = {"eager_start": True} if sys.version_info >= (3, 12) else {}
"""How a task starts at once: 1 microsecond instead of 16 if its work does not suspend."""
Work: TypeAlias = Callable[[], Coroutine[Any, Any, None]]


async def look(
    state: CacheState, key: str, part: Part, place: VersionedPath, *, blocking: bool
) -> CachedValue | None:
    """Look up the disk tier and return the requested part; a hit is also cached in memory."""
    tier = state.tier
    if tier is None:
        return None
    for each in candidates(part):
        ident = identity(state.source, key, each)
        size = tier.size(ident)
        if size is None:
            continue
        # Of a large value only the part is read; a small one may answer other requests from memory.
        wanted = part if each is None and size > INLINE else None
        read = state.on_disk
        if blocking or size <= INLINE or _length(wanted, size) <= INLINE:
            cached = read(tier, ident, place, wanted)
        else:
            cached = await asyncio.to_thread(read, tier, ident, place, wanted)
        if cached is not None:
            state.remember(key, each if wanted is None or cached.data is None else wanted, cached, place)
            piece = slice_value(cached, part) if wanted is None and each is None else cached
            if piece is not None:
                state.count(DISK, piece.size)
                return piece
    return None


def _length(part: Part, size: int) -> int:
    """At most how many bytes are read of a record of this size."""
    first, last = span_of(part, size) or (0, 0)
    return last - first + 2 * BLOCK


async def keep(
    state: CacheState, key: str, part: Part, cached: CachedValue, place: VersionedPath, *, blocking: bool
) -> None:
    """Store a value in both tiers; never fails."""
    part = None if cached.data is None else part  # a missing key has no ranges
    state.remember(key, part, cached, place)
    if state.tier is None:
        return
    if blocking or (cached.size <= INLINE and state.tier.has_room(cached.size)):
        state.to_disk(key, part, cached, place)
    else:
        await asyncio.to_thread(state.to_disk, key, part, cached, place)


async def change(
    state: CacheState, path: str, work: Work, value: bytes | None = None, *, blocking: bool, suspends: bool
) -> None:
    """Change a key, or all keys below a path, then cache what was written.

    Work that `suspends` runs to completion even if the caller is cancelled: a LocalStore thread cannot be
    interrupted, and nothing on the path is cached until it has finished. Work that is itself cancelled may
    still take effect, so its path stays uncached until the cache is reopened.
    """
    if state.tier is not None:
        state.current_tier()
    place = state.change_place(path)
    table = place.table
    begun, started = table.begin(place), state.clock()
    task = None
    try:
        if suspends:
            task = asyncio.Task(work(), loop=asyncio.get_running_loop(), **_EAGERLY)
            if task.done():
                task.result()
            else:
                await asyncio.shield(task)
        else:
            await work()
    except asyncio.CancelledError:
        if task is not None and not task.cancelled():
            task.add_done_callback(partial(_end_later, place, begun))
        raise
    except BaseException:
        table.end(place, begun)
        raise
    stamp = table.end(place, begun)
    if value is None or stamp is None or len(place.slots) == 1:  # or another change intervened
        state.memory.drop(path)
    elif state.tier is None:
        state.memory.put(path, CachedValue(value, started, stamp), place, state.is_valid)
    else:
        await keep(state, path, None, CachedValue(value, started, stamp), place, blocking=blocking)


def _end_later(place: VersionedPath, begun: int, done: asyncio.Task[None]) -> None:
    if not done.cancelled():
        done.exception()  # retrieved to suppress asyncio's warning
        place.table.end(place, begun)
