"""The time source of layers, replaceable in tests and simulations."""

from __future__ import annotations

import asyncio
import time


class Clock:
    """The system clock; a subclass can control time in tests."""

    now = staticmethod(time.perf_counter)
    """Monotonic time in seconds since an arbitrary origin."""
    wall = staticmethod(time.time)
    """Seconds since 1970, for timestamps in events."""

    async def sleep(self, seconds: float) -> None:
        """Suspend this task for some seconds."""
        await asyncio.sleep(seconds)

    def sleep_sync(self, seconds: float) -> None:
        """Block this thread for some seconds."""
        time.sleep(seconds)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]
