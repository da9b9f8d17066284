"""What limits a rate, for any number of threads and event loops: a bucket of tokens and a gate."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from concurrent.futures import Future

from .clock import Clock
from .fork_safety import forget_in_children


class Bucket:
    """Tokens that flow in at a rate, up to what flows in within `burst` seconds.

    Whoever takes tokens that are not there yet waits until they are, in the order of taking.
    """

    def __init__(self, rate: float, burst: float, clock: Clock) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._guard = threading.Lock()
        # The moment until which all that was taken is paid for; in the past when tokens lie ready.
        self._paid = clock.now() - burst
        forget_in_children(self)

    def after_fork(self) -> None:
        """A child goes on from what its parent had taken, with a lock of its own."""
        self._guard = threading.Lock()

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
        self._places = places
        self.after_fork()
        forget_in_children(self)

    def after_fork(self) -> None:
        """In a child nobody is inside: whoever was is a thread of the parent."""
        self._free = self._places
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
