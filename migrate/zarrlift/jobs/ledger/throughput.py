"""The time line of a job in its ledger: how much was read and written after how many seconds of moving.

Times without a run do not count, so that the line of a job that was resumed days later has no gap. The note
is a list of bounded length: its steps double when it is full.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from ...transfer.counts import MoveResult
from .ledger import Job

_NOTE: Final = "throughput"
_MAX_POINTS: Final = 200


class Reached(NamedTuple):
    """What a job had moved."""

    seconds: float
    """Time of moving, in all runs."""
    bytes_in: int
    """Stored bytes of the source read; bytes that are read twice count twice."""
    bytes_out: int


class Throughput:
    """Adds a run to the time line of a job."""

    def __init__(self, job: Job, clock: Callable[[], float] = time.monotonic) -> None:
        self._job = job
        self._clock = clock
        self._points = list(throughput(job)) or [Reached(0, 0, 0)]
        self._before = self._points[-1]
        self._began = clock() - self._before.seconds
        self._step = max(self._before.seconds / _MAX_POINTS, 0.5)

    def note(self, moved: MoveResult, *, last: bool = False) -> None:
        """Note what the run has `moved`, at most once a step, and at its end. Durable at the next commit."""
        now = Reached(
            seconds=round(self._clock() - self._began, 3),
            bytes_in=self._before.bytes_in + moved.bytes_in,
            bytes_out=self._before.bytes_out + moved.bytes_out,
        )
        if now[1:] == self._points[-1][1:] or (
            not last and now.seconds - self._points[-1].seconds < self._step
        ):
            return
        if len(self._points) >= _MAX_POINTS:
            self._points[1:] = self._points[2::2]
            self._step *= 2
        self._points.append(now)
        self._job.note(**{_NOTE: json.dumps(self._points)})


def throughput(job: Job) -> tuple[Reached, ...]:
    """The time line of a job; empty if nothing was moved."""
    try:
        return tuple(
            Reached(float(point[0]), int(point[1]), int(point[2]))
            for point in json.loads(job.fact(_NOTE) or "[]")
        )
    except (ValueError, TypeError, IndexError, KeyError):
        return ()
