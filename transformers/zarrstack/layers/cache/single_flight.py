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
from dataclasses import dataclass, field

from .record import CachedValue


@dataclass(slots=True, eq=False)
class PendingFetch:
    """A fetch in progress; its result is None if it was abandoned."""

    what: Hashable
    stamp: int | None
    loop: asyncio.AbstractEventLoop | None
    """The leader's event loop; None for a synchronous leader."""
    result: Future[CachedValue | None] = field(default_factory=Future)

    def __post_init__(self) -> None:
        # A running future cannot be cancelled: a cancelled follower cancels only itself.
        self.result.set_running_or_notify_cancel()

    async def wait(self, *, blocking: bool) -> CachedValue | None:
        """Wait for the result, on the running loop or by blocking the thread."""
        return self.result.result() if blocking else await asyncio.wrap_future(self.result)


class PendingFetches:
    """The fetches in progress in this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._flights: dict[Hashable, PendingFetch] = {}

    def join(self, what: Hashable, stamp: int | None, *, blocking: bool) -> tuple[PendingFetch, bool]:
        """Return the flight for `what` and whether the caller leads it.

        A flight with another `stamp` is not joined: it began before a change that the caller has seen
        complete, and could return the old value. `blocking` means that the caller waits without an event
        loop.
        """
        loop = running_loop()
        with self._lock:
            flight = self._flights.get(what)
            if flight is not None and flight.stamp == stamp:
                leader = flight.loop
                if leader is None:
                    joins = loop is None or not blocking
                else:
                    joins = not blocking and leader.is_running()
                if joins:
                    return flight, False
            flight = self._flights[what] = PendingFetch(what, stamp, None if blocking else loop)
            return flight, True

    def land(self, flight: PendingFetch, found: CachedValue | None) -> None:
        """Publish the result; None lets another reader lead."""
        self._leave(flight)
        flight.result.set_result(found)

    def crash(self, flight: PendingFetch, error: BaseException) -> None:
        """Publish an error; a leader's cancellation or exit only abandons the flight."""
        self._leave(flight)
        if isinstance(error, Exception):
            flight.result.set_exception(error)
        else:
            flight.result.set_result(None)

    def _leave(self, flight: PendingFetch) -> None:
        with self._lock:
            if self._flights.get(flight.what) is flight:
                del self._flights[flight.what]


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The event loop running on this thread, or None."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
