"""Rate and concurrency limits, across threads and event loops: a token bucket and a gate."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from concurrent.futures import Future

from .clock import Clock
from .fork_safety import reset_after_fork


class TokenBucket:
    """A token bucket that fills at a rate, up to the tokens of `burst` seconds.

    Callers that take more tokens than available wait for them, in the order of taking.
    """

    def __init__(self, rate: float, burst: float, clock: Clock) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._guard = threading.Lock()
        # Time until which all tokens taken are paid for; in the past if tokens are available.
        self._paid = clock.now() - burst
        reset_after_fork(self)

    def after_fork(self) -> None:
        """Replace the lock in a forked child, which keeps the bucket's level."""
        self._guard = threading.Lock()

    def take(self, amount: float) -> float:
        """Take tokens; return the seconds to wait until they are available."""
        with self._guard:
            now = self._clock.now()
            self._paid = max(self._paid, now - self._burst) + amount / self._rate
            return max(0.0, self._paid - now)

    def give_back(self, amount: float) -> None:
        """Undo a `take` whose wait was cancelled."""
        with self._guard:
            self._paid -= amount / self._rate


class ConcurrencyGate:
    """Limits the number of concurrent holders; first come, first served."""

    def __init__(self, places: int) -> None:
        self._places = places
        self.after_fork()
        reset_after_fork(self)

    def after_fork(self) -> None:
        """Free all places in a forked child: their holders are threads of the parent."""
        self._free = self._places
        self._guard = threading.Lock()
        self._waiting: deque[Future[None]] = deque()

    async def enter(self) -> None:
        """Take a place, waiting for one without blocking the event loop."""
        turn = self._queue()
        if turn is not None:
            try:
                await asyncio.wrap_future(turn)
            except BaseException:
                # A place may have been granted at the moment of cancellation.
                if not turn.cancel():
                    self.leave()
                raise

    def enter_sync(self) -> None:
        """Take a place, blocking this thread until there is one."""
        turn = self._queue()
        if turn is not None:
            try:
                turn.result()
            except BaseException:  # KeyboardInterrupt, for example
                if not turn.cancel():
                    self.leave()
                raise

    def leave(self) -> None:
        """Release the place to the longest waiter."""
        with self._guard:
            while self._waiting:
                turn = self._waiting.popleft()
                if turn.set_running_or_notify_cancel():
                    break
            else:
                self._free += 1
                return
        # Outside the guard: this runs callbacks of the future.
        turn.set_result(None)

    def _queue(self) -> Future[None] | None:
        """Return a future to wait for; None if a place was free."""
        with self._guard:
            if self._free > 0:
                self._free -= 1
                return None
            turn: Future[None] = Future()
            self._waiting.append(turn)
            return turn
