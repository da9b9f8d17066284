"""The progress of a running migration, for displays and metrics.

A display never fails a migration: if its terminal disappears, the output stops.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol, Self, TypeAlias

if TYPE_CHECKING:
    from zarrstack.core.errors import Problem

    from ..planning.routes import RouteName
    from ..storage.silence import Silence
    from ..transfer.counts import MoveResult

_REFRESH_SECONDS: Final = 1.0


class Progress(Protocol):
    """Receives the progress of a migration. All calls come from one thread."""

    def start(self, total_bytes: int | None, total_chunks: int | None) -> None:
        """Start with the total of stored bytes to read and chunks to move; None if unknown."""

    def resume_at(self, chunks: int, nbytes: int) -> None:
        """Report work done by earlier runs, which is part of the totals."""

    def expect(self, total_bytes: int, total_chunks: int) -> None:
        """Replace the totals given at the start, which were an estimate."""

    def advance(self, chunks: int, nbytes: int) -> None:
        """Report that further chunks are done and further bytes of the source were read."""

    def note(self, text: str) -> None:
        """Report an event at once, in one line, such as a retry."""

    def close(self) -> None:
        """End the display; may be called twice."""


ProgressChoice: TypeAlias = Progress | bool | None
"""A display; True for the usual one, False for none. None is True in a notebook and False elsewhere."""


class NullProgress:
    """Shows no progress."""

    def start(self, *_: object, **__: object) -> None:
        """Do nothing."""

    resume_at = expect = advance = note = close = start


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningProgress:
    """Progress of running tasks, to be added to that of ended tasks, and the corrected total."""

    chunks: int = 0
    bytes: int = 0
    total_bytes: int | None = None
    """None for the total of the last `start` or `expect`."""
    listed: int | None = None
    """Number of objects listed so far; None if tasks are running."""
    seconds_left: float | None = None
    """Time left, by what is left of each route; None while unknown."""
    silence: Silence | None = None
    """A server that does not answer requests of this process; `Ticker` adds it."""


class TickingProgress(ABC):
    """A progress that is also called between task ends: `tick` may come from another thread."""

    @abstractmethod
    def tick(self, present: RunningProgress) -> None:
        """Receive the current progress, including what running tasks have read."""


class DetailedProgress(TickingProgress):
    """A progress that also receives routes, arrays and failures; several runs may share one.

    What one of several runs reports with `start` and `expect` is not the whole; use these methods instead.
    """

    @abstractmethod
    def planned(self, nbytes: int, chunks: int, arrays: int) -> None:
        """Add work to the total, or correct it; work done by earlier runs is not part of it."""

    @abstractmethod
    def moved(self, route: RouteName, moved: MoveResult) -> None:
        """Report a task that has ended."""

    @abstractmethod
    def repeated(self, requests: int) -> None:
        """Report repeated requests that belong to no task."""

    @abstractmethod
    def array_ended(self, problems: Sequence[Problem]) -> None:
        """Report an array that is published, or has failed with these problems."""

    def archive_ended(self, state: str) -> None:
        """Report an archive of a batch."""


class Ticker:
    """Refreshes a display every second, from a thread that ends with `stop`.

    Other progress objects are not refreshed. A process with threads cannot be forked safely, so create this
    after the forks.
    """

    def __init__(self, progress: object, present: Callable[[], RunningProgress] = RunningProgress) -> None:
        """`present` is called in the thread."""
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        if isinstance(progress, TickingProgress):
            self._thread = threading.Thread(
                target=self._run, args=(progress, present), name="zarrlift-progress", daemon=True
            )
            self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop the thread; may be called twice."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self, display: TickingProgress, present: Callable[[], RunningProgress]) -> None:
        while not self._ended.wait(_REFRESH_SECONDS):
            display.tick(with_silence(present()))


def with_silence(present: RunningProgress) -> RunningProgress:
    """The same with the silence of a server, if any; the time left is unknown then."""
    from ..storage.silence import longest

    silence = longest()
    return present if silence is None else replace(present, silence=silence, seconds_left=None)


@contextmanager
def listing_shown(progress: Progress | None, listed: Callable[[], int]) -> Iterator[None]:
    """Show how many objects are listed."""
    with Ticker(progress, lambda: RunningProgress(listed=listed())):
        yield
    if progress is not None:
        progress.close()
