"""Locks for stored objects: one writer per shard within a process, across threads and event loops.

An asyncio lock belongs to one event loop, and zarr-python may run several (its own, the user's, one per
worker thread); a `threading.FileLock` blocks the whole loop while it waits. These locks do neither.
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
        try:
            yield
        finally:
            self._release(write=False)

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        """Hold the lock exclusively."""
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


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def place_of(store: Store) -> Hashable:
    """Identify the location that a store writes to; equal for stores that share their objects.

    Layers are ignored, so that two stacks over one store exclude each other. A local folder is identified by
    its real path, a MemoryStore by its dictionary, any other store by its repr.
    """
    *_, last = descend(store)
    below: Any = last
    if (objects := getattr(below, "_store_dict", None)) is not None:
        return ("memory", id(objects))
    if (root := getattr(below, "root", None)) is not None:
        return ("folder", os.path.realpath(root))
    # FsspecStore shows its location only in its repr, ObjectStore and ZipStore in both (zarr 3.1.6, 3.4.2).
    return (type(below).__qualname__, repr(below))
