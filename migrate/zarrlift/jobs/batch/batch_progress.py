"""One display for all archives of a batch: their bytes, and how many archives have ended."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext

from ...transfer.events import Ended, Event, Planned
from ..progress import Progress, Ticker, Unticked
from .rows import BatchRow


class BatchProgress:
    """Passes on the events of archives that run side by side; archives are counted, not chunks."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._lock = threading.Lock()

    @contextmanager
    def of(self, rows: Sequence[BatchRow]) -> Iterator[None]:
        """Show the progress of some archives."""
        known = sum(row.bytes_in for row in rows if row.state == "pending")
        self._send(Planned(bytes=known or None, chunks=None, archives=len(rows)))
        try:
            # A run of one archive refreshes the display itself, after it has forked.
            with Ticker(self._progress) if len(rows) > 1 else nullcontext():
                yield
        finally:
            self._send(Ended())

    def archive(self) -> Progress | None:
        """What gets the events of one archive."""
        return None if self._progress is None else Unticked(self._of_archive)

    def ended(self, state: str) -> None:
        """Count an archive."""
        self._send(Ended(archive=state))

    def _of_archive(self, event: Event) -> None:
        """Pass on what adds to the whole; the end of an archive is that of its row."""
        if not isinstance(event, Ended):
            self._send(event)

    def _send(self, event: Event) -> None:
        """From any thread."""
        if self._progress is not None:
            with self._lock:
                self._progress(event)
