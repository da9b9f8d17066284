"""Changing the store below, so that nothing the change makes untrue is served afterwards."""

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
    """A change under way."""

    place: Place
    stamp: int
    """Of its path, once it had begun."""
    started: float


async def change(
    state: CacheState, path: str, work: Callable[[], Awaitable[None]], kept: memoryview | None = None
) -> None:
    """Do something to a key, or to all keys below a path, and keep what was written.

    The work runs to its end even when the caller is cancelled: a thread of a LocalStore cannot be called
    back, and until it is done nothing on the path is cached. Work that is itself cancelled may still
    land, so its path stays uncached until the cache is opened again.
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
    """As `change`, for the synchronous methods; the disk tier is a folder or there is none."""
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
    # A key with several spellings stands for any: everything is forgotten.
    place = state.versions.place(state.source, path if is_plain(path) else "")
    state.memory.drop(path)
    return Begun(place, place.begin(), state.clock())


def _end(begun: Begun, kept: memoryview | None) -> Found | None:
    """The value to keep, if there is one and nothing came between."""
    stamp = begun.place.end(begun.stamp)
    if kept is None or stamp is None or len(begun.place.slots) == 1:
        return None
    return Found(data=kept, stored=begun.started, stamp=stamp)


def _end_later(begun: Begun, done: asyncio.Future[None]) -> None:
    if not done.cancelled():
        done.exception()  # nobody else will look at it
        begun.place.end(begun.stamp)
