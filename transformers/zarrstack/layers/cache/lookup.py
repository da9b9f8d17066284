"""Lookup and storage of values in the tiers, with and without an event loop."""

from __future__ import annotations

import asyncio
from typing import Final

from ...core.errors import UsageError
from .folder_tier import LocalTier
from .ranges import cut
from .record import Found, Part, identity
from .single_flight import wait_async
from .state import DISK, CacheState
from .store_tier import StoreTier
from .versions import Place

INLINE: Final = 256 * 1024
"""Largest record in bytes that is read on the event loop: 30 microseconds from the page cache, against 40 to
hand it to a thread (measured, 2 cores, Python 3.13).
"""


async def open_tiers(state: CacheState, source: str) -> None:
    """Open the disk tier once; on failure, report it and continue without the tier.

    UsageError if the place does not hold a cache.
    """
    if state.folder is None and state.store is None:
        state.ready = True
        return
    if state.store is None:
        await asyncio.to_thread(open_tiers_sync, state, source)
        return
    flight, leads = state.flights.join("open the disk tier", 0, blocking=False)
    if not leads:
        await wait_async(flight)
        return
    try:
        if not state.ready:
            tier = StoreTier(state.store, state.disk_bytes, state.versions)
            try:
                await tier.open()
            except UsageError:
                raise
            except Exception as error:  # noqa: BLE001 - a store may raise anything; reading continues
                state.report(f"the disk tier in {state.store!r} cannot be used", error)
            else:
                state.source, state.tier = source, tier
            state.ready = True
    except BaseException as error:
        state.flights.crash(flight, error)
        raise
    state.flights.land(flight, None)


def open_tiers_sync(state: CacheState, source: str) -> None:
    """Synchronous `open_tiers`; the disk tier must be a folder, or absent."""
    with state.opening:
        if not state.ready:
            if state.folder is not None:
                state.source = source
                state.open_local(state.folder, state.disk_bytes)
            state.ready = True


async def look(state: CacheState, key: str, part: Part, place: Place) -> Found | None:
    """Look up the disk tier and return the requested part; a hit is also cached in memory."""
    tier = state.tier
    if tier is None:
        return None
    for each in (None,) if part is None else (None, part):
        found = None
        if isinstance(tier, StoreTier):
            try:
                found = await tier.read(state.source, key, each, place)
            except Exception as error:  # noqa: BLE001 - a store may raise anything; reading continues
                state.report("cannot read the disk tier", error)
            if found is not None and not state.is_true(found, place):
                found = None
        else:
            size = tier.size(identity(state.source, key, each))
            if size is not None and size <= INLINE:
                found = state.on_disk(tier, key, each, place)
            elif size is not None:
                found = await asyncio.to_thread(state.on_disk, tier, key, each, place)
        if found is not None and (piece := _use(state, key, each, part, found, place)) is not None:
            return piece
    return None


def look_sync(state: CacheState, key: str, part: Part, place: Place) -> Found | None:
    """Synchronous `look`."""
    tier = state.tier
    if not isinstance(tier, LocalTier):
        return None
    for each in (None,) if part is None else (None, part):
        found = state.on_disk(tier, key, each, place)
        if found is not None and (piece := _use(state, key, each, part, found, place)) is not None:
            return piece
    return None


def _use(state: CacheState, key: str, each: Part, part: Part, found: Found, place: Place) -> Found | None:
    state.remember(key, each, found, place)
    piece = cut(found, part) if each is None else found
    if piece is not None:
        state.count(DISK, 0 if piece.data is None else len(piece.data))
    return piece


async def keep(state: CacheState, key: str, part: Part, found: Found, place: Place) -> None:
    """Store a value in both tiers; never fails."""
    part = None if found.data is None else part  # a missing key has no ranges
    state.remember(key, part, found, place)
    if isinstance(state.tier, StoreTier):
        if state.may_write():
            try:
                await state.tier.write(state.source, key, part, found)
            except Exception as error:  # noqa: BLE001 - a store may raise anything; reading continues
                state.report("cannot write to the disk tier", error)
            else:
                state.trouble = None
    elif state.tier is not None:
        await asyncio.to_thread(state.to_disk, key, part, found, place)


def keep_sync(state: CacheState, key: str, part: Part, found: Found, place: Place) -> None:
    """Synchronous `keep`."""
    part = None if found.data is None else part
    state.remember(key, part, found, place)
    state.to_disk(key, part, found, place)
