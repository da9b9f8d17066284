"""Shared fetches: concurrent readers of a key wait for one fetch, across threads and event loops.

The first reader leads and fetches; the others wait for its result. A cancelled leader abandons its flight,
and one of the waiting readers leads the next. A reader fetches independently where waiting could deadlock: a
synchronous reader on the thread of a running event loop, or a reader whose leader's loop has stopped.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Hashable
from concurrent.futures import Future
from dataclasses import dataclass

from .record import CachedValue


@dataclass(slots=True, eq=False)
class PendingFetch:
    """A fetch in progress."""

    what: Hashable
    stamp: int | None
    loop: asyncio.AbstractEventLoop | None
    """The leader's event loop; None for a synchronous leader."""
    result: Future[CachedValue | None] | None = None
    """Created by the first reader that waits; its result is None if the fetch was abandoned."""


class PendingFetches:
    """The fetches in progress in this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._flights: dict[Hashable, PendingFetch] = {}

    def join(
        self, what: Hashable, stamp: int | None, *, blocking: bool
    ) -> PendingFetch | Future[CachedValue | None]:
        """Return the flight for `what` that the caller leads, or the future result of one under way.

        A flight with another `stamp` is not joined: it began before a change that the caller has seen
        complete, and could return the old value. `blocking` means that the caller waits without an event
        loop.
        """
        try:
            loop: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            loop = None
        with self._lock:
            flight = self._flights.get(what)
            if flight is not None and flight.stamp == stamp:
                leader = flight.loop
                if leader is None:
                    joins = loop is None or not blocking
                else:
                    joins = not blocking and leader.is_running()
                if joins:
                    if flight.result is None:
                        flight.result = Future()
                        # A running future cannot be cancelled: a cancelled follower cancels only itself.
                        flight.result.set_running_or_notify_cancel()
                    return flight.result
            flight = self._flights[what] = PendingFetch(what, stamp, None if blocking else loop)
            return flight

    def land(
        self, flight: PendingFetch, cached: CachedValue | None, error: BaseException | None = None
    ) -> None:
        """Publish the result or an error; None lets another reader lead, as after a leader's cancellation."""
        with self._lock:
            if self._flights.get(flight.what) is flight:
                del self._flights[flight.what]
        if flight.result is None:
            return
        if isinstance(error, Exception):
            flight.result.set_exception(error)
        else:
            flight.result.set_result(cached)
