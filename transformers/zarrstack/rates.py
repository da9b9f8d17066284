"""What limits a rate, for any number of threads and event loops: a bucket of tokens and a gate."""

from __future__ import annotations

import asyncio
import re
import threading
from collections import deque
from concurrent.futures import Future
from typing import Final

from .clock import Clock

_RATE: Final = re.compile(r"\s*(?P<number>\d+(\.\d+)?)\s*(?P<unit>[A-Za-z]*)\s*(/\s*s)?\s*")
UNITS: Final = {
    "": 1, "B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40,
}  # fmt: skip
"""Bytes; IEC 80000-13 for the binary ones. `KB` is taken for `kB`."""


def parse_rate(text: str) -> float | None:
    """Units per second of a text such as "50MB/s" or "10"; None when it is no rate."""
    match = _RATE.fullmatch(text)
    if match is None or match["unit"] not in UNITS:
        return None
    rate = float(match["number"]) * UNITS[match["unit"]]
    return int(rate) if rate.is_integer() else rate


class Bucket:
    """Tokens that flow in at a rate, up to what flows in within `burst` seconds.

    Whoever takes tokens that are not there yet waits until they are, in the order of taking.
    """

    def __init__(self, rate: float, burst: float, clock: Clock) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._guard = threading.Lock()
        # The moment until which all that was taken is paid for; in the past when tokens lie ready.
        self._paid = clock.now() - burst

    def take(self, amount: float) -> float:
        """Take tokens; the seconds to wait until they are there."""
        with self._guard:
            now = self._clock.now()
            self._paid = max(self._paid, now - self._burst) + amount / self._rate
            return max(0.0, self._paid - now)

    def give_back(self, amount: float) -> None:
        """Undo a `take` whose waiting was broken off."""
        with self._guard:
            self._paid -= amount / self._rate


class Gate:
    """At most so many inside, first come, first served."""

    def __init__(self, places: int) -> None:
        self._free = places
        self._guard = threading.Lock()
        self._waiting: deque[Future[None]] = deque()

    async def enter(self) -> None:
        """Come in, or wait for a place without holding up the event loop."""
        turn = self._queue()
        if turn is not None:
            try:
                await asyncio.wrap_future(turn)
            except BaseException:
                # A place may have been given in the moment in which we were cancelled.
                if not turn.cancel():
                    self.leave()
                raise

    def enter_sync(self) -> None:
        """Come in, or wait for a place in this thread."""
        turn = self._queue()
        if turn is not None:
            try:
                turn.result()
            except BaseException:  # an interrupt from the keyboard
                if not turn.cancel():
                    self.leave()
                raise

    def leave(self) -> None:
        """Give the place to whoever waits longest."""
        with self._guard:
            while self._waiting:
                turn = self._waiting.popleft()
                if turn.set_running_or_notify_cancel():
                    break
            else:
                self._free += 1
                return
        # Outside the guard: this runs what waits for the future.
        turn.set_result(None)

    def _queue(self) -> Future[None] | None:
        """A turn to wait for; None when there was a place at once."""
        with self._guard:
            if self._free > 0:
                self._free -= 1
                return None
            turn: Future[None] = Future()
            self._waiting.append(turn)
            return turn
