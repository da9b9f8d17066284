"""Locks by object of a store: one writer per shard within a process, whatever thread or event loop.

asyncio's own locks belong to one event loop, and zarr-python may run several (its own, the user's,
one per worker thread); `threading.Lock` would stop the whole loop while it waits. These locks
neither block a loop nor belong to one.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import AsyncIterator, Hashable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from typing import Any
from weakref import WeakValueDictionary

from zarr.abc.store import Store

from ...base.descend import descend


class SharedLock:
    """Many readers or one writer; first come, first served, so that nobody waits for ever."""

    __slots__ = ("__weakref__", "_guard", "_readers", "_waiting", "_writing")

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._readers = 0
        self._writing = False
        self._waiting: deque[tuple[bool, Future[None]]] = deque()

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[None]:
        """Hold the lock together with other readers."""
        await self._acquire(write=False)
        try:
            yield
        finally:
            self._release(write=False)

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        """Hold the lock alone."""
        await self._acquire(write=True)
        try:
            yield
        finally:
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
        except BaseException:  # cancelled, or closed with an event loop that runs no more
            # Our turn may have come in the moment in which we were cancelled.
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
        """Give their turn to those at the head of the queue who can have it."""
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
    """The lock of an object, the same for everybody in this process while anybody holds it."""
    with _registry_guard:
        lock = _locks.get((place, key))
        if lock is None:
            lock = _locks[place, key] = SharedLock()
        return lock


def _forget() -> None:
    """A forked child starts without its parent's locks: nobody there would release them."""
    global _registry_guard  # noqa: PLW0603 the parent may have held the old one while it forked
    _registry_guard = threading.Lock()
    _locks.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def place_of(store: Store) -> Hashable:
    """What stands for the place that a store writes to: equal for stores that share their objects.

    Layers are looked through, so that two stacks over one store lock each other out. A local
    folder is known by its real path, a MemoryStore by its dictionary, any other store by its text.
    """
    *_, last = descend(store)
    below: Any = last
    if (objects := getattr(below, "_store_dict", None)) is not None:
        return ("memory", id(objects))
    if (root := getattr(below, "root", None)) is not None:
        return ("folder", os.path.realpath(root))
    # FsspecStore tells its place in its repr only, ObjectStore and ZipStore in both (zarr 3.1.6, 3.4.2).
    return (type(below).__qualname__, repr(below))
