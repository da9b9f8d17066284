"""Rate and concurrency limits, across threads and event loops: a token bucket and a gate."""

from __future__ import annotations

import asyncio
import math
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Final

from .clock import Clock
from .fork_safety import new_lock

_STEP: Final = 1.0
"""Longest sleep in seconds; a new rate applies after it."""


class TokenBucket:
    """A token bucket that fills at a rate, up to the tokens of `burst` seconds.

    Callers that take more tokens than available wait for them, in the order of taking.
    """

    def __init__(self, rate: float | Callable[[], float], burst: float, clock: Clock) -> None:
        """`rate` is tokens per second, or a function that gives them now; `math.inf` is no limit."""
        self.rate: Callable[[], float] = rate if callable(rate) else (lambda: rate)
        """The tokens per second, now."""
        self._rate, self._burst, self._clock = self.rate(), burst, clock
        self._guard = new_lock()
        # Time until which all tokens taken are paid for; in the past if tokens are available.
        self._paid = clock.now() - burst

    def take(self, amount: float) -> float:
        """Take tokens; return the seconds to wait until they are available."""
        rate = self.rate()
        with self._guard:
            now = self._clock.now()
            if rate != self._rate and self._paid > now:
                self._paid = now + (self._paid - now) * self._rate / rate
            self._rate = rate
            self._paid = max(self._paid, now - self._burst) + amount / rate
            return max(0.0, self._paid - now)

    def steps(self, wait: float) -> Iterator[float]:
        """Seconds to sleep, in steps, so that a wait gets shorter or longer when the rate changes."""
        while wait > 0:
            rate, step = self.rate(), min(wait, _STEP)
            yield step
            wait -= step
            if (now := self.rate()) != rate:
                wait *= rate / now if rate < math.inf else 0

    def give_back(self, amount: float) -> None:
        """Undo a `take` whose wait was cancelled."""
        with self._guard:
            self._paid -= amount / self._rate


class Places:
    """Places that holders take, one or several at once; first come, first served, so that no waiter starves.

    Waiting blocks neither an event loop nor other threads.
    """

    __slots__ = ("__weakref__", "_free", "_guard", "_places", "_waiting")

    def __init__(self, places: int) -> None:
        self._places = places
        self.after_fork()

    def after_fork(self) -> None:
        """Free all places in a forked child: their holders are threads of the parent."""
        self._free = self._places
        self._guard = threading.Lock()
        self._waiting: deque[tuple[int, Future[None]]] = deque()

    async def enter(self, places: int = 1) -> None:
        """Take places, waiting for them without blocking the event loop."""
        turn = self._queue(places)
        if turn is not None:
            try:
                await asyncio.wrap_future(turn)
            except BaseException:  # cancelled, or closed with an event loop that has stopped
                self._give_up(turn, places)
                raise

    def enter_sync(self, places: int = 1) -> None:
        """Take places, blocking this thread until they are free."""
        turn = self._queue(places)
        if turn is not None:
            try:
                turn.result()
            except BaseException:  # KeyboardInterrupt, for example
                self._give_up(turn, places)
                raise

    def leave(self, places: int = 1) -> None:
        """Release places to those who have waited for longest, as far as they suffice."""
        with self._guard:
            self._free += places
            while self._waiting:
                wanted, turn = self._waiting[0]
                if wanted > self._free and not turn.cancelled():
                    return
                self._waiting.popleft()
                if turn.set_running_or_notify_cancel():
                    self._free -= wanted
                    turn.set_result(None)

    def _queue(self, places: int = 1) -> Future[None] | None:
        """Return a future to wait for; None if the places were free."""
        with self._guard:
            if not self._waiting and places <= self._free:
                self._free -= places
                return None
            turn: Future[None] = Future()
            self._waiting.append((places, turn))
            return turn

    def _give_up(self, turn: Future[None], places: int) -> None:
        # The places may have been granted at the moment of cancellation; otherwise the next may have room.
        self.leave(0 if turn.cancel() else places)
