"""Selects what runs the tasks of a job: threads, forked copies of this process, or another engine."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Self

from ..errors import JobError
from ..planning.blocks import available_cores, memory_budget, worker_budget, workers_within
from ..planning.plans import ArrayPlan, Plan
from ..recipe.options import Executing, Request, Running, VerifyLevel, values
from ..storage.bandwidth import Bandwidth
from ..storage.base import Storage
from ..storage.giving_up import Stop
from ..storage.local.storage import LocalStorage
from ..storage.unanswered import read_from
from ..transfer.executors.engine import (
    Engine,
    SharedEngine,
    check_choice,
    in_process,
    on_this_machine,
    open_engine,
)
from ..transfer.executors.process_pool import ProcessPool
from ..transfer.tasks import Task
from ..transfer.worker import Worker, WorkerSpec, give_up, move, sent
from . import process_tuning
from .checks import Checks
from .log_messages import archive

if TYPE_CHECKING:
    from ..verification.elsewhere import Elsewhere

_SMALL: Final = 32 << 10
"""Mean chunk size below which one thread is faster than two: file operations dominate."""
_FOR_STORES: Final = 8
_FOR_PROCESSES: Final = 4
"""Number of workers, as threads or processes, if requests have latency: each task ends by waiting for its
last requests while others continue. Memory may allow fewer.
"""
_WORTH_A_FORK: Final = 2000
"""Number of small chunks that take several times as long as a fork (some milliseconds)."""
_WORTH_PROCESSES: Final = 1 << 30
"""Bytes that threads move in about a second, in which time forks are made."""
_LOCKED: Final = {
    "stay": 0.0,
    "pass": 0.03,
    "relink": 0.03,
    "reframe": 0.12,
    "recode": 0.04,
    "rewrite": 0.04,
    "regrid": 0.05,
}
"""Share of a thread's time that holds the interpreter lock, by route (`benchmarks/interpreter_lock.py`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions(Running):
    """How to run a job, as opposed to what it does; UsageError if there is no such executor.

    `workers` None selects by the executor, or by the machine and the chunk size; `executor` None selects
    threads, or forked processes for tiny chunks.
    """

    verify: VerifyLevel = "sample"
    engine: Engine | None = None
    """The open engine of `executor`, if other runs use it too; None opens one for this run."""
    stop: Stop | None = None
    """Ends the run at its next task when it is set, as Ctrl-C does."""
    limit: Bandwidth | None = None
    """The limit of bytes per second; archives of a batch share it."""

    def __post_init__(self) -> None:
        check_choice(self.executor)

    @classmethod
    def of(cls, executing: Executing, request: Request = Request()) -> Self:  # noqa: B008 - frozen
        """The options that are given for a run, and those of what is requested."""
        return cls(
            **values(executing, type(executing)),
            verify=request.verify,
            limit=Bandwidth.of(executing.bwlimit),
        )

    def heeding_stop(self) -> AbstractContextManager[None]:
        """Let waits of this thread end with `stop`, by KeyboardInterrupt."""
        return nullcontext() if self.stop is None else self.stop.heeded()

    @property
    def processes(self) -> bool:
        """Whether processes of our own run the tasks."""
        return isinstance(self.executor, str) and self.executor == "processes"

    @property
    def elsewhere(self) -> bool:
        """Whether tasks run in other processes, to which they are sent."""
        return not in_process(self.executor)

    @property
    def on_other_machines(self) -> bool:
        """Whether workers may be on other machines, whose memory and processors are not those of this one."""
        return not on_this_machine(self.executor)

    def budget(self, memory: int | None) -> int:
        """Memory in bytes for the recipe's `memory`: of this machine, or of each worker elsewhere."""
        return worker_budget(memory) if self.on_other_machines else memory_budget(memory)

    def budget_of_one(self, memory: int | None, engine: Engine) -> int:
        """Memory in bytes of one worker of an engine."""
        sharing = 1 if self.on_other_machines else max(engine.slots(), 1)
        return self.budget(memory) // sharing


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskExecutor:
    """An engine, and how tasks are submitted to it."""

    engine: Engine
    call: Callable[[Task], tuple[Any, ...]]
    """The function and its arguments that run a task."""
    in_threads: bool = True
    """Whether workers may be threads of this process."""
    under_way: Callable[[], dict[str, tuple[int, int]]] = dict
    """(chunks, bytes) read by running tasks, by array; known for threads only."""
    give_up: Callable[[], None] = lambda: None
    """Ends the tasks that run, before what they make is complete."""


class _OwnPool(Engine):
    """Threads or forked processes that are made for one pass over the arrays."""

    in_process = True

    def stop(self, running: Iterable[Future[Any]]) -> None:
        """Cancel tasks that have not started, and wait for the others."""
        self.executor.shutdown(wait=True, cancel_futures=True)


def workers_for(arrays: Sequence[ArrayPlan], options: RunOptions, budget: int, *, local: bool) -> int:
    """The number of workers: as requested or else a suitable number, limited by memory."""
    workers = options.workers or _good_number(arrays, options, local=local)
    return min(workers, _fitting(arrays, options, budget) or workers)


def _fitting(arrays: Sequence[ArrayPlan], options: RunOptions, budget: int) -> int | None:
    """The number of workers of this machine that its memory allows; None if they need little."""
    needed = max((array.memory or 0 for array in arrays), default=0)
    return workers_within(budget, needed, processes=options.elsewhere) if needed else None


def _good_number(arrays: Sequence[ArrayPlan], options: RunOptions, *, local: bool) -> int:
    if not local:
        return max(_FOR_PROCESSES if options.processes else _FOR_STORES, available_cores())
    return 1 if _tiny(arrays) and not options.processes else available_cores()


def _tiny(arrays: Sequence[ArrayPlan]) -> bool:
    chunks = sum(array.chunks for array in arrays)
    return sum(array.bytes_in for array in arrays) < _SMALL * max(chunks, 1)


def forks_for(arrays: Sequence[ArrayPlan], options: RunOptions, budget: int, *, local: bool) -> int:
    """The number of forked processes to run the tasks; 0 if a fork is unsafe or saves no time.

    Threads save memory and start at once, but only one of them holds the interpreter lock.
    """
    if not local or options.executor is not None:
        return 0
    workers = available_cores() if options.workers is None else options.workers
    needed = max((array.memory or 0 for array in arrays), default=0)
    if needed:
        workers = min(workers, workers_within(budget, needed, processes=True))
    many_tiny = _tiny(arrays) and sum(array.chunks for array in arrays) >= _WORTH_A_FORK
    if workers < 2 or not (many_tiny or workers * _locked(arrays) > 1):
        return 0
    return workers if process_tuning.may_fork() else 0


def _locked(arrays: Sequence[ArrayPlan]) -> float:
    """The share of a thread's time that holds the interpreter lock, by bytes."""
    nbytes = [(array.bytes_in, _LOCKED[array.route.name]) for array in arrays if array.tasks]
    total = sum(count for count, _ in nbytes)
    # A job that is moved sooner than processes are started gains nothing.
    return sum(count * share for count, share in nbytes) / total if total >= _WORTH_PROCESSES else 0


def engine_for(arrays: Sequence[ArrayPlan], options: RunOptions, budget: int, *, local: bool) -> Engine:
    """The engine of an executor that the options name or contain; closed by the caller."""
    workers = options.workers
    engine: Engine
    if options.engine is not None:
        engine = SharedEngine(options.engine)
    else:
        if options.processes:
            workers = workers_for(arrays, options, budget, local=local)
        engine = open_engine(options.executor, workers=workers)
    if engine.on_this_machine:
        engine.at_most = _fitting(arrays, options, budget)
    return engine


def with_share(spec: WorkerSpec, limit: Bandwidth | None, engine: Engine) -> WorkerSpec:
    """The same with the share that one call on an engine has of a limit, now."""
    return spec if limit is None else replace(spec, bytes_per_second=limit.share(engine.slots()))


def in_pool(engine: Engine, worker: Worker) -> TaskExecutor:
    """Tasks on threads given by the caller."""
    return TaskExecutor(
        engine=engine,
        call=lambda task: (worker.run, task),
        under_way=worker.under_way,
        give_up=worker.stop.set,
    )


def own_pool(worker: Worker, workers: int, *, forks: bool = False) -> TaskExecutor:
    """Tasks on threads; with `forks`, on copies of this process if the system provides any."""
    with suppress(OSError):
        if forks:
            pool = ProcessPool(workers, start="fork", function=worker.run, initializer=worker.forked)
            return TaskExecutor(
                engine=_OwnPool(pool, workers=workers),
                call=lambda task: (worker.run, task),
                in_threads=False,
                give_up=pool.give_up,
            )
    threads = ThreadPoolExecutor(
        workers, thread_name_prefix="zarrlift", initializer=archive.set, initargs=(archive.get(),)
    )
    return in_pool(_OwnPool(threads, workers=workers), worker)


def out_of_reach() -> JobError:
    """The error if processes are requested but one end exists only in this process."""
    return JobError(
        "other processes cannot reach a store that exists only in this one",
        advice="Use threads, or give both locations as URLs.",
    )


class RunEngine:
    """What the options of a run select."""

    def __init__(
        self,
        plan: Plan,
        ends: tuple[Storage, Storage],
        options: RunOptions,
        spec: WorkerSpec | None,
    ) -> None:
        self._plan = plan
        self._ends = ends
        self.local = all(isinstance(end, LocalStorage) for end in ends)
        self._options = options
        self._spec = spec
        self._engine: Engine | None = None
        self.budget = options.budget(plan.recipe.memory)
        """Memory in bytes of all workers on this machine, or of each one elsewhere."""

    def tasks(self, arrays: list[ArrayPlan], worker: Worker) -> TaskExecutor:
        """What runs the tasks of some arrays; `worker` runs those in this process."""
        engine = self._open_engine(arrays)
        if engine is not None:
            if engine.in_process:
                return in_pool(engine, worker)
            if (spec := self._reporting()) is None:
                raise out_of_reach()
            limit = self._options.limit
            return TaskExecutor(
                engine=engine,
                call=lambda task: (move, *sent(with_share(spec, limit, engine), task)),
                give_up=self.give_up,
            )
        number = workers_for(arrays, self._options, self.budget, local=self.local)
        forks = forks_for(arrays, self._options, self.budget, local=self.local)
        return own_pool(worker, forks or number, forks=forks > 0)

    def checks(self, level: VerifyLevel, here: Checks) -> Checks:
        """The checks of a level: `here`, unless workers elsewhere compare every value."""
        workers = self.elsewhere() if level == "full" else None
        return here if workers is None else Checks(*self._ends, elsewhere=workers)

    def elsewhere(self) -> Elsewhere | None:
        """What reads all values of an array on workers elsewhere; None if there are none."""
        if not self._options.elsewhere or self._spec is None:
            return None
        from ..verification.elsewhere import Elsewhere

        engine = self._open_engine(list(self._plan.arrays))
        assert engine is not None
        budget = self._options.budget_of_one(self._plan.recipe.memory, engine)
        return Elsewhere(engine, with_share(self._spec, self._options.limit, engine), budget)

    def give_up(self) -> None:
        """End what workers elsewhere do for this run, as far as they can be reached."""
        if self._engine is not None and self._spec is not None:
            self._engine.give_up(give_up, *sent(self._spec.run))

    def _reporting(self) -> WorkerSpec | None:
        """The access of workers, which report servers that do not answer if they are on this machine."""
        if self._spec is None or self.local or self._options.on_other_machines:
            return self._spec
        folder = _folder_of_unanswered(self._spec)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        read_from(folder)
        return replace(self._spec, unanswered=folder)

    def close(self) -> None:
        """Release what was created for this run."""
        if self._spec is not None and not self.local:  # also what a killed run has left
            shutil.rmtree(_folder_of_unanswered(self._spec), ignore_errors=True)
        if self._engine is not None:
            self._engine.close()

    def _open_engine(self, arrays: list[ArrayPlan]) -> Engine | None:
        """The engine that the options ask for; None for threads or forks, which each pass creates."""
        if self._engine is None and self._options.executor not in (None, "threads"):
            self._engine = engine_for(arrays, self._options, self.budget, local=self.local)
        return self._engine


def _folder_of_unanswered(spec: WorkerSpec) -> str:
    """The folder in which workers of a job report servers that do not answer."""
    return os.path.join(tempfile.gettempdir(), f"zarrlift-{spec.job_id}")
