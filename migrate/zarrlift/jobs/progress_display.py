"""Shows the progress of a running migration: a bar on a terminal, otherwise one line per minute."""

from __future__ import annotations

import logging
import math
import os
import shutil
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, TextIO

from ..core.units import bytes_text, count_text, is_terminal, pace_texts, share_text
from ..recipe.options import Watching
from ..transfer.events import ArrayDone, Ended, Event, Listed, Planned, TaskDone, Waiting
from . import log_messages
from .progress import Progress, ProgressChoice, Ticker

if TYPE_CHECKING:
    from tqdm import tqdm

    from zarrstack.core.json_text import JSONObject

_RECORD_SECONDS: Final = 60.0


class LogProgress:
    """Shows the events of a run as one record per minute in the log; see `log_messages.progress_log`."""

    unit = "chunks"
    """What is counted besides bytes."""

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        """`stream` is standard error by default."""
        self.stream = sys.stderr if stream is None else stream
        self.clock = clock
        self.lock = threading.RLock()
        self.chunks = self.bytes = 0
        self.total_chunks: int | None = None
        self.total_bytes: int | None = None
        self._reached = (0, 0)
        self._mark = (math.inf, 0)
        """Since when the rate is measured, and the bytes then."""
        self._last_record = math.inf
        self.unanswered = ""
        """Says that a server does not answer; "" if it does."""

    def __call__(self, event: Event) -> None:
        """Show an event."""
        with self.lock:
            match event:
                case Planned() if event.archives or self.unit != "archives":
                    self._start(event)
                case TaskDone():
                    self._add(
                        0 if self.unit == "archives" else event.chunks, event.bytes_in, event.more_bytes
                    )
                case ArrayDone():
                    self._add(0, 0, event.more_bytes)
                case Listed() | Waiting():
                    self._tick(event)
                case Ended(archive=None):
                    self.close()
                    self.unit = "chunks"
                case Ended():
                    self._add(1, 0, 0)

    def _start(self, plan: Planned) -> None:
        """Begin where earlier runs have ended, again if it had begun; the rate is that of the rest."""
        self.close()
        self.unit = "archives" if plan.archives else "chunks" if plan.chunks is None else "objects"
        self.total_bytes, self.total_chunks = plan.bytes, plan.archives or plan.chunks
        self.chunks, self.bytes = plan.chunks_done, plan.bytes_done
        self._reached = (self.chunks, self.bytes)
        self._last_record = self.clock()
        self._mark = (self._last_record, self.bytes)
        self.begin()

    def _add(self, chunks: int, nbytes: int, more_bytes: int) -> None:
        """Add what was done, and correct the total, which for archives is that of the whole batch."""
        self.chunks += chunks
        self.bytes += nbytes
        if self.total_bytes is not None and self.unit != "archives":
            self.total_bytes += more_bytes
        self.draw(*self.reached(), now=False)

    def _tick(self, event: Listed | Waiting) -> None:
        """Show what is under way."""
        before, self.unanswered = self.unanswered, str(event.unanswered or "")
        if isinstance(event, Listed):
            self._last_record = min(self._last_record, self.clock())
            self.draw_listed(event.objects)
        else:
            if event.total_bytes is not None:
                self.total_bytes = event.total_bytes
            self.draw(*self.reached(event.chunks, event.bytes), now=True)
        changed = bool(before) != bool(self.unanswered)
        if changed or self.clock() - self._last_record >= _RECORD_SECONDS:
            self._last_record = self.clock()
            text = self._record()
            began, nbytes = self._mark
            if self._last_record - began >= _RECORD_SECONDS and self._reached[1] > nbytes:
                self._mark = (self._last_record, self._reached[1])
            if isinstance(event, Listed):
                listed = f"{count_text(event.objects)} objects listed"
                text = ", ".join(filter(None, (listed, self.unanswered)))
            log_messages.progress_log.info(text, extra={"event": "progress"})

    def reached(self, chunks: int = 0, nbytes: int = 0) -> tuple[int, int]:
        """(chunks, bytes) done; never decreases, though an ended task may be counted late."""
        self._reached = (
            max(self._reached[0], self.chunks + chunks),
            max(self._reached[1], self.bytes + nbytes),
        )
        return self._reached

    def _record(self) -> str:
        """Work done, rate and time left in one line."""
        chunks, nbytes = self._reached
        of = "" if self.total_chunks is None else f" of {count_text(max(self.total_chunks, chunks))}"
        read = f", {bytes_text(nbytes)} read" if self.unit == "archives" else ""
        parts = [f"{count_text(chunks)}{of} {self.unit}{read}"]
        if self.total_bytes is not None:
            total = max(self.total_bytes, nbytes)
            parts.insert(0, share_text(nbytes, total))
            seconds, here = self.clock() - self._mark[0], nbytes - self._mark[1]
            if self.unanswered:
                parts.append(self.unanswered)
            elif here and seconds > 0:
                parts += pace_texts(here / seconds, (total - nbytes) * seconds / here)
        return ", ".join(parts)

    def note(self, text: str) -> None:
        """Print one line at once."""
        with suppress(OSError, ValueError):
            print(text, file=self.stream, flush=True)

    def begin(self) -> None:
        """Show the start of work, at the progress reached."""

    def draw(self, chunks: int, nbytes: int, *, now: bool) -> None:
        """Show the progress reached, at once if `now`."""

    def draw_listed(self, objects: int) -> None:
        """Show the number of objects that a listing has found, before the work starts."""

    def close(self) -> None:
        """Remove the display; may be called twice."""


class ProgressBar(LogProgress):
    """A tqdm bar of bytes with the number of objects; of objects alone if bytes are unknown."""

    _bar: tqdm[Any] | None = None

    @contextmanager
    def _drawing(self) -> Iterator[None]:
        """Give the bar up if its terminal disappears."""
        try:
            yield
        except (OSError, ValueError):
            self._bar = None

    def begin(self) -> None:
        """Draw the bar."""
        by_bytes = self.total_bytes is not None
        bar, self._bar = self._bar, None
        with self._drawing():
            if bar is not None:
                bar.close()
            self._bar = bar_type()(
                total=self.total_bytes if by_bytes else self.total_chunks,
                initial=self.bytes if by_bytes else self.chunks,
                file=self.stream,
                unit="B" if by_bytes else f" {self.unit}",
                unit_scale=by_bytes,
                leave=False,
                **_shape(self.stream),
            )

    def draw(self, chunks: int, nbytes: int, *, now: bool) -> None:
        """Move the bar."""
        bar = self._bar
        if bar is None:
            return
        reached, total = (
            (chunks, self.total_chunks) if self.total_bytes is None else (nbytes, self.total_bytes)
        )
        with self._drawing():
            bar.total = None if total is None else max(total, reached)
            of = "" if self.total_chunks is None else f"/{max(self.total_chunks, chunks):,}"
            count, by_count = f"{chunks:,}{of} {self.unit}", self.total_bytes is None
            bar.set_postfix_str(f"{bytes_text(nbytes)} read" if by_count else count, refresh=False)
            count = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}<-]"
            bar.bar_format = f"{count} {self.unanswered}" if self.unanswered else None
            bar.update(reached - bar.n)
            if now:
                bar.refresh()

    def draw_listed(self, objects: int) -> None:
        """Show a number without a total."""
        with self._drawing():
            if self._bar is None:
                self._bar = bar_type()(file=self.stream, unit_scale=True, leave=False, **_shape(self.stream))
            self._bar.bar_format = f"{{n_fmt}} objects listed [{{elapsed}}] {self.unanswered}"
            self._bar.n = objects
            self._bar.refresh()

    def note(self, text: str) -> None:
        """Print a line above the bar."""
        with self.lock, self._drawing():
            if self._bar is not None:
                self._bar.clear()
            print(text, file=self.stream, flush=True)
            if self._bar is not None:
                self._bar.refresh()

    def close(self) -> None:
        """Remove the bar; the report that follows contains the result."""
        with self.lock:
            bar, self._bar = self._bar, None
            if bar is not None:
                try:
                    bar.close()
                except (OSError, ValueError):
                    bar.disable = True


def progress_for(stream: TextIO | None = None, *, quiet: bool = False) -> LogProgress | None:
    """A bar on a terminal, lines elsewhere; None if `quiet`."""
    stream = sys.stderr if stream is None else stream
    if quiet or stream is None:
        return None
    return ProgressBar(stream) if is_terminal(stream) else LogProgress(stream)


def in_notebook() -> bool:
    """Whether this is the kernel of a notebook; imports nothing."""
    ipython = sys.modules.get("IPython")
    shell = getattr(ipython, "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


def chosen_progress(choice: ProgressChoice) -> Progress | None:
    """Who gets the events; None for nobody."""
    if choice is None:
        choice = in_notebook()
    if not isinstance(choice, bool):
        return choice
    if not choice:
        return None
    return ProgressBar() if in_notebook() else progress_for()


@contextmanager
def display_of(progress: ProgressChoice) -> Iterator[Progress | None]:
    """The display that is asked for; one made here is closed."""
    display = chosen_progress(progress)
    try:
        yield display
    finally:
        if isinstance(display, LogProgress) and display is not progress:
            display.close()


@contextmanager
def ticking(progress: ProgressChoice) -> Iterator[Progress | None]:
    """The display that is asked for, refreshed every second, for what is not a job."""
    with display_of(progress) as display, Ticker(display):
        yield display


@contextmanager
def observed(
    progress: ProgressChoice, source: str, destination: str, watching: Watching
) -> Iterator[Progress | None]:
    """The display that is asked for, and the log of `watching` if it has one.

    UsageError if the log cannot be written. Nothing is loaded for what is not requested.
    """
    with ExitStack() as stack:
        if watching.log is not None:
            stack.enter_context(log_messages.logged(watching.log, f"{source} -> {destination}"))
        yield stack.enter_context(display_of(progress))


@contextmanager
def watched(
    *, quiet: bool, verbose: bool, logged_problems: list[JSONObject] | None = None
) -> Iterator[LogProgress | None]:
    """The progress of a command, with the log on standard error.

    Standard error gets failures and, if it is not a terminal, one line per minute; with `verbose` everything,
    and nothing if `quiet`. A terminal has the bar and the report instead. The failures that standard error
    got are added to `logged_problems`, so that the report need not repeat them.
    """
    progress = progress_for(quiet=quiet)
    handlers: list[logging.Handler] = []
    if progress is not None and (verbose or not isinstance(progress, ProgressBar)):
        problems = [] if logged_problems is None else logged_problems
        with_progress = not isinstance(progress, ProgressBar)
        handlers.append(
            log_messages.StreamLog(progress.note, problems, with_progress=with_progress, everything=verbose)
        )
    # A record of each of thousands of arrays takes time even where no handler wants it.
    with log_messages.attached(handlers, logging.INFO if verbose else logging.WARNING):
        try:
            yield progress
        except KeyboardInterrupt:
            log_messages.log.info("interrupted")
            raise
        except Exception as error:
            log_messages.log.info("ended by an error: %s", error)
            raise
        finally:
            if progress is not None:
                progress.close()


def _shape(stream: TextIO) -> dict[str, Any]:
    """How wide a bar is: as the terminal, also after a resize.

    A terminal that does not know its size reports 0 columns (a container without one, a serial line), where
    tqdm shows no bar; it is taken to have COLUMNS, or 80.
    """
    with suppress(OSError, ValueError):
        if os.get_terminal_size(stream.fileno()).columns == 0:
            columns, lines = shutil.get_terminal_size()
            return {"ncols": columns, "nrows": lines}
    return {"dynamic_ncols": True}


class _NoLock:
    """In place of a lock."""

    def acquire(self, *_: object, **__: object) -> bool:
        return True

    def release(self) -> None: ...

    def __enter__(self) -> bool:
        return True

    def __exit__(self, *_: object) -> None: ...


def bar_type() -> type[tqdm[Any]]:
    """The tqdm bar, in a notebook that of widgets, without a lock and without the monitor thread.

    By default, tqdm creates a multiprocessing lock (tqdm 4.70 `TqdmDefaultWriteLock`), which costs an import
    and a semaphore; only one thread at a time draws this bar. Any lock of tqdm's stays taken if a line cannot
    be written, and the garbage collector, in whatever thread it runs, waits for it to close the bar.
    """
    base: Any
    if in_notebook():
        from tqdm.std import TqdmWarning

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TqdmWarning)  # without ipywidgets, the bar is text
            from tqdm.auto import tqdm as base
        base = _removed_when_closed(base)
    else:
        from tqdm import tqdm as base

    class Plain(base):  # type: ignore[misc]
        monitor_interval = 0
        _lock = _NoLock()
        # "Never shown", for a bar whose first line fails: tqdm before 4.70 needs these and has not set them.
        start_t, last_print_t = time.time(), -1.0

    return Plain


def _removed_when_closed(base: Any) -> Any:
    """A bar that leaves no output in the notebook; text needs nothing for this.

    A closed widget of tqdm stays in the notebook's file, and shows "Error displaying widget" when the
    notebook is opened again (JupyterLab 4.6.6, tqdm 4.70.1).
    """
    from tqdm.notebook import tqdm_notebook

    if not issubclass(base, tqdm_notebook):
        return base
    display: Any = sys.modules["IPython"].display.display

    class Removed(base):  # type: ignore[misc]
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, display=False, **options)
            self._output = display(self.container, display_id=True)

        def close(self) -> None:
            visible = not self.disable
            super().close()
            if visible:
                self._output.update({"text/plain": ""}, raw=True)

    return Removed
