"""How far a migration is, while it runs: one bar on a terminal, else nothing.

A display never fails a migration: when its terminal goes away, it falls silent.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any, Protocol, TextIO

if TYPE_CHECKING:
    from tqdm import tqdm


class Progress(Protocol):
    """What a migration tells while it runs. All calls come from one thread."""

    def start(self, total_bytes: int | None, total_chunks: int | None) -> None:
        """The work ahead: stored bytes to read and chunks to move; None where it is not known."""

    def advance(self, chunks: int, nbytes: int) -> None:
        """So many more chunks are done, and so many more bytes of the source were read."""

    def note(self, text: str) -> None:
        """One line worth seeing at once, such as a retry."""

    def close(self) -> None:
        """No more will come; fine to call twice."""


class Silent:
    """Progress that nobody watches."""

    def start(self, total_bytes: int | None, total_chunks: int | None) -> None:
        """Nothing is shown."""

    def advance(self, chunks: int, nbytes: int) -> None:
        """Nothing is shown."""

    def note(self, text: str) -> None:
        """Nothing is shown."""

    def close(self) -> None:
        """Nothing is open."""


class Bar:
    """A tqdm bar of bytes, its chunks beside it; of chunks alone where bytes are not known."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._bar: tqdm[Any] | None = None
        self._by_bytes = True
        self._chunks = 0
        self._total_chunks: int | None = None

    def start(self, total_bytes: int | None, total_chunks: int | None) -> None:
        """Draw the empty bar; a second start begins anew."""
        self.close()
        self._chunks = 0
        self._total_chunks = total_chunks
        self._by_bytes = total_bytes is not None
        total = total_bytes if self._by_bytes else total_chunks
        try:
            self._bar = _bar_type()(
                total=total,
                file=self._stream,
                unit="B" if self._by_bytes else " chunks",
                unit_scale=self._by_bytes,
                dynamic_ncols=True,
                leave=False,
            )
        except (OSError, ValueError):
            self._bar = None

    def advance(self, chunks: int, nbytes: int) -> None:
        """Move the bar."""
        self._chunks += chunks
        bar = self._bar
        if bar is None:
            return
        try:
            if self._by_bytes:
                of = "" if self._total_chunks is None else f"/{self._total_chunks:,}"
                bar.set_postfix_str(f"{self._chunks:,}{of} chunks", refresh=False)
                bar.update(nbytes)
            else:
                bar.update(chunks)
        except (OSError, ValueError):
            self._bar = None

    def note(self, text: str) -> None:
        """A line above the bar."""
        try:
            if self._bar is not None:
                self._bar.clear()
            print(text, file=self._stream, flush=True)
            if self._bar is not None:
                self._bar.refresh()
        except (OSError, ValueError):
            self._bar = None

    def close(self) -> None:
        """Take the bar away; the report that follows says what was done."""
        bar, self._bar = self._bar, None
        if bar is not None:
            try:
                bar.close()
            except (OSError, ValueError):
                bar.disable = True


def progress_for(stream: TextIO | None = None, *, quiet: bool = False) -> Progress:
    """A bar where somebody can see it: on a terminal and not asked to be quiet; else silence."""
    stream = sys.stderr if stream is None else stream
    try:
        seen = stream is not None and stream.isatty()
    except ValueError:  # closed
        seen = False
    return Bar(stream) if seen and not quiet else Silent()


def _bar_type() -> type[tqdm[Any]]:
    """The bar of tqdm with a plain thread lock and without a monitor thread.

    tqdm's own lock makes a multiprocessing lock (tqdm 4.70 `TqdmDefaultWriteLock`), which
    costs an import and a semaphore; one thread draws this bar.
    """
    from tqdm import tqdm

    class Plain(tqdm):  # type: ignore[type-arg]
        monitor_interval = 0
        _lock = threading.RLock()

    return Plain
