"""Looks up, keeps and changes values in the tiers.

With `blocking` a coroutine never suspends, so that `complete` runs it without an event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeAlias

from .folder_tier import WouldTakeLongError
from .record import CachedValue, Part
from .state import DISK, CacheState
from .versions import VersionedPath, is_stable

Work: TypeAlias = Callable[[], Coroutine[Any, Any, None]]


async def look(
    state: CacheState, key: str, part: Part, place: VersionedPath, stamp: int, *, blocking: bool
) -> CachedValue | None:
    """Look up the disk tier and return the requested part; a hit is also cached in memory.

    Of a whole value, only the part is read.
    """
    if state.tier is None:
        return None
    for record in (None,) if part is None else (None, part):
        read = partial(state.from_disk, key, record, part if record is None else None, place, stamp)
        try:
            cached = read(inline=not blocking)
        except WouldTakeLongError:
            cached = await asyncio.to_thread(read, inline=False)
        if cached is not None:
            state.count(DISK, cached.size)
            state.remember(key, None if cached.data is None else part, cached, place)
            return cached
    return None


async def keep(
    state: CacheState, key: str, part: Part, cached: CachedValue, place: VersionedPath, *, blocking: bool
) -> None:
    """Store a value in both tiers; never fails."""
    part = None if cached.data is None else part  # a missing key has no ranges
    state.remember(key, part, cached, place)
    try:
        state.to_disk(key, part, cached, place, inline=not blocking)
    except WouldTakeLongError:
        await asyncio.to_thread(state.to_disk, key, part, cached, place, inline=False)


async def change(
    state: CacheState, path: str, work: Work, value: bytes | None = None, *, blocking: bool
) -> None:
    """Change a key, or all keys below a path, then cache what was written.

    Work that is cancelled may still take effect, since a thread of a LocalStore cannot be interrupted: its
    path stays uncached until the cache is reopened.
    """
    place, begun = state.begin(path)
    started = state.clock()
    try:
        await work()
    except asyncio.CancelledError:
        raise
    except BaseException:
        state.end(path, place, begun)
        raise
    stamp = state.end(path, place, begun)
    if value is None or not is_stable(stamp) or len(place.slots) == 1:  # or another change intervened
        state.memory.drop(path)
    else:
        await keep(state, path, None, CachedValue(value, started, stamp), place, blocking=blocking)
