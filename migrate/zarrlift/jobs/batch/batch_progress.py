"""One display for all archives of a batch: their bytes, and how many archives have ended."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from ..progress import DetailedProgress, Progress, RunningProgress, Ticker
from .rows import BatchRow

if TYPE_CHECKING:
    from zarrstack.core.errors import Problem

    from ...planning.routes import RouteName
    from ...transfer.counts import MoveResult


class BatchProgress:
    """Adds up the progress of archives that run side by side; its units are archives, not chunks."""

    def __init__(self, display: Progress) -> None:
        self._display = display
        self._lock = threading.Lock()

    @contextmanager
    def of(self, rows: Sequence[BatchRow]) -> Iterator[None]:
        """Show the progress of some archives."""
        known = sum(row.bytes_in for row in rows if row.state == "pending")
        self._display.start(known or None, len(rows))
        try:
            # A run of one archive refreshes the display itself, after it has forked.
            with Ticker(self._display) if len(rows) > 1 else nullcontext():
                yield
        finally:
            self._display.close()

    def archive(self) -> Progress:
        """The progress of one archive."""
        if isinstance(self._display, DetailedProgress):
            return _DetailedArchive(self, self._display)
        return _ArchiveProgress(self)

    def ended(self, state: str) -> None:
        """Count an archive, whose state metrics have if the work on it is over."""
        if isinstance(self._display, DetailedProgress):
            self._display.archive_ended(state)
        self.add(1, 0)

    def add(self, archives: int, nbytes: int) -> None:
        """Add what was done; from any thread."""
        with self._lock:
            self._display.advance(archives, nbytes)

    def note(self, text: str) -> None:
        """Show one line; from any thread."""
        with self._lock:
            self._display.note(text)


class _ArchiveProgress:
    """Passes on what is read of an archive; its own totals are part of those of the batch."""

    def __init__(self, batch: BatchProgress) -> None:
        self._batch = batch

    def start(self, *_: object) -> None:
        """Do nothing, as in `resume_at`, `expect` and `close`."""

    resume_at = expect = close = start

    def advance(self, _chunks: int, nbytes: int) -> None:
        """Add bytes."""
        self._batch.add(0, nbytes)

    def note(self, text: str) -> None:
        """Show one line."""
        self._batch.note(text)


class _DetailedArchive(_ArchiveProgress, DetailedProgress):
    """Passes on routes, arrays and failures too."""

    def __init__(self, batch: BatchProgress, display: DetailedProgress) -> None:
        super().__init__(batch)
        self._details = display

    def tick(self, _present: RunningProgress) -> None:
        """Do nothing: the display is refreshed for all archives together."""

    def planned(self, nbytes: int, chunks: int, arrays: int) -> None:
        """Pass it on."""
        self._details.planned(nbytes, chunks, arrays)

    def moved(self, route: RouteName, moved: MoveResult) -> None:
        """Pass it on."""
        self._details.moved(route, moved)

    def repeated(self, requests: int) -> None:
        """Pass it on."""
        self._details.repeated(requests)

    def array_ended(self, problems: Sequence[Problem]) -> None:
        """Pass it on."""
        self._details.array_ended(problems)
