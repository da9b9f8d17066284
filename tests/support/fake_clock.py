"""Time that passes only when a test says so: a clock, and stores whose event loop never waits."""

from __future__ import annotations

import asyncio
import selectors
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from zarrstack.system.clock import Clock

# Time that passes only when somebody sleeps, or when the test says so.


class FakeClock(Clock):
    def __init__(self, start=1000.0):
        self.time = start
        self.naps = []
        self.guard = threading.Lock()

    def __eq__(self, other):
        return self is other

    __hash__ = None

    def now(self):
        return self.time

    def wall(self):
        return self.time

    def pass_by(self, seconds):
        with self.guard:
            self.time += seconds

    async def sleep(self, seconds):
        self.sleep_sync(seconds)
        await asyncio.sleep(0)

    def sleep_sync(self, seconds):
        self.naps.append(seconds)
        self.pass_by(seconds)


# Stores whose time is that of an event loop that never waits: it jumps to whatever comes next.


T = TypeVar("T")


class Jumping(asyncio.SelectorEventLoop):
    """An event loop whose `time` is moved by what it would have waited for."""

    def __init__(self) -> None:
        self.seconds = 0.0
        loop = self

        class Selector(selectors.DefaultSelector):
            def select(self, timeout: float | None = None) -> Any:
                assert timeout is not None, "nothing will ever happen again"
                loop.seconds += max(timeout, 0)
                return super().select(0)

        super().__init__(Selector())

    def time(self) -> float:
        return self.seconds


class LoopClock(Clock):
    """The time of the event loop that runs."""

    def now(self) -> float:  # type: ignore[override]
        try:
            return asyncio.get_running_loop().time()
        except RuntimeError:
            return 0.0


class TooMuch(Exception):
    """What a client raises for HTTP 503."""

    status = 503


class Server:
    """Answers each request after `latency` seconds; it works on `width` of them at a time.

    `refuses` says, from how many are there at once, whether a request is turned away.
    """

    def __init__(
        self,
        latency: float,
        width: int,
        *,
        rate: float = 1e9,
        refuses: Callable[[int], bool] = lambda _: False,
    ) -> None:
        self.latency = latency
        self.width = width
        self.rate = rate
        self.refuses = refuses
        self.there = self.most = self.answers = self.refused = 0
        self._free: asyncio.Semaphore | None = None

    async def ask(self, size: int = 1000) -> int:
        """One request; gives the bytes of its answer."""
        self.there += 1
        self.most = max(self.most, self.there)
        try:
            if self.refuses(self.there):
                self.refused += 1
                await asyncio.sleep(self.latency)
                raise TooMuch
            if self._free is None:
                self._free = asyncio.Semaphore(self.width)
            async with self._free:
                await asyncio.sleep(self.latency + size / self.rate)
            self.answers += 1
            return size
        finally:
            self.there -= 1


def simulate(work: Callable[[], Coroutine[Any, Any, T]]) -> tuple[T, float]:
    """(result, simulated seconds) of a work in a loop of its own."""
    loop = Jumping()
    try:
        return loop.run_until_complete(work()), loop.seconds
    finally:
        loop.close()
