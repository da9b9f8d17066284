"""Time that passes only when somebody sleeps, or when the test says so."""

from __future__ import annotations

import asyncio
import threading

from zarrstack.system.clock import Clock


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
