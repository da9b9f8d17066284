"""`Retry`: repeats operations after transient errors, with increasing delays."""

from __future__ import annotations

import logging
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from zarr.abc.store import Store

from ..base.intercept import Call, Intercept
from ..base.option_checks import clock_of, either, number
from ..core.errors import StorageError
from ..system import transient_errors
from ..system.clock import Clock
from ..system.fork_safety import new_lock

T = TypeVar("T")

LOGGER: Final = logging.getLogger("zarrstack.retry")
LONGEST: Final = 20.0
"""Longest delay in seconds, unless a server demands a longer one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryStatistics:
    """Statistics of a `Retry`."""

    retries: int
    given_up: int
    """Operations that failed after all permitted attempts."""
    waited: float
    """Seconds, summed over all operations."""


class _Counts:
    def __init__(self) -> None:
        self.guard = new_lock()
        self.retries = self.given_up = 0
        self.waited = 0.0


@dataclass(slots=True)
class _Trial:
    """The attempts at one operation."""

    call: Call
    began: float
    attempts: int = 0


class Retry(Intercept):
    """Repeats operations that fail with a transient error, up to `attempts` times within `budget` seconds.

    The first delay takes `first` seconds, each other twice as long as the one before, up to 20 seconds; each
    is reduced by a random share of up to a half, so that clients do not retry in lockstep. A server's
    `Retry-After` is honoured. `may_pass(error)` decides whether an error is transient; None means unknown.
    "Not found" is never retried. Each retry is a warning of the logger "zarrstack.retry".

    Examples
    --------
    >>> zarrstack.stack(MemoryStore(), zarrstack.Retry(attempts=4, first=0.5)).figures().retries
    0
    """

    name = "retry"
    transparent = awaits_only_below = True

    def __init__(
        self,
        store: Store | None = None,
        *,
        attempts: int = 8,
        first: float = 0.1,
        budget: float = 120.0,
        may_pass: Callable[[Exception], bool | None] | None = None,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(store)
        self.attempts: int = number(self, "attempts", attempts, least=1, whole=True)
        self.first: float = number(self, "first", first)
        self.budget: float = number(self, "budget", budget)
        self._asked = either(self, "may_pass", may_pass, callable, "a function of an error")
        self._clock = clock_of(self, clock)
        self._counts = _Counts()

    def figures(self) -> RetryStatistics:
        counts = self._counts
        with counts.guard:
            return RetryStatistics(retries=counts.retries, given_up=counts.given_up, waited=counts.waited)

    async def around(self, call: Call, act: Callable[[], Awaitable[T]]) -> T:
        trial = _Trial(call, self._clock.now())
        while True:
            try:
                return await act()
            except Exception as error:
                delay = self._delay_after(trial, error)
                if delay is None:
                    raise
            await self.pause(self._clock, delay)

    async def around_listing(
        self, call: Call, begin: Callable[[], AsyncIterator[str]]
    ) -> AsyncGenerator[str, None]:
        # An interrupted listing restarts; names already returned are not repeated.
        trial, seen = _Trial(call, self._clock.now()), set[str]()
        while True:
            names = begin()
            try:
                while True:
                    try:
                        name = await anext(names)
                    except StopAsyncIteration:
                        return
                    except Exception as error:
                        delay = self._delay_after(trial, error)
                        if delay is None:
                            raise
                        break
                    if name not in seen:
                        seen.add(name)
                        yield name
            finally:
                if isinstance(names, AsyncGenerator):
                    await names.aclose()
            await self._clock.sleep(delay)

    def _may_pass(self, error: Exception) -> bool:
        if transient_errors.is_not_found(error):
            return False
        answer = None if self._asked is None else self._asked(error)
        return transient_errors.may_pass(error) if answer is None else bool(answer)

    def _delay_after(self, trial: _Trial, error: Exception) -> float | None:
        """Seconds to wait before the next attempt; None if the error is permanent.

        StorageError if attempts or budget are exhausted.
        """
        if not self._may_pass(error):
            return None
        delay = min(self.first * 2.0 ** min(trial.attempts, 64), LONGEST) * (1 - 0.5 * random.random())
        delay = max(delay, transient_errors.wanted_wait(error))
        trial.attempts += 1
        spent = self._clock.now() - trial.began
        operation, key, counts = trial.call.operation, trial.call.key, self._counts
        if trial.attempts == self.attempts or spent + delay > self.budget:
            if trial.attempts == 1:
                return None  # not retried: the original error is raised
            with counts.guard:
                counts.given_up += 1
            raise StorageError(
                f"layer {self.name!r}: {operation} failed repeatedly",
                key=key,
                found=f"{type(error).__name__}: {error}, after {trial.attempts} attempts in {spent:.1f} s",
                advice="Wait until the storage responds again, or allow more attempts or a larger budget.",
            ) from error
        with counts.guard:
            counts.retries += 1
            counts.waited += delay
        text = "%s %r: attempt %d failed, the next is in %.2f s (%s: %s)"
        LOGGER.warning(text, operation, key, trial.attempts, delay, type(error).__name__, error)
        return delay
