"""The time as layers see it, so that tests and simulations can give them another."""

from __future__ import annotations

import asyncio
import time


class Clock:
    """The machine's clock. A subclass with other methods makes time pass as a test wants it to."""

    now = staticmethod(time.perf_counter)
    """Seconds since some moment; never goes backwards."""
    wall = staticmethod(time.time)
    """Seconds since 1970, for events that are read by people and other programs."""

    async def sleep(self, seconds: float) -> None:
        """Let others of this event loop go on for some seconds."""
        await asyncio.sleep(seconds)

    def sleep_sync(self, seconds: float) -> None:
        """Let this thread rest for some seconds."""
        time.sleep(seconds)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]
