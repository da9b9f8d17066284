"""Adapts the number of concurrent requests to a store at run time, and repeats failed ones.

With a fixed number of 64, 1,000 requests of 0.1 s take 1.6 times as long, 10,000 take 3.4 times (simulated,
docs/design/speed.md).

The number grows by a step as long as this increases the throughput, and is halved if the store reports
overload (HTTP 429 and 503, `SlowDown`): additive increase, multiplicative decrease, as in TCP (RFC 5681,
section 3.1), with the throughput in place of lost packets.

Requests refused in this way are repeated after growing delays, as are transient errors: a connection reset, a
truncated body, a missing response (`zarrstack.system.transient_errors`). Every request of a storage may be
repeated: reads, writes of whole objects, deletions. Clients repeat requests, but not after the start of a
body (obstore 0.12), or none at all (fsspec's HTTP). What a client repeats itself is not counted in `retries`.

A `ConcurrencyLimiter` is used in the event loop of `event_loop` only; nothing here is locked.
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

from .. import retries
from ..silence import AnswerWatch

T = TypeVar("T")

MAX_REQUESTS: Final = 256
"""Maximum number of concurrent requests; clients keep a connection for each."""
_FIRST: Final = 64
_STEP: Final = 32
"""Maximum increase of the number at a time; a quarter of the number if that is less."""
_MIN_HALVED: Final = 1
_MIN_LOWERED: Final = 8
"""Minimum number after halving or after a drop of the rate."""
_WORTH: Final = 0.25
"""A step is kept if the rate grew by this fraction of the increase in requests."""
_ROUND: Final = 2
"""Responses measured per concurrent request before the number is changed."""
_HELD: Final = 8
"""Rounds between two attempts to grow."""
_FALLEN: Final = 0.5
"""Fraction of the rate reached with the same number of requests; below it the store has become slower."""
_REQUEST: Final = 64 << 10
"""Cost of a request in bytes, in addition to its content, for the rate."""
_DELAYS: Final = (0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 20.0)
"""Seconds before the next attempt, each randomly shortened by up to half."""
_PATIENCE: Final = 120.0
_PATIENCE_AT_FIRST: Final = 5.0
"""Seconds after the first failure of a request in which it is repeated, unless the store asks for patience;
the second value if the place has never responded, because its name may be wrong.
"""


def unmeasured(_: object) -> None:
    """The size of what is no single request for an object, such as a listing or an upload in parts."""
    return


class ConcurrencyLimiter:
    """The requests of one place: their concurrency and cost."""

    def __init__(self, *, clock: Clock | None = None) -> None:
        self.limit = _FIRST
        """Number of requests that may run concurrently now."""
        self.costs = RequestCosts()
        self._clock = clock or Clock()
        self._in_flight = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._climb = HillClimber(self._clock.now())
        self._halved = float("-inf")
        self._reached = False
        self._watch = AnswerWatch(self._clock)

    def __reduce__(self) -> tuple[type[ConcurrencyLimiter], tuple[()]]:
        """Another process adapts its own number."""
        return type(self), ()

    async def __call__(self, ask: Callable[[], Awaitable[T]], *, size: Callable[[T], int | None]) -> T:
        """Make one request when its turn comes, and return the response.

        `size` gives the bytes transferred; None excludes a request that is not representative, such as a
        listing, from the measurements.
        """
        watched = size is not unmeasured
        if watched:
            self._watch.begin()
        delays, failed, attempt = _delays(), None, 1
        try:
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
                        if attempt == 1:
                            self._watch.answered(now)
                        raise
                    retries.add(error, wait)
                    attempt += 1
                    if not watched:
                        watched = True
                        self._watch.begin()
                    self._watch.failed(attempt, error)
                else:
                    self._reached = True
                    now = self._clock.now()
                    self._watch.answered(now)
                    carried = size(answer)
                    if carried is not None:
                        self._answered(began, now, carried)
                    return answer
                finally:
                    self._leave()
                await self._clock.sleep(wait)
        finally:
            if watched:
                self._watch.end()

    def _wait(self, error: Exception, began: float, spent: float, delays: Iterator[float]) -> float | None:
        """Seconds before a request with this error is repeated; None if it is not.

        `spent` are the seconds since its first failure.
        """
        throttled = is_throttled(error)
        if throttled:
            self._halve(began)
        # A bare EOFError comes from a damaged file, not from a connection.
        elif type(error) is EOFError or not may_pass(error):
            return None
        # A layer that retries has already waited.
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
                self._leave()  # the turn came just after the request was cancelled
            raise

    def _leave(self) -> None:
        self._in_flight -= 1
        while self._waiting and self._in_flight < self.limit:
            turn = self._waiting.popleft()
            if not turn.done():
                self._in_flight += 1
                turn.set_result(None)

    def _answered(self, began: float, now: float, size: int) -> None:
        self.costs.add(size, now - began)
        if began >= self._halved:
            self.limit = self._climb.answered(
                began, now, size + _REQUEST, self.limit, waiting=bool(self._waiting)
            )

    def _halve(self, began: float) -> None:
        """Halve the number, once for all requests that ran concurrently."""
        if began < self._halved:
            return
        self.limit = max(self.limit // 2, _MIN_HALVED)
        self._halved = self._clock.now()
        self._climb = HillClimber(self._halved)


class HillClimber:
    """Finds the number of requests above which the rate no longer grows.

    The rate is the work of a request per second of its duration, times the number in flight (Little's law):
    unlike responses per second, it does not depend on the start of the measurement within a burst. A round in
    which there was mostly no request waiting is not representative, and is not counted.
    """

    def __init__(self, now: float) -> None:
        self._base: tuple[int, float] | None = None
        """The number and rate with which a step is compared."""
        self._hold = 0
        self._round(now)

    def _round(self, now: float) -> None:
        self._began = now
        self._answers = self._waited = self._work = 0
        self._lives = 0.0

    def answered(self, began: float, now: float, work: int, limit: int, *, waiting: bool) -> int:
        """Count a response to a request started at `began`; returns the new number of requests.

        `waiting`: another request is waiting for its turn.
        """
        if began < self._began:
            return limit  # it ran with another number of concurrent requests
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
        if rate < before * _FALLEN and limit > _MIN_LOWERED:
            self._base, self._hold = None, 0
            return max(limit * 3 // 4, _MIN_LOWERED)
        if self._hold:
            self._hold -= 1
            return limit
        return self._step(limit, rate)

    def _step(self, limit: int, rate: float) -> int:
        self._base = (limit, rate)
        return min(limit + min(_STEP, max(limit // 4, 1)), MAX_REQUESTS)


class RequestCosts:
    """Estimates the fixed cost of a request, from the durations of requests of several sizes.

    A linear regression on (bytes, seconds), with decreasing weight for older ones: the intercept is the time
    of a request, the slope that of a byte.
    """

    _FADING: Final = 0.99
    _ENOUGH: Final = 30.0

    def __init__(self) -> None:
        self._count = self._bytes = self._seconds = self._squares = self._products = 0.0

    def add(self, size: int, seconds: float) -> None:
        """Add one request."""
        fading = self._FADING
        self._count = self._count * fading + 1
        self._bytes = self._bytes * fading + size
        self._seconds = self._seconds * fading + seconds
        self._squares = self._squares * fading + size * size
        self._products = self._products * fading + size * seconds

    def as_bytes(self) -> int | None:
        """The number of bytes that take as long as a request; None while unknown."""
        if self._count < self._ENOUGH:
            return None
        spread = self._count * self._squares - self._bytes**2
        if spread <= 0.01 * self._bytes**2:
            return None  # requests of a single size do not determine a line
        slope = (self._count * self._products - self._bytes * self._seconds) / spread
        intercept = (self._seconds - slope * self._bytes) / self._count
        if slope <= 0 or intercept <= 0:
            return None
        return int(min(intercept / slope, float(1 << 40)))


def _delays() -> Iterator[float]:
    for delay in _DELAYS:
        yield delay * (1 - 0.5 * random.random())
