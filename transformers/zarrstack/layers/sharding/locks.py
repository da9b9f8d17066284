"""Locks for stored objects: one writer per shard within a process, across threads and event loops.

An asyncio lock belongs to one event loop, and zarr-python may run several (its own, the user's, one per
worker thread); a `threading.Lock` blocks the whole loop while it waits. These locks do neither.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import AsyncIterator, Hashable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from zarr.abc.store import Store
from zarr.core.sync import loop as zarr_loop

from ...base.locations import location_of


class SharedLock:
    """A readers-writer lock; first come, first served, so that no waiter starves."""

    __slots__ = ("__weakref__", "_guard", "_readers", "_waiting", "_writing")

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._readers = 0
        self._writing = False
        self._waiting: deque[tuple[bool, Future[None]]] = deque()

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[None]:
        """Hold the lock shared with other readers."""
        await self._acquire(write=False)
        loop = id(asyncio.get_running_loop())
        _count(loop, 1)
        try:
            yield
        finally:
            _count(loop, -1)
            self._release(write=False)

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        """Hold the lock exclusively."""
        await self._acquire(write=True)
        loop = id(asyncio.get_running_loop())
        _count(loop, 1)
        try:
            yield
        finally:
            _count(loop, -1)
            self._release(write=True)

    async def _acquire(self, *, write: bool) -> None:
        with self._guard:
            if not self._waiting and self._free(write):
                self._take(write)
                return
            turn: Future[None] = Future()
            self._waiting.append((write, turn))
        try:
            await asyncio.wrap_future(turn)
        except BaseException:  # cancelled, or closed with an event loop that has stopped
            # The lock may have been granted at the moment of cancellation.
            if not turn.cancel():
                self._release(write=write)
            else:
                with self._guard:
                    self._wake()
            raise

    def _release(self, *, write: bool) -> None:
        with self._guard:
            if write:
                self._writing = False
            else:
                self._readers -= 1
            self._wake()

    def _free(self, write: bool) -> bool:
        return not self._writing and not (write and self._readers)

    def _take(self, write: bool) -> None:
        if write:
            self._writing = True
        else:
            self._readers += 1

    def _wake(self) -> None:
        """Grant the lock to waiters at the head of the queue, as far as it is free for them."""
        while self._waiting:
            write, turn = self._waiting[0]
            if turn.cancelled():
                self._waiting.popleft()
                continue
            if not self._free(write):
                return
            self._waiting.popleft()
            if turn.set_running_or_notify_cancel():
                self._take(write)
                turn.set_result(None)


_locks: WeakValueDictionary[Hashable, SharedLock] = WeakValueDictionary()
_registry_guard = threading.Lock()


def lock_of(place: Hashable, key: str) -> SharedLock:
    """The lock of an object; the same object for all users in this process while any of them holds it."""
    with _registry_guard:
        lock = _locks.get((place, key))
        if lock is None:
            lock = _locks[place, key] = SharedLock()
        return lock


def _forget() -> None:
    """Drop the parent's locks in a forked child, where they would never be released."""
    global _registry_guard  # noqa: PLW0603 - the parent may have held the old one during the fork
    _registry_guard = threading.Lock()
    _locks.clear()
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def place_of(store: Store) -> Hashable:
    """Identify the location that a store writes to; equal for stores that share their objects.

    Layers are ignored, so that two stacks over one store exclude each other.
    """
    location = location_of(store)
    return (location.place, location.base)


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
