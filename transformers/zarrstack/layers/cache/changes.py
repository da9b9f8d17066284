"""Changes to the store below that invalidate the affected cache entries."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from .lookup import keep
from .record import CachedValue
from .state import CacheState
from .versions import VersionedPath, is_plain


@dataclass(frozen=True, slots=True)
class PendingChange:
    """A change in progress."""

    place: VersionedPath
    stamp: int
    """Stamp of its path after the change began."""
    started: float


async def change(
    state: CacheState,
    path: str,
    work: Callable[[], Awaitable[None]],
    kept: memoryview | None = None,
    *,
    blocking: bool,
) -> None:
    """Change a key, or all keys below a path, then cache what was written.

    On an event loop, the work runs to completion even if the caller is cancelled: a LocalStore thread cannot
    be interrupted, and nothing on the path is cached until it has finished. Work that is itself cancelled may
    still take effect, so its path stays uncached until the cache is reopened.
    """
    begun = _begin(state, path)
    task = None if blocking else asyncio.ensure_future(work())
    try:
        await (work() if task is None else asyncio.shield(task))
    except asyncio.CancelledError:
        if task is not None and not task.cancelled():
            task.add_done_callback(lambda done: _end_later(begun, done))
        raise
    except BaseException:
        begun.place.end(begun.stamp)
        raise
    if (found := _end(begun, kept)) is not None:
        await keep(state, path, None, found, begun.place, blocking=blocking)


def _begin(state: CacheState, path: str) -> PendingChange:
    state.current_tier()
    # A key with several spellings may name any key: invalidate everything.
    place = state.versions.place(state.source, path if is_plain(path) else "")
    state.memory.drop(path)
    return PendingChange(place, place.begin(), state.clock())


def _end(begun: PendingChange, kept: memoryview | None) -> CachedValue | None:
    """Return the value to cache, or None if there is none or another change intervened."""
    stamp = begun.place.end(begun.stamp)
    if kept is None or stamp is None or len(begun.place.slots) == 1:
        return None
    return CachedValue(data=kept, stored=begun.started, stamp=stamp)


def _end_later(begun: PendingChange, done: asyncio.Future[None]) -> None:
    if not done.cancelled():
        done.exception()  # retrieved to suppress asyncio's warning
        begun.place.end(begun.stamp)
