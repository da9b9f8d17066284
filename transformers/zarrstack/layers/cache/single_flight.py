"""Readers of one key share one fetch, across threads and event loops.

The first to ask leads and fetches in its own way, the others wait for its result. A leader that
is cancelled abandons its flight: one of those who wait leads the next. Nobody waits where that
could block what it waits for: a synchronous reader on the thread of a running event loop, or a
reader whose leader's loop has stopped, fetches for itself.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Hashable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from .record import Found


@dataclass(slots=True, eq=False)
class Flight:
    """One fetch under way; its result is None when it was abandoned."""

    what: Hashable
    stamp: int | None
    loop: asyncio.AbstractEventLoop | None
    """The leader's event loop; None for a synchronous leader."""
    result: Future[Found | None] = field(default_factory=Future)

    def __post_init__(self) -> None:
        # A running future cannot be cancelled: a follower that is cancelled cancels only itself.
        self.result.set_running_or_notify_cancel()


class Flights:
    """The fetches under way in this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._flights: dict[Hashable, Flight] = {}

    def join(self, what: Hashable, stamp: int | None, *, blocking: bool) -> tuple[Flight, bool]:
        """The flight for this, and whether the caller leads it.

        A flight that began before a change that the caller knows of has another `stamp`, and is not
        joined: who has seen a write end must not be given what was there before. `blocking` says that
        the caller would wait without an event loop.
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
            flight = self._flights[what] = Flight(what, stamp, None if blocking else loop)
            return flight, True

    def land(self, flight: Flight, found: Found | None) -> None:
        """Hand out the result; None lets another one lead."""
        self._leave(flight)
        flight.result.set_result(found)

    def crash(self, flight: Flight, error: BaseException) -> None:
        """Hand out a failure; what only concerns the leader (cancellation, exit) abandons the flight."""
        self._leave(flight)
        if isinstance(error, Exception):
            flight.result.set_exception(error)
        else:
            flight.result.set_result(None)

    def _leave(self, flight: Flight) -> None:
        with self._lock:
            if self._flights.get(flight.what) is flight:
                del self._flights[flight.what]


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The event loop that runs on this thread."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def wait_async(flight: Flight) -> Any:
    """An awaitable of the flight's result for the running loop."""
    return asyncio.wrap_future(flight.result)
