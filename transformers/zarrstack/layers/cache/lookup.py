"""Lookup and storage of values in the tiers, below the memory tier.

With `blocking` a coroutine never suspends, so that `complete` runs it without an event loop.
"""

from __future__ import annotations

import asyncio
from typing import Final

from .ranges import candidates, slice_value
from .record import CachedValue, Part, identity
from .state import DISK, CacheState
from .versions import VersionedPath

INLINE: Final = 256 * 1024
"""Largest record in bytes that is read or written on the event loop: 30 microseconds from the page cache and
90 to it, against 40 to 180 to hand it to a thread (measured, 2 cores, Python 3.11 and 3.13).
"""


async def look(
    state: CacheState, key: str, part: Part, place: VersionedPath, *, blocking: bool
) -> CachedValue | None:
    """Look up the disk tier and return the requested part; a hit is also cached in memory."""
    tier = state.tier
    if tier is None:
        return None
    for each in candidates(part):
        ident = identity(state.source, key, each)
        size = 0 if blocking else tier.size(ident)
        if size is None:
            continue
        read = state.on_disk
        on_loop = size <= INLINE
        cached = read(tier, ident, place) if on_loop else await asyncio.to_thread(read, tier, ident, place)
        if cached is not None:
            state.remember(key, each, cached, place)
            if (piece := cached if each == part else slice_value(cached, part)) is not None:
                state.count(DISK, piece.size)
                return piece
    return None


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
