"""Selects what runs the tasks of a job: threads, processes, or an executor given by the caller."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from zarrstack.core.errors import JobError, WorkerError, ZarrstackError

from ...planning.plans import ArrayPlan
from ...planning.regrid.blocks import available_cores, workers_within
from ...recipe.options import VerifyLevel
from ...transfer.counts import MoveResult
from ...transfer.tasks import Task
from ...transfer.worker import Worker, WorkerSpec, end_with_coordinator, move, sent

_SMALL: Final = 32 << 10
"""Mean chunk size below which one thread is faster than two: file operations dominate."""
_FOR_STORES: Final = 8
_FOR_PROCESSES: Final = 4
"""Number of workers, as threads or processes, if requests have latency: each task ends by waiting for its
last requests while others continue. Memory may allow fewer.
"""
_WORTH_A_FORK: Final = 2000
"""Number of small chunks that take several times as long as a fork (some milliseconds)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How to run a job, as opposed to what it does."""

    workers: int | None = None
    """None selects by the machine and the chunk size."""
    processes: bool = False
    verify: VerifyLevel = "sample"
    fsync: bool = False
    hard_links: bool = False
    digest: bool = False
    """Whether a digest of the values of each array is stored in the job."""
    executor: Executor | None = None
    """Any executor whose workers can reach both ends, such as Dask's; None creates one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskExecutor:
    """An executor and the way to submit tasks to it."""

    workers: int
    submit: Callable[[Task], Future[MoveResult]]
    elsewhere: bool = False
    """Whether tasks run in other processes, by `move`."""
    own: Executor | None = None
    """The executor, if it was created for this run."""
    in_threads: bool = True
    """Whether workers may be threads of this process."""
    under_way: Callable[[], dict[str, tuple[int, int]]] = dict
    """(chunks, bytes) read by running tasks, by array; known for threads only."""

    def result(self, future: Future[MoveResult]) -> MoveResult:
        """The result of a task; WorkerError if it was lost with the worker."""
        try:
            return future.result()
        except (ZarrstackError, BrokenExecutor):
            raise
        except Exception as error:
            if self.elsewhere:
                raise _lost(error) from error
            raise

    def stop(self, running: Iterable[Future[MoveResult]]) -> None:
        """Cancel tasks that have not started; wait for the others if the executor is our own."""
        if self.own is not None:
            self.own.shutdown(wait=True, cancel_futures=True)
            return
        for future in running:
            with contextlib.suppress(Exception):  # the executor no longer exists
                future.cancel()


def workers_for(arrays: Sequence[ArrayPlan], options: RunOptions, budget: int, *, local: bool) -> int:
    """The number of workers: as requested or else a suitable number, limited by memory."""
    workers = options.workers or _good_number(arrays, options, local=local)
    needed = max((array.memory or 0 for array in arrays), default=0)
    return min(workers, workers_within(budget, needed, processes=options.processes)) if needed else workers


def _good_number(arrays: Sequence[ArrayPlan], options: RunOptions, *, local: bool) -> int:
    if not local:
        return max(_FOR_PROCESSES if options.processes else _FOR_STORES, available_cores())
    return 1 if _tiny(arrays) and not options.processes else available_cores()


def _tiny(arrays: Sequence[ArrayPlan]) -> bool:
    chunks = sum(array.chunks for array in arrays)
    return sum(array.bytes_in for array in arrays) < _SMALL * max(chunks, 1)


def forks_for(arrays: Sequence[ArrayPlan], options: RunOptions, budget: int, *, local: bool) -> int:
    """The number of forked processes to run the tasks; 0 if a fork is unsafe or saves no time."""
    if not local or options.executor is not None or options.processes or not _tiny(arrays):
        return 0
    workers = available_cores() if options.workers is None else options.workers
    needed = max((array.memory or 0 for array in arrays), default=0)
    if needed:
        workers = min(workers, workers_within(budget, needed, processes=True))
    if workers < 2 or sum(array.chunks for array in arrays) < _WORTH_A_FORK:
        return 0
    from .forked_process import may_fork

    return workers if may_fork() else 0


def executing(
    options: RunOptions, worker: Worker, spec: WorkerSpec | None, workers: int, *, forks: bool = False
) -> TaskExecutor:
    """The executor for the options; JobError if processes cannot reach both ends.

    `forks`: use copies of this process, as recommended by `forks_for`.
    """
    if isinstance(options.executor, ThreadPoolExecutor):
        mine = options.executor
        return TaskExecutor(
            workers=workers, submit=lambda task: mine.submit(worker.run, task), under_way=worker.under_way
        )
    if options.executor is not None or options.processes:
        if spec is None:
            raise out_of_reach()
        if options.executor is not None:
            given = options.executor
            return TaskExecutor(
                workers=workers, submit=lambda task: _submit(given, spec, task), elsewhere=True
            )
        from concurrent.futures import ProcessPoolExecutor
        from multiprocessing import get_context

        pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=end_with_coordinator)
        return TaskExecutor(
            workers=workers, submit=lambda task: _submit_quietly(pool, spec, task), elsewhere=True, own=pool
        )
    copies = _copies(worker, workers) if forks else None
    if copies is not None:
        return TaskExecutor(
            workers=workers,
            submit=lambda task: copies.submit(worker.run, task),
            own=copies,
            in_threads=False,
        )
    threads = ThreadPoolExecutor(workers, thread_name_prefix="zarrlift")
    return TaskExecutor(
        workers=workers,
        submit=lambda task: threads.submit(worker.run, task),
        own=threads,
        under_way=worker.under_way,
    )


def _copies(worker: Worker, workers: int) -> Executor | None:
    """Forked copies of this process; None if the system provides none, in which case threads are used."""
    from .fork_pool import ForkedPool

    try:
        return ForkedPool(worker.run, workers, initializer=worker.forked)
    except OSError:
        return None


def out_of_reach() -> JobError:
    """The error if processes are requested but one end exists only in this process."""
    return JobError(
        "other processes cannot reach a store that exists only in this one",
        advice="Use threads, or give both locations as URLs.",
    )


def _lost(error: Exception) -> WorkerError:
    """Wraps an error raised by an executor itself, such as Dask's client after the scheduler has died."""
    return WorkerError(
        "the workers can no longer be reached",
        found=f"{type(error).__name__}: {error}",
        advice="Restart them, then resume: recorded work is not repeated.",
    )


def _submit(executor: Executor, spec: WorkerSpec, task: Task) -> Future[MoveResult]:
    """Submit to an executor given by the caller; WorkerError if it accepts no tasks."""
    try:
        return executor.submit(move, *sent(spec, task))
    except BrokenExecutor:
        raise
    except Exception as error:
        raise _lost(error) from error


def _submit_quietly(pool: Executor, spec: WorkerSpec, task: Task) -> Future[MoveResult]:
    """Submit with Ctrl-C blocked: worker processes inherit the mask, and only the coordinator handles it."""
    if sys.platform == "win32":
        return pool.submit(move, *sent(spec, task))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return pool.submit(move, *sent(spec, task))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
