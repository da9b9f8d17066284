"""Works on the archives of a batch, each by the engine of one archive, with one display for all.

Large ones are run one at a time with all workers, small ones side by side.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeAlias, TypeVar

from zarrstack.core.errors import Problem, ZarrstackError

from ...core.problems import any_refusal
from ...planning.regrid.blocks import available_cores
from ...recipe.options import Places, values
from ...storage.giving_up import Stop
from ...storage.open_storage import is_url
from ...transfer.events import Ended, Event, Planned
from ...transfer.executors.choice import in_process, open_engine
from ...transfer.unexpected_errors import unexpected_error
from .. import log_messages
from ..archive_run import ArchiveRequest
from ..executors import RunOptions
from ..progress import Progress, Ticker, Unticked
from .rows import COMPLETE, ArchiveState, BatchRow, RowRequest, of_job

_REFUSED = ("usage", "metadata", "unsupported")
"""Kinds of errors that say that an archive cannot be migrated, if nothing of it was begun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveCall:
    """One archive, and what it is worked on with."""

    row: BatchRow
    options: RunOptions
    places: Places
    progress: Progress | None

    @property
    def job(self) -> Path:
        """Where its job file is, or will be."""
        return Path(self.row.job)


def archive_request(row: BatchRow, places: Places) -> ArchiveRequest:
    """What is asked for an archive; each place gets the options that are for places like it."""
    return ArchiveRequest(
        source=row.source,
        destination=None if row.in_place else row.destination,
        **values(row.request, RowRequest),
        storage_options=places.storage_options if is_url(row.source) else None,
        dest_storage_options=places.dest_storage_options if is_url(row.destination) else None,
    )


Act: TypeAlias = Callable[[ArchiveCall], tuple[Problem, ...] | None]
"""What is done with each archive, in any thread; returns its problems, or raises one.

None if another process does it.
"""


class BatchRun:
    """One run of a batch.

    The events of archives that run side by side are passed on; archives are counted, not chunks.
    """

    def __init__(self, options: RunOptions, places: Places, progress: Progress | None, act: Act) -> None:
        self._options = options
        self._places = places
        self._act = act
        self._progress = progress
        self._lock = threading.Lock()

    def __call__(self, rows: Iterable[BatchRow]) -> Generator[tuple[BatchRow, bool], None, None]:
        """Work on archives, the largest first: what became of each, and whether this process did it."""
        todo = sorted(rows, key=lambda row: (-row.bytes_in, row.number))
        total = sum(row.bytes_in for row in todo if row.state == "pending")
        with shared(self._options, waits=any(map(waits, todo)), alone=len(todo) == 1) as common:
            self._send(Planned(bytes=total or None, chunks=None, archives=len(todo)))
            try:
                # A run of one archive refreshes the display itself, after it has forked.
                with Ticker(self._progress) if len(todo) > 1 else nullcontext():
                    for row, ran in common.each(self._archive, todo):
                        self._send(Ended(archive=row.state))
                        yield row, ran
            finally:
                self._send(Ended())

    def _send(self, event: Event) -> None:
        """From any thread."""
        if self._progress is not None:
            with self._lock:
                self._progress(event)

    def _of_archive(self, event: Event) -> None:
        """Pass on what adds to the whole; the end of an archive is that of its row."""
        if not isinstance(event, Ended):
            self._send(event)

    def _archive(self, row: BatchRow, options: RunOptions) -> tuple[BatchRow, bool]:
        """Work on one archive. Runs in any thread."""
        started = time.monotonic()
        problems: tuple[Problem, ...] | None
        named = log_messages.archive.set(row.source)
        progress = None if self._progress is None else Unticked(self._of_archive)
        call = ArchiveCall(row=row, options=options, places=self._places, progress=progress)
        try:
            problems = self._act(call)
        except ZarrstackError as error:
            problems = (error.problem,)
        except Exception as error:  # noqa: BLE001 - see `unexpected_error`
            problems = (unexpected_error("", error),)
        finally:
            log_messages.archive.reset(named)
        if problems is None:
            now = of_job(row) if row.begun() else replace(row, state="pending")
            return replace(now, problems=(), running=now.state not in COMPLETE), False
        if row.begun():
            return _with_problems(of_job(row), problems), True
        state = _without_job(row, problems)
        return replace(row, state=state, problems=problems, seconds=time.monotonic() - started), True


def _with_problems(row: BatchRow, problems: tuple[Problem, ...]) -> BatchRow:
    """An archive after a call that had these problems, which its job may not have."""
    others = any_refusal(problem for problem in problems if problem not in row.problems)
    state = "failed" if row.state == "incomplete" and others else row.state
    return replace(row, state=state, problems=tuple(dict.fromkeys(problems)))


def _without_job(row: BatchRow, problems: tuple[Problem, ...]) -> ArchiveState:
    """The state of an archive of which nothing was begun."""
    if not problems:
        return "pending" if row.state == "pending" else "undone"
    return "refused" if problems[0].kind in _REFUSED else "failed"


def waits(row: BatchRow) -> bool:
    """Whether most of the time of an archive is waiting for a store."""
    return is_url(row.source) or is_url(row.destination)


T = TypeVar("T")

ELSEWHERE: Final = 8
"""Archives side by side if each waits for stores or for workers elsewhere."""
_LOOK: Final = 1.0
"""Seconds after which Ctrl-C is noticed on systems where it does not end waiting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """What the archives of a batch share."""

    options: RunOptions
    """For archives side by side."""
    alone: RunOptions
    """For one archive at a time."""
    threads: int
    """Archives side by side."""
    stop: Stop
    """Ends the runs of all archives at their next task."""

    def each(self, work: Callable[[BatchRow, RunOptions], T], rows: Iterable[BatchRow]) -> Iterator[T]:
        """Call `work` for each archive; the results as they come, in the thread that iterates.

        If the caller ends the iteration early, or `work` raises, the archives are stopped.
        """
        rows = list(rows)
        small = [row for row in rows if not row.large]
        for row in rows:
            if row.large and not self.stop.is_set():
                yield work(row, self.alone)
        if self.threads <= 1 or len(small) <= 1:
            for row in small:
                if not self.stop.is_set():
                    yield work(row, self.options)
            return
        ended: queue.SimpleQueue[Future[T]] = queue.SimpleQueue()
        with ThreadPoolExecutor(min(self.threads, len(small)), "zarrlift-archive") as pool:
            left = len(small)
            try:
                for row in small:
                    pool.submit(work, row, self.options).add_done_callback(ended.put)
                while left and not self.stop.is_set():
                    with suppress(queue.Empty):
                        future = ended.get(timeout=_LOOK)
                        left -= 1
                        yield future.result()
            finally:
                if left:
                    self.stop.set()
                    pool.shutdown(cancel_futures=True)


@contextmanager
def shared(options: RunOptions, *, waits: bool, alone: bool = False, runs: bool = True) -> Iterator[Shared]:
    """What archives share: the pool of threads, or the executor, which is opened once.

    `waits`: whether the work of an archive is mainly waiting for stores. `alone`: whether there is only one
    archive, which is then run as `migrate` does. Without `runs`, archives are only planned.
    """
    stop = Stop()
    own = together = replace(options, stop=stop)
    threads = ELSEWHERE if waits and not alone else 1
    with ExitStack() as stack:
        if not alone:
            _load()
        if runs and not alone and in_process(options.executor):
            number = options.workers or available_cores()
            threads = max(number, threads)
            if options.executor in (None, "threads"):
                pool = stack.enter_context(ThreadPoolExecutor(threads, "zarrlift"))
                together = replace(own, executor=pool)
        elif runs and not alone:
            workers = options.workers or (available_cores() if options.processes else None)
            engine = open_engine(options.executor, workers=workers)
            stack.callback(engine.close)
            own = together = replace(own, engine=engine)
            threads = ELSEWHERE
        yield Shared(options=together, alone=own, threads=threads, stop=stop)


def _load() -> None:
    """Load what every archive needs, before threads do: they would see a package partly initialised."""
    from ..checks import drop_process

    drop_process()
    import numcodecs  # noqa: F401
    import zarr  # noqa: F401

    from ...verification import before_publishing, documents, sampling, zarr_python_reader  # noqa: F401
