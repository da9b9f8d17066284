"""One writer per shard: changes that wait for the same shard are made together, by one rewrite.

zarr-python writes the chunks of a region by one `set` each, at the same time. Each alone would read
and write the whole shard; here whoever gets the shard's lock serves everybody who waits for it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterable
from typing import Any

from ...system.fork_safety import forget_in_children
from .locks import SharedLock
from .shard import Change
from .stored_shard import StoredShard


class _Ticket:
    """Changes that wait for their shard, and what became of them."""

    __slots__ = ("changes", "done", "error")

    def __init__(self, changes: list[Change]) -> None:
        self.changes = changes
        self.done = False
        self.error: Exception | None = None


class ShardWriters:
    """Those who wait to change a shard, of one layer and its copies."""

    def __init__(self) -> None:
        self.after_fork()
        forget_in_children(self)

    def after_fork(self) -> None:
        """A child does not make the changes that its parent was about to make."""
        self._guard = threading.Lock()
        self._waiting: dict[str, list[_Ticket]] = {}

    async def change(self, shard: StoredShard, lock: SharedLock, changes: list[Change]) -> None:
        """Have changes made, together with all others that wait meanwhile; raises what went wrong.

        When it returns, the shard has been written. Cancelled, it lets a rewrite that has begun come
        to its end; changes that had not been begun are not made.
        """
        ticket = _Ticket(changes)
        with self._guard:
            self._waiting.setdefault(shard.key, []).append(ticket)
        try:
            await asyncio.sleep(0)  # tasks that were started together come along
            async with lock.writing():
                if not ticket.done:
                    await to_the_end(self._serve(shard))
        finally:
            self._forget(shard.key, [ticket])
        if ticket.error is not None:
            raise ticket.error

    async def _serve(self, shard: StoredShard) -> None:
        """Make the changes that wait for a shard; the caller holds its lock."""
        with self._guard:
            tickets = list(self._waiting.get(shard.key, ()))
        error = None
        try:
            await shard.rewrite([change for ticket in tickets for change in ticket.changes])
        except Exception as problem:  # noqa: BLE001 it is raised by everybody whose change failed
            error = problem
        for ticket in tickets:
            ticket.error, ticket.done = error, True
        self._forget(shard.key, tickets)

    def _forget(self, key: str, tickets: Iterable[_Ticket]) -> None:
        with self._guard:
            left = [each for each in self._waiting.get(key, ()) if each not in tickets]
            if left:
                self._waiting[key] = left
            else:
                self._waiting.pop(key, None)


async def to_the_end(work: Coroutine[Any, Any, None]) -> None:
    """Await work that goes on to its end when the caller is cancelled.

    A thread that writes a file cannot be stopped: to let go of the lock before it is done would let
    the next writer's file be overwritten by this one.
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
            task.exception()  # nobody else will look at it
        raise cancelled
    task.result()
