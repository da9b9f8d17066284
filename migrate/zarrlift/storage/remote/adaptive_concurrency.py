"""How many requests a store is sent at once, as its answers tell, and which of them are sent again.

The number grows by a step as long as that gets more done per second, and is halved where the store says
that it is asked too much (HTTP 429 and 503, `SlowDown`): additive increase, multiplicative decrease, as
in TCP (RFC 5681, section 3.1), with the rate in the place of lost packets.

What a store answers in that way is asked again, after growing delays, and so is what failed on its way: a
connection that was reset, a body that was cut, an answer that did not come
(`zarrstack.system.transient_errors`). Every request of a storage may be repeated: reads, whole objects
written, deletions. Clients repeat requests, but not bodies that have begun (obstore 0.12), or nothing
(fsspec's HTTP).

A `Pace` lives in the event loop of `event_loop`; nothing here is locked.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from typing import Final, TypeVar

from zarrstack.core.errors import ZarrstackError
from zarrstack.system.clock import Clock
from zarrstack.system.transient_errors import is_throttled, may_pass, wanted_wait

T = TypeVar("T")

MOST: Final = 256
"""Requests in flight at once, however well it goes; clients keep a connection for each."""
_FIRST: Final = 64
_STEP: Final = 32
"""By how much the number grows at a time; by a quarter of it where that is less."""
_LEAST_HALVED: Final = 1
_LEAST_LOWERED: Final = 8
"""How low halving goes, and how low a rate that has fallen takes the number."""
_WORTH: Final = 0.25
"""A step stays if the rate grew by this share of what the number of requests grew by."""
_ROUND: Final = 2
"""Answers that are measured before the number is changed, for each request in flight."""
_HELD: Final = 8
"""Rounds between two attempts to grow."""
_FALLEN: Final = 0.5
"""Of the rate that was reached with so many requests; below it the store has become slower."""
_REQUEST: Final = 64 << 10
"""What a request counts for in a rate, in bytes, besides the bytes it carries."""
_DELAYS: Final = (0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 20.0)
"""Seconds until the next attempt, each shortened by up to half by chance."""
_PATIENCE: Final = 120.0
_PATIENCE_AT_FIRST: Final = 5.0
"""Seconds after the first failure of a request in which it is sent again, unless the store asks for patience;
the second where the place has answered nothing yet: its name may be wrong."""


class Pace:
    """The requests of one place: how many at once, and what they cost."""

    def __init__(self, *, clock: Clock | None = None) -> None:
        self.limit = _FIRST
        """Requests that may be in flight now."""
        self.costs = Costs()
        self._clock = clock or Clock()
        self._in_flight = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._climb = Climb(self._clock.now())
        self._halved = float("-inf")
        self._reached = False

    def __reduce__(self) -> tuple[type[Pace], tuple[()]]:
        """Another process finds its own number."""
        return type(self), ()

    async def __call__(self, ask: Callable[[], Awaitable[T]], *, size: Callable[[T], int | None]) -> T:
        """The answer to one request, made when its turn comes.

        `size` gives the bytes that went over the line; None keeps a request that says nothing about
        others, such as a listing, out of the measurements.
        """
        delays, failed = _delays(), None
        while True:
            await self._enter()
            began = self._clock.now()
            try:
                answer = await ask()
            except Exception as error:
                now = self._clock.now()
                failed = now if failed is None else failed
                wait = self._wait(error, began, now - failed, delays)
                if wait is None:
                    raise
            else:
                self._reached = True
                carried = size(answer)
                if carried is not None:
                    self._answered(began, carried)
                return answer
            finally:
                self._leave()
            await self._clock.sleep(wait)

    def _wait(self, error: Exception, began: float, spent: float, delays: Iterator[float]) -> float | None:
        """Seconds until a request is sent again that failed like this; None where it is not.

        `spent` are the seconds since it failed for the first time.
        """
        throttled = is_throttled(error)
        if throttled:
            self._halve(began)
        # A bare EOFError comes from a damaged file, not from a connection.
        elif type(error) is EOFError or not may_pass(error):
            return None
        # A layer that retries has waited long enough already.
        delay = None if isinstance(error, ZarrstackError) else next(delays, None)
        if delay is None:
            return None
        delay = max(delay, wanted_wait(error))
        patience = _PATIENCE if self._reached else _PATIENCE_AT_FIRST
        return delay if throttled or spent + delay <= patience else None

    async def _enter(self) -> None:
        if self._in_flight < self.limit:
            self._in_flight += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._leave()  # the turn came in the moment in which nobody wanted it any more
            raise

    def _leave(self) -> None:
        self._in_flight -= 1
        while self._waiting and self._in_flight < self.limit:
            turn = self._waiting.popleft()
            if not turn.done():
                self._in_flight += 1
                turn.set_result(None)

    def _answered(self, began: float, size: int) -> None:
        now = self._clock.now()
        self.costs.add(size, now - began)
        if began >= self._halved:
            self.limit = self._climb.answered(
                began, now, size + _REQUEST, self.limit, waiting=bool(self._waiting)
            )

    def _halve(self, began: float) -> None:
        """Once for all the requests that were under way together."""
        if began < self._halved:
            return
        self.limit = max(self.limit // 2, _LEAST_HALVED)
        self._halved = self._clock.now()
        self._climb = Climb(self._halved)


class Climb:
    """Finds the number of requests beyond which the rate no longer grows.

    The rate is what a request does in a second of its life, times the number in flight (Little's law): unlike
    answers per second it does not depend on where in a burst of answers one begins to count. A round in which
    mostly nobody waited for a turn says nothing about the number, and is not counted.
    """

    def __init__(self, now: float) -> None:
        self._base: tuple[int, float] | None = None
        """The number and rate that a step is measured against."""
        self._hold = 0
        self._round(now)

    def _round(self, now: float) -> None:
        self._began = now
        self._answers = self._waited = self._work = 0
        self._lives = 0.0

    def answered(self, began: float, now: float, work: int, limit: int, *, waiting: bool) -> int:
        """Count an answer to a request that `began` then; gives the number of requests from now on.

        `waiting` is whether another request waits for its turn.
        """
        if began < self._began:
            return limit  # it was under way when there were fewer, or more
        self._answers += 1
        self._waited += waiting
        self._work += work
        self._lives += now - began
        if self._answers < _ROUND * limit:
            return limit
        lives, work, full = self._lives, self._work, self._waited * 2 >= self._answers
        self._round(now)
        if not full or lives <= 0:
            return limit
        return self._decide(limit, limit * work / lives)

    def _decide(self, limit: int, rate: float) -> int:
        if self._base is None:
            return self._step(limit, rate)
        number, before = self._base
        if limit > number:
            if rate >= before * (1 + _WORTH * (limit / number - 1)):
                return self._step(limit, rate)
            self._hold = _HELD
            return number
        if rate < before * _FALLEN and limit > _LEAST_LOWERED:
            self._base, self._hold = None, 0
            return max(limit * 3 // 4, _LEAST_LOWERED)
        if self._hold:
            self._hold -= 1
            return limit
        return self._step(limit, rate)

    def _step(self, limit: int, rate: float) -> int:
        self._base = (limit, rate)
        return min(limit + min(_STEP, max(limit // 4, 1)), MOST)


class Costs:
    """What a request costs besides its bytes, from how long requests of several sizes took.

    A straight line through (bytes, seconds), older ones counting less: its intercept is the time of a
    request, its slope that of a byte.
    """

    _FADING: Final = 0.99
    _ENOUGH: Final = 30.0

    def __init__(self) -> None:
        self._count = self._bytes = self._seconds = self._squares = self._products = 0.0

    def add(self, size: int, seconds: float) -> None:
        """One request."""
        fading = self._FADING
        self._count = self._count * fading + 1
        self._bytes = self._bytes * fading + size
        self._seconds = self._seconds * fading + seconds
        self._squares = self._squares * fading + size * size
        self._products = self._products * fading + size * seconds

    def as_bytes(self) -> int | None:
        """The bytes that take as long as a request; None while that cannot be told."""
        if self._count < self._ENOUGH:
            return None
        spread = self._count * self._squares - self._bytes**2
        if spread <= 0.01 * self._bytes**2:
            return None  # requests of one size tell nothing of others
        slope = (self._count * self._products - self._bytes * self._seconds) / spread
        intercept = (self._seconds - slope * self._bytes) / self._count
        if slope <= 0 or intercept <= 0:
            return None
        return int(min(intercept / slope, float(1 << 40)))


def _delays() -> Iterator[float]:
    for delay in _DELAYS:
        yield delay * (1 - 0.5 * random.random())
