"""How long a server has not answered this process and its workers on this machine; the repeated requests.

A worker process writes a file while its requests are repeated, because the result of its task comes later.
`ConcurrencyLimiter` repeats requests; here they are counted.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

from ..core.units import duration_text
from .redact import redact_foreign

if TYPE_CHECKING:
    from zarrstack.system.clock import Clock

_AFTER_FAILURE: Final = 5.0
_AT_FIRST: Final = 30.0
"""Seconds without an answer that are worth a message: after a failed attempt, and without one, because a
large object takes its time.
"""
_OUTDATED: Final = 300.0
"""Seconds after which a worker that has not written again is taken for dead; attempts are less far apart."""


@dataclass(frozen=True, slots=True)
class Unanswered:
    """A server that does not answer, or only with errors."""

    seconds: float
    """Time since its last answer, or since the first request that waits for one."""
    attempt: int
    """Number of the present attempt of a request, counted from 1."""
    errors: bool = False
    """Whether it answers, with errors after which the request is repeated."""

    def __str__(self) -> str:
        seconds = self.seconds
        span = f"{round(seconds)} s" if seconds < 59.5 else duration_text(seconds)
        text = "answered with errors only" if self.errors else "not answered"
        return f"The server has {text} for {span}, attempt {self.attempt}"


class AnswerWatch:
    """The requests to one place that have no answer yet; used in one thread, read in any."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pending = 0
        self._since = 0.0
        self._attempt = 1
        self._errors = False
        self._report: str | None = None
        """The file that a worker has written."""
        with _lock:
            _watches.add(self)

    def begin(self) -> None:
        """A request waits for its first answer."""
        if not self._pending:
            self.answered(self._clock.now())
        self._pending += 1

    def answered(self, now: float) -> None:
        """A request had an answer that is not repeated."""
        self._since, self._attempt, self._errors = now, 1, False
        if self._report is not None:
            self._withdraw(self._report)

    def failed(self, attempt: int, error: BaseException) -> None:
        """A request is going to be repeated, as this attempt, because of an error."""
        from zarrstack.system.transient_errors import answers

        self._attempt = max(self._attempt, attempt)
        self._errors = any(answer != (None, None) for answer in answers(error))
        if _folder_of_worker is not None:
            since = time.time() - (self._clock.now() - self._since)
            self._report = os.path.join(_folder_of_worker, f"{os.getpid()}-{id(self)}")
            with suppress(OSError), open(self._report, "w") as file:
                json.dump([since, self._attempt, self._errors], file)

    def end(self) -> None:
        """A request that had begun has ended."""
        self._pending -= 1
        if self._report is not None and not self._pending:
            self._withdraw(self._report)

    def _withdraw(self, report: str) -> None:
        self._report = None
        with suppress(OSError):
            os.unlink(report)

    def unanswered(self) -> Unanswered | None:
        """For how long now; None if it is short, or if no request waits."""
        if not self._pending:
            return None
        seconds = self._clock.now() - self._since
        if seconds < (_AT_FIRST if self._attempt == 1 else _AFTER_FAILURE):
            return None
        return Unanswered(seconds, self._attempt, self._errors)


_folder_of_worker: str | None = None
_folders: Final[set[str]] = set()
"""Folders in which workers of this process write."""


def report_in(folder: str | None) -> None:
    """Write into a folder how long this process, which is a worker, has had no answer."""
    global _folder_of_worker  # noqa: PLW0603 - of the process
    _folder_of_worker = folder


def read_from(folder: str) -> None:
    """Include what workers write into a folder, until it is removed."""
    _folders.add(folder)


def _of_workers(folder: str) -> list[Unanswered]:
    waits, now = [], time.time()
    try:
        reports = list(os.scandir(folder))
    except OSError:
        _folders.discard(folder)
        return []
    for report in reports:
        with suppress(OSError, ValueError):  # withdrawn, or not written yet
            if now - report.stat().st_mtime < _OUTDATED:
                since, attempt, errors = json.loads(Path(report.path).read_text())
                waits.append(Unanswered(now - since, attempt, errors))
    return [wait for wait in waits if wait.seconds >= _AFTER_FAILURE]


_lock: Final = threading.Lock()
_watches: Final[WeakSet[AnswerWatch]] = WeakSet()


def longest_wait() -> Unanswered | None:
    """The longest that a server has not answered this process or its workers; None if all answer."""
    with _lock:
        watches = list(_watches)
    waits = [wait for watch in watches if (wait := watch.unanswered()) is not None]
    for folder in list(_folders):
        waits += _of_workers(folder)
    return max(waits, key=lambda wait: wait.seconds, default=None)


log: Final = logging.getLogger("zarrlift.retry")
"""One record for each repeated request, level INFO."""

_count = 0


def count_retry(error: BaseException, seconds: float) -> None:
    """Count a request that is repeated after some seconds because of an error."""
    global _count  # noqa: PLW0603 - of the process
    with _lock:
        _count += 1
    if log.isEnabledFor(logging.INFO):
        text = " ".join(redact_foreign(f"{type(error).__name__}: {error}").split())[:500]
        log.info("repeated in %.1f s: %s", seconds, text, extra={"event": "retry"})


def take_retries() -> int:
    """The number of repeated requests since the last call."""
    global _count
    with _lock:
        count, _count = _count, 0
    return count
