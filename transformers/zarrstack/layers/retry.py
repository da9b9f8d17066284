"""`Retry`: repeats operations after transient errors, with increasing delays."""

from __future__ import annotations

import logging
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Final, TypeVar

from zarr.abc.store import Store

from ..base.descend import descend
from ..base.intercept import Call, Intercept
from ..base.option_checks import clock_of, either, number
from ..core.errors import StorageError
from ..system import transient_errors
from ..system.clock import Clock
from ..system.fork_safety import new_lock

T = TypeVar("T")

LOGGER: Final = "zarrstack.retry"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryEvent:
    """A retry that is about to start."""

    operation: str
    key: str
    attempt: int
    """Number of the attempt that failed; the first is 1."""
    delay: float
    """Seconds until the next attempt."""
    error: Exception

    def __str__(self) -> str:
        return (
            f"{self.operation} {self.key!r}: attempt {self.attempt} failed, "
            f"the next is in {self.delay:.2f} s ({type(self.error).__name__}: {self.error})"
        )


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
    delays: Iterator[float] | None = None
    attempt: int = 0


class Retry(Intercept):
    """Repeats operations that fail with a transient error, up to `attempts` times within `budget` seconds.

    Delays grow from `first` by `factor` to `longest` seconds; each is reduced by a random share of up to
    `jitter`, so that clients do not retry in lockstep. A server's `Retry-After` is honoured. `may_pass`
    decides whether an error is transient, then any method `may_pass(error)` of the stores below; None means
    unknown. "Not found" is never retried. `report` is called with each `RetryEvent`; the default is a warning
    from the logger "zarrstack.retry".

    Examples
    --------
    >>> list(zarrstack.Retry(attempts=4, first=0.5).delays())
    [0.5, 1.0, 2.0]
    """

    name = "retry"
    transparent = awaits_only_below = True
    short: ClassVar[str] = "attempts"

    def __init__(
        self,
        store: Store | None = None,
        *,
        attempts: int = 8,
        first: float = 0.1,
        factor: float = 2.0,
        longest: float = 20.0,
        jitter: float = 0.5,
        budget: float = 120.0,
        may_pass: Callable[[Exception], bool | None] | None = None,
        report: Callable[[RetryEvent], Any] | None = None,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(store)
        self.attempts: int = number(self, "attempts", attempts, least=1, whole=True)
        self.first: float = number(self, "first", first)
        self.factor: float = number(self, "factor", factor, least=1)
        self.longest: float = number(self, "longest", longest)
        self.jitter: float = number(self, "jitter", jitter, most=1)
        self.budget: float = number(self, "budget", budget)
        self._asked = either(self, "may_pass", may_pass, callable, "a function of an error")
        either(self, "report", report, callable, "a function of one report")
        self._report = report or partial(logging.getLogger(LOGGER).warning, "%s")
        self._clock = clock_of(self, clock)
        self._counts = _Counts()

    def figures(self) -> RetryStatistics:
        """Retries, operations given up, and seconds waited, since the layer was created."""
        counts = self._counts
        with counts.guard:
            return RetryStatistics(retries=counts.retries, given_up=counts.given_up, waited=counts.waited)

    def delays(self) -> Iterator[float]:
        """The delays between attempts before jitter; one fewer than attempts."""
        delay = min(self.first, self.longest)
        for _ in range(self.attempts - 1):
            yield delay
            delay = min(delay * self.factor, self.longest)

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
        opinions = (getattr(store, "may_pass", None) for store in descend(self._store))
        for ask in (self._asked, *opinions):
            if callable(ask) and (answer := ask(error)) is not None:
                return bool(answer)
        return transient_errors.may_pass(error)

    def _delay_after(self, trial: _Trial, error: Exception) -> float | None:
        """Seconds to wait before the next attempt; None if the error is permanent.

        StorageError if attempts or budget are exhausted.
        """
        trial.attempt += 1
        if not self._may_pass(error):
            return None
        trial.delays = trial.delays or self.delays()
        delay = next(trial.delays, None)
        spent = self._clock.now() - trial.began
        if delay is not None:
            delay *= 1 - self.jitter * random.random()
            delay = max(delay, transient_errors.wanted_wait(error))
        operation, key, counts = trial.call.operation, trial.call.key, self._counts
        if delay is None or spent + delay > self.budget:
            if trial.attempt == 1:
                return None  # not retried: the original error is raised
            with counts.guard:
                counts.given_up += 1
            raise StorageError(
                f"layer {self.name!r}: {operation} failed repeatedly",
                key=key,
                found=f"{type(error).__name__}: {error}, after {trial.attempt} attempts in {spent:.1f} s",
                advice="Wait until the storage responds again, or allow more attempts or a larger budget.",
            ) from error
        with counts.guard:
            counts.retries += 1
            counts.waited += delay
        event = RetryEvent(operation=operation, key=key, attempt=trial.attempt, delay=delay, error=error)
        self._report(event)
        return delay
