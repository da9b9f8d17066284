"""Runs work for many archives: small ones side by side in threads, large ones one at a time."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Final, Generic, TypeVar

from ...executors.choice import ExecutorChoice, in_process, open_engine
from ...executors.engine import Engine
from ...planning.regrid.blocks import available_cores
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

    @property
    def stop(self) -> threading.Event:
        """Ends the runs of all archives at their next task."""
        assert self.options.stop is not None
        return self.options.stop


@contextmanager
def shared(options: RunOptions, *, waits: bool, alone: bool = False, runs: bool = True) -> Iterator[Shared]:
    """What archives share: the pool of threads, or the executor, which is opened once.

    `waits`: whether the work of an archive is mainly waiting for stores. `alone`: whether there is only one
    archive, which is then run as `migrate` does. Without `runs`, archives are only planned.
    """
    stop = threading.Event()
    if alone:
        alike = replace(options, stop=stop)
        yield Shared(options=alike, alone=alike, threads=1)
        return
    _load()
    if not runs:
        number = ELSEWHERE if waits else 1
        yield Shared(options=replace(options, stop=stop), alone=options, threads=number)
        return
    if in_process(options.executor):
        number = options.workers or available_cores()
        threads = max(number, ELSEWHERE) if waits else number
        if options.executor not in (None, "threads"):
            together = replace(options, stop=stop)
            yield Shared(options=together, alone=together, threads=threads)
            return
        with ThreadPoolExecutor(threads, thread_name_prefix="zarrlift") as pool:
            yield Shared(
                options=replace(options, executor=pool, stop=stop),
                alone=replace(options, stop=stop),
                threads=threads,
            )
        return
    choice: ExecutorChoice = options.executor
    workers = options.workers or (available_cores() if options.processes else None)
    engine: Engine = open_engine(choice, workers=workers, dask_address=options.dask_address)
    try:
        together = replace(options, engine=engine, stop=stop)
        yield Shared(options=together, alone=together, threads=ELSEWHERE)
    finally:
        engine.close()


def _load() -> None:
    """Load what every archive needs, before threads do: they would see a package partly initialised."""
    from ..checks import checks_process

    checks_process.drop()
    import numcodecs  # noqa: F401
    import zarr  # noqa: F401

    from ...verification import documents, sampled_chunks, sampling, zarr_python_reader  # noqa: F401


class SideBySide(Generic[T]):
    """Calls a function for each archive; the results come to the thread that iterates."""

    def __init__(self, work: Callable[[BatchRow, bool], T], stop: threading.Event, threads: int) -> None:
        """`work` gets an archive, and whether others run beside it; it may raise KeyboardInterrupt."""
        self._work = work
        self._stop = stop
        self._threads = threads

    def __call__(self, rows: Iterable[BatchRow]) -> Iterator[T]:
        """The results, as they come. If the caller ends the iteration early, the archives are stopped."""
        rows = list(rows)
        small = [row for row in rows if not row.large]
        yield from self._together(small)
        for row in rows:
            if row.large and not self._stop.is_set():
                yield self._work(row, False)

    def _together(self, rows: Sequence[BatchRow]) -> Iterator[T]:
        todo: queue.SimpleQueue[BatchRow] = queue.SimpleQueue()
        told: queue.SimpleQueue[tuple[T | None, BaseException | None]] = queue.SimpleQueue()
        for row in rows:
            todo.put(row)

        def serve() -> None:
            while not self._stop.is_set():
                try:
                    row = todo.get_nowait()
                except queue.Empty:
                    break
                try:
                    told.put((self._work(row, True), None))
                except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits
                    told.put((None, error))
                    self._stop.set()
            told.put((None, None))

        number = min(self._threads, len(rows))
        if number <= 1:
            for row in rows:
                if not self._stop.is_set():
                    yield self._work(row, True)
            return
        threads = [threading.Thread(target=serve, name=f"zarrlift-archive-{i}") for i in range(number)]
        for thread in threads:
            thread.start()
        try:
            while number:
                with suppress(queue.Empty):
                    result, error = told.get(timeout=_LOOK)
                    if error is not None:
                        raise error
                    if result is None:
                        number -= 1
                    else:
                        yield result
        finally:
            if number:
                self._stop.set()
            for thread in threads:
                thread.join()
