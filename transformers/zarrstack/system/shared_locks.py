"""Locks for stored objects: one writer per object within a process, across threads and event loops.

An asyncio lock belongs to one event loop, and zarr-python may run several (its own, the user's, one per
worker thread); a `threading.Lock` blocks the whole loop while it waits. These locks do neither.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Hashable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final
from weakref import WeakValueDictionary

from .fork_safety import new_lock
from .rate_limits import Places
from .zarr_internals import zarr_loop

_ALL: Final = 1 << 30
"""More than there are readers."""


class SharedLock(Places):
    """A readers-writer lock; first come, first served."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(_ALL)

    def reading(self) -> AbstractAsyncContextManager[None]:
        """Hold the lock shared with other readers."""
        return self._hold(1)

    def writing(self) -> AbstractAsyncContextManager[None]:
        """Hold the lock exclusively."""
        return self._hold(_ALL)

    @asynccontextmanager
    async def _hold(self, places: int) -> AsyncIterator[None]:
        await self.enter(places)
        loop = id(asyncio.get_running_loop())
        _count(loop, 1)
        try:
            yield
        finally:
            _count(loop, -1)
            self.leave(places)


_locks: WeakValueDictionary[Hashable, SharedLock] = WeakValueDictionary()
_registry_guard = new_lock()


def lock_of(place: Hashable, key: str) -> SharedLock:
    """The lock of an object; the same object for all users in this process while any of them holds it."""
    with _registry_guard:
        lock = _locks.get((place, key))
        if lock is None:
            lock = _locks[place, key] = SharedLock()
        return lock


def _forget() -> None:
    """Drop the parent's locks in a forked child, where they would never be released."""
    _locks.clear()
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


_held: dict[int, int] = {}
"""Locks that tasks of an event loop hold, by the loop's `id`."""


def _count(loop: int, by: int) -> None:
    with _registry_guard:
        _held[loop] = _held.get(loop, 0) + by
        if _held[loop] <= 0:
            del _held[loop]


def may_block() -> bool:
    """Whether this thread may wait for zarr's event loop.

    Not in that loop, nor in a loop whose tasks hold locks: they would not run to release them.
    """
    try:
        running = asyncio.get_running_loop()
    except RuntimeError:
        return True
    return running is not zarr_loop[0] and id(running) not in _held


async def run_to_completion(work: Awaitable[None]) -> None:
    """Await work that runs to completion even if the caller is cancelled.

    A thread that writes a file cannot be stopped: if the lock were released early, this write could overwrite
    the next writer's file.
    """
    task = asyncio.ensure_future(work)
    cancelled = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        if not task.cancelled():
            task.exception()  # retrieved to suppress asyncio's warning
        raise cancelled
    task.result()
