"""Changes to the store below that invalidate the affected cache entries."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ...core.errors import StorageError
from .lookup import keep, keep_sync
from .record import Found
from .state import CacheState
from .store_tier import StoreTier
from .versions import Place, is_plain


@dataclass(frozen=True, slots=True)
class Begun:
    """A change in progress."""

    place: Place
    stamp: int
    """Stamp of its path after the change began."""
    started: float


async def change(
    state: CacheState, path: str, work: Callable[[], Awaitable[None]], kept: memoryview | None = None
) -> None:
    """Change a key, or all keys below a path, then cache what was written.

    The work runs to completion even if the caller is cancelled: a LocalStore thread cannot be interrupted,
    and nothing on the path is cached until it has finished. Work that is itself cancelled may still take
    effect, so its path stays uncached until the cache is reopened.
    """
    begun = _begin(state, path)
    task = asyncio.ensure_future(_work(state, path, work))
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        if not task.cancelled():
            task.add_done_callback(lambda done: _end_later(begun, done))
        raise
    except BaseException:
        begun.place.end(begun.stamp)
        raise
    if (found := _end(begun, kept)) is not None:
        await keep(state, path, None, found, begun.place)


def change_sync(
    state: CacheState, path: str, work: Callable[[], None], kept: memoryview | None = None
) -> None:
    """Synchronous `change`; the disk tier must be a folder, or absent."""
    begun = _begin(state, path)
    try:
        work()
    except BaseException:
        begun.place.end(begun.stamp)
        raise
    if (found := _end(begun, kept)) is not None:
        keep_sync(state, path, None, found, begun.place)


async def _work(state: CacheState, path: str, work: Callable[[], Awaitable[None]]) -> None:
    if isinstance(state.tier, StoreTier):
        try:
            await state.tier.remove(state.source, path if is_plain(path) else "")
        except Exception as error:
            raise StorageError(
                "layer 'cache': the old value cannot be removed from the disk tier, so nothing was written",
                key=path,
                found=str(error),
                advice="Mend the disk tier, or write without it.",
            ) from error
    await work()


def _begin(state: CacheState, path: str) -> Begun:
    state.current_local()
    # A key with several spellings may name any key: invalidate everything.
    place = state.versions.place(state.source, path if is_plain(path) else "")
    state.memory.drop(path)
    return Begun(place, place.begin(), state.clock())


def _end(begun: Begun, kept: memoryview | None) -> Found | None:
    """Return the value to cache, or None if there is none or another change intervened."""
    stamp = begun.place.end(begun.stamp)
    if kept is None or stamp is None or len(begun.place.slots) == 1:
        return None
    return Found(data=kept, stored=begun.started, stamp=stamp)


def _end_later(begun: Begun, done: asyncio.Future[None]) -> None:
    if not done.cancelled():
        done.exception()  # retrieved to suppress asyncio's warning
        begun.place.end(begun.stamp)
