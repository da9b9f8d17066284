"""Adapts the number of concurrent requests to a store at run time, and repeats failed ones.

As in TCP (RFC 5681, section 3.1), the number grows by one for each answer while others wait for their turn,
until the store reports overload (HTTP 429 and 503, `SlowDown`). This halves it, and it grows more slowly from
then on: by one for as many answers as it allows at a time. Answers that the store delays do not count.

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
from functools import partial
from typing import Any, Final, TypeVar

from zarrstack.core.errors import ZarrstackError
from zarrstack.system.clock import Clock
from zarrstack.system.transient_errors import CODES, answers, may_pass, wanted_wait

from ..giving_up import heeded_stop
from ..unanswered import AnswerWatch, count_retry

T = TypeVar("T")

MAX_REQUESTS: Final = 256
"""Maximum number of concurrent requests; clients keep a connection for each."""
_FIRST: Final = 64
_DELAYED: Final = 8
"""Answers that take this many times as long as the fastest one wait in the store: more requests would too."""
_DELAYS: Final = (0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 20.0)
"""Seconds before the next attempt, each randomly shortened by up to half."""
_PATIENCE: Final = 120.0
_PATIENCE_AT_FIRST: Final = 5.0
"""Seconds after the first failure of a request in which it is repeated, unless the store asks for patience;
the second value if the place has never responded, because its name may be wrong.
"""
THROTTLED_STATUS: Final = frozenset({429, 503})
THROTTLED_CODES: Final = CODES - {
    "InternalError", "OperationAborted", "RequestTimeout", "RequestTimeoutException",
    "TransactionInProgressException",
}  # fmt: skip
"""Those that ask for fewer requests: S3's `SlowDown` has status 503, Google responds with 429."""


class ConcurrencyLimiter:
    """The requests of one place: how many run concurrently, and which are repeated."""

    def __init__(self, *, clock: Clock | None = None) -> None:
        self.limit = _FIRST
        """Number of requests that may run concurrently now."""
        self._clock = clock or Clock()
        self._in_flight = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._halved = float("-inf")
        """When the store last reported overload."""
        self._fastest = float("inf")
        """Seconds of the fastest answer."""
        self._answers = 0
        """Number of answers since the limit was last changed."""
        self._reached = False
        self._watch = AnswerWatch(self._clock)
        self.watches = True
        """Whether a request without an answer is reported as a server that does not answer."""

    def __reduce__(self) -> tuple[type[ConcurrencyLimiter], tuple[()]]:
        """Another process adapts its own number."""
        return type(self), ()

    async def __call__(self, ask: Callable[[], Awaitable[T]], *, single: bool) -> T:
        """Make one request when its turn comes, and return the response.

        `single`: it is one for an object, whose duration says something of others; not such as a listing or
        an upload in parts. It is cancelled if the thread that made it is to give up.
        """
        stop = heeded_stop()
        if stop is None:
            return await self._repeated(ask, single=single)
        end = partial(asyncio.get_running_loop().call_soon_threadsafe, _current_task().cancel)
        with stop.ending(end):
            await asyncio.sleep(0)  # ends here if it was stopped before
            return await self._repeated(ask, single=single)

    async def _repeated(self, ask: Callable[[], Awaitable[T]], *, single: bool) -> T:
        watched = single and self.watches
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
                    count_retry(error, wait)
                    attempt += 1
                    if self.watches:
                        if not watched:
                            watched = True
                            self._watch.begin()
                        self._watch.failed(attempt, error)
                else:
                    self._reached = True
                    now = self._clock.now()
                    self._watch.answered(now)
                    if single:
                        self._grow(began, now - began)
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

    def _grow(self, began: float, seconds: float) -> None:
        """Count an answer to a request that began after the number was halved, if it limits others now."""
        self._fastest = min(self._fastest, seconds)
        if not self._waiting or self.limit == MAX_REQUESTS or began < self._halved:
            return
        if seconds <= self._fastest * _DELAYED:
            self._answers += 1
            if self._answers >= self.limit or self._halved < 0:
                self.limit, self._answers = self.limit + 1, 0

    def _halve(self, began: float) -> None:
        """Halve the number, once for all requests that ran concurrently."""
        if began >= self._halved:
            self.limit, self._answers = max(self.limit // 2, 1), 0
            self._halved = self._clock.now()


def _current_task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None
    return task


def _delays() -> Iterator[float]:
    for delay in _DELAYS:
        yield delay * (1 - 0.5 * random.random())


def is_throttled(error: BaseException) -> bool:
    """Whether the store reports too many requests."""
    return any(status in THROTTLED_STATUS or code in THROTTLED_CODES for status, code in answers(error))
