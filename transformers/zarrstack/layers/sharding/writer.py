"""One writer per shard: concurrent changes to a shard are combined into one rewrite.

zarr-python writes the chunks of a region with concurrent `set` calls. Each alone would read and write the
whole shard; here the caller that gets the shard's lock applies the changes of all waiting callers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any

from ...system.fork_safety import new_lock, reset_after_fork
from .locks import SharedLock
from .shard import ChunkChange
from .stored_shard import StoredShard


class _Ticket:
    """Changes waiting for their shard, and their outcome."""

    __slots__ = ("changes", "done", "error")

    def __init__(self, changes: list[ChunkChange]) -> None:
        self.changes = changes
        self.done = False
        self.error: Exception | None = None


class ShardWriters:
    """The pending changes of one layer and its copies, by shard."""

    def __init__(self) -> None:
        self._guard = new_lock()
        self.after_fork()
        reset_after_fork(self)

    def after_fork(self) -> None:
        """Drop the parent's pending changes in a forked child."""
        self._waiting: dict[str, list[_Ticket]] = {}

    async def change(self, shard: StoredShard, lock: SharedLock, changes: list[ChunkChange]) -> None:
        """Apply changes, combined with all others waiting for the same shard.

        The shard has been written when this returns; errors of the rewrite are raised. On cancellation, a
        rewrite in progress is completed, and changes not yet started are dropped.
        """
        ticket = _Ticket(changes)
        with self._guard:
            self._waiting.setdefault(shard.key, []).append(ticket)
        try:
            await asyncio.sleep(0)  # lets tasks started together join this rewrite
            async with lock.writing():
                if not ticket.done:
                    await run_to_completion(self._serve(shard))
        finally:
            self._forget(shard.key, [ticket])
        if ticket.error is not None:
            raise ticket.error

    async def _serve(self, shard: StoredShard) -> None:
        """Apply the changes waiting for a shard; the caller holds its lock."""
        with self._guard:
            tickets = list(self._waiting.get(shard.key, ()))
        error = None
        try:
            await shard.rewrite([change for ticket in tickets for change in ticket.changes])
        except Exception as problem:  # noqa: BLE001 - raised by every caller whose change failed
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


async def run_to_completion(work: Coroutine[Any, Any, None]) -> None:
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
