"""Works on the archives of a batch, each by the engine of one archive, with one display for all.

Small ones are run side by side, then large ones one at a time with all workers. Whether an archive is large
shows when it is planned; its place is given back then.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import Final, TypeAlias

from zarrstack.core.errors import Problem, ZarrstackError

from ...core.problems import any_refusal
from ...planning.blocks import available_cores
from ...recipe.options import Places
from ...storage.giving_up import Stop
from ...storage.open_storage import is_url
from ...transfer.events import Ended, Event, Planned
from ...transfer.executors.engine import in_process, open_engine
from ...transfer.unexpected_errors import unexpected_error
from .. import log_messages
from ..executors import RunOptions
from ..progress import Progress, Ticker, Unticked
from .acts import Act, ArchiveCall, LargeArchive
from .rows import ArchiveState, BatchRow
from .state import COMPLETE, remove_reason, state, write_reason

Results: TypeAlias = Generator[tuple[BatchRow, bool], None, None]
"""What became of each archive, as they end, and whether this process did it."""
_REFUSED: Final = ("usage", "metadata", "unsupported")
"""Kinds of errors that say that an archive cannot be migrated, if nothing of it was begun."""
ELSEWHERE: Final = 8
"""Archives side by side if each waits for stores or for workers elsewhere."""
_LOOK: Final = 1.0
"""Seconds after which Ctrl-C is noticed on systems where it does not end waiting."""


class BatchRun:
    """One run of a batch: what is done with each archive, and what all of them share.

    The events of archives that run side by side are passed on; archives are counted, not chunks.
    """

    def __init__(self, options: RunOptions, places: Places, progress: Progress | None, act: Act) -> None:
        self._stop = Stop()
        """Ends the runs of all archives at their next task."""
        self._alone = self._together = replace(options, stop=self._stop)
        """For one archive at a time, and for archives side by side."""
        self._beside = 1
        """Archives side by side."""
        self._places = places
        self._act = act
        self._progress = progress
        self._lock = threading.Lock()

    def __call__(self, rows: Sequence[BatchRow]) -> Results:
        """Work on archives. If the caller ends the iteration early, they are stopped."""
        with ExitStack() as stack:
            if len(rows) > 1:  # one is run as `migrate` does
                _load()
                self._share(stack, waits=any(is_url(row.source) or is_url(row.destination) for row in rows))
            self._send(Planned(bytes=None, chunks=None, archives=len(rows)))
            stack.callback(self._send, Ended())
            # A run of one archive refreshes the display itself, after it has forked.
            stack.enter_context(Ticker(self._progress) if len(rows) > 1 else nullcontext())
            results = stack.enter_context(closing(self._results(rows)))
            for row, ran in results:
                self._send(Ended(archive=row.state))
                yield row, ran

    def _share(self, stack: ExitStack, *, waits: bool) -> None:
        """Open the pool of threads, or the executor, once for all archives."""
        options = self._alone
        if in_process(options.executor):
            number = options.workers or available_cores()
            self._beside = max(number, ELSEWHERE if waits else 1)
            if options.executor in (None, "threads"):
                pool = stack.enter_context(ThreadPoolExecutor(self._beside, "zarrlift"))
                self._together = replace(options, executor=pool)
            return
        workers = options.workers or (available_cores() if options.processes else None)
        engine = open_engine(options.executor, workers=workers)
        stack.callback(engine.close)
        self._alone = self._together = replace(options, engine=engine)
        self._beside = ELSEWHERE

    def _results(self, rows: Sequence[BatchRow]) -> Results:
        """The results of small archives, then of large ones."""
        small = [row for row in rows if not row.large]
        large = [row for row in rows if row.large]
        if self._beside > 1 and len(small) > 1:
            yield from self._side_by_side(small, large)
        else:
            large = [*small, *large]
        for row in large:
            if not self._stop.is_set():
                yield self._archive(row, self._alone, 1)

    def _side_by_side(self, rows: list[BatchRow], large: list[BatchRow]) -> Results:
        """The results of archives; those that turn out to be large are added to `large`."""
        ended: queue.SimpleQueue[tuple[BatchRow, Future[tuple[BatchRow, bool]]]] = queue.SimpleQueue()
        with ThreadPoolExecutor(min(self._beside, len(rows)), "zarrlift-archive") as pool:
            left = len(rows)
            try:
                for row in rows:
                    future = pool.submit(self._archive, row, self._together, self._beside)
                    future.add_done_callback(partial(lambda row, future: ended.put((row, future)), row))
                while left and not self._stop.is_set():
                    with suppress(queue.Empty):
                        row, future = ended.get(timeout=_LOOK)
                        left -= 1
                        try:
                            result = future.result()
                        except LargeArchive:
                            large.append(row)
                        else:
                            yield result
            finally:
                if left:
                    self._stop.set()
                    pool.shutdown(cancel_futures=True)

    def _send(self, event: Event) -> None:
        """From any thread."""
        if self._progress is not None:
            with self._lock:
                self._progress(event)

    def _of_archive(self, event: Event) -> None:
        """Pass on what adds to the whole; the end of an archive is that of its row."""
        if not isinstance(event, Ended):
            self._send(event)

    def _archive(self, row: BatchRow, options: RunOptions, beside: int) -> tuple[BatchRow, bool]:
        """Work on one archive. Runs in any thread."""
        started = time.monotonic()
        problems: tuple[Problem, ...] | None
        named = log_messages.archive.set(row.source)
        progress = None if self._progress is None else Unticked(self._of_archive)
        call = ArchiveCall(row=row, options=options, places=self._places, progress=progress, beside=beside)
        try:
            problems = self._act(call)
        except LargeArchive:
            raise
        except ZarrstackError as error:
            problems = (error.problem,)
        except Exception as error:  # noqa: BLE001 - see `unexpected_error`
            problems = (unexpected_error("", error),)
        finally:
            log_messages.archive.reset(named)
        if problems is None:
            now = state(row)
            return replace(now, problems=(), running=now.state not in COMPLETE), False
        if row.begun():
            remove_reason(row)
            return _with_problems(state(row), problems), True
        refused: ArchiveState = "refused" if problems and problems[0].kind in _REFUSED else "failed"
        seconds = time.monotonic() - started
        now = replace(
            row, state=refused if problems else "pending", problems=problems, running=False, seconds=seconds
        )
        if problems:
            write_reason(now)
        return now, True


def _with_problems(row: BatchRow, problems: tuple[Problem, ...]) -> BatchRow:
    """An archive after a call that had these problems, which its job may not have."""
    others = any_refusal(problem for problem in problems if problem not in row.problems)
    now = "failed" if row.state == "incomplete" and others else row.state
    return replace(row, state=now, problems=tuple(dict.fromkeys(problems)))


def _load() -> None:
    """Load what every archive needs, before threads do: they would see a package partly initialised."""
    from ..checks import drop_process

    drop_process()
    import numcodecs  # noqa: F401
    import zarr  # noqa: F401

    from ...verification import before_publishing, documents, sampling, zarr_python_reader  # noqa: F401
