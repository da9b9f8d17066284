"""Runs work for many archives: large ones one at a time with all workers, small ones side by side."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from ...planning.regrid.blocks import available_cores
from ...transfer.executors.choice import in_process, open_engine
from ..processes.executors import RunOptions
from .rows import BatchRow

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
    stop: threading.Event
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
    stop = threading.Event()
    own = replace(options, stop=stop)
    if alone:
        yield Shared(options=own, alone=own, threads=1, stop=stop)
        return
    _load()
    if not runs:
        yield Shared(options=own, alone=own, threads=ELSEWHERE if waits else 1, stop=stop)
    elif in_process(options.executor):
        number = options.workers or available_cores()
        threads = max(number, ELSEWHERE) if waits else number
        if options.executor in (None, "threads"):
            with ThreadPoolExecutor(threads, "zarrlift") as pool:
                together = replace(own, executor=pool)
                yield Shared(options=together, alone=own, threads=threads, stop=stop)
        else:
            yield Shared(options=own, alone=own, threads=threads, stop=stop)
    else:
        workers = options.workers or (available_cores() if options.processes else None)
        engine = open_engine(options.executor, workers=workers, dask_address=options.dask_address)
        try:
            together = replace(own, engine=engine)
            yield Shared(options=together, alone=together, threads=ELSEWHERE, stop=stop)
        finally:
            engine.close()


def _load() -> None:
    """Load what every archive needs, before threads do: they would see a package partly initialised."""
    from ..checks import checks_process

    checks_process.drop()
    import numcodecs  # noqa: F401
    import zarr  # noqa: F401

    from ...verification import before_publishing, documents, sampling, zarr_python_reader  # noqa: F401
