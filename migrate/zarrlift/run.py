"""The coordinator: tasks to an executor, progress, and the ledger.

Work is done first and recorded after; an array is verified and published when its last
chunk is written. Whatever goes wrong with one array is kept with it, and the rest goes on.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from zarrstack.core.errors import JobError, Problem, ZarrstackError

from .counting import Moved
from .inventory import Indexes, Inventory, take_inventory
from .job import Job, NodeRow
from .move import Parts, Task
from .outcome import Outcome
from .planning import Inventories
from .planning_blocks import cores, memory_budget, workers_within
from .plans import ArrayPlan, Plan
from .progress import Progress, Silent
from .publishing import Publisher
from .storage import LocalStorage, Storage
from .verifying.checks import Checks, VerifyLevel, unforeseen
from .worker import Worker, WorkerSpec, end_with_coordinator, move
from .writing import DestinationError, Writer, writer_for

_COMMIT_SECONDS: Final = 0.5
"""How much work a killed process may have to repeat."""
_SMALL: Final = 32 << 10
"""Below this mean chunk size one thread is faster than two: files cost more than bytes."""
_BATCH: Final = 250
"""Arrays without work that are verified together."""
_MOST_PROBLEMS: Final = 1000
"""Problems kept per array; the count in the message tells of the rest."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C (or a termination signal) stopped the run; `job` can be resumed."""

    def __init__(self, job: str) -> None:
        super().__init__(job)
        self.job = job


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How to run, as opposed to what to do."""

    workers: int | None = None
    """None chooses by the machine and the size of the chunks."""
    processes: bool = False
    verify: VerifyLevel = "sample"
    fsync: bool = False
    hard_links: bool = False
    executor: Executor | None = None
    """Any executor whose workers reach both ends, such as Dask's; None makes one."""


@dataclass(slots=True)
class _Array:
    """An array on its way."""

    row: NodeRow
    plan: ArrayPlan
    present: Indexes
    open_tasks: int = 0
    all_submitted: bool = False
    problems: list[Problem] = field(default_factory=list)
    failures: int = 0

    def fail(self, problems: tuple[Problem, ...]) -> None:
        self.failures += len(problems)
        self.problems.extend(problems[: _MOST_PROBLEMS - len(self.problems)])


class Run:
    """One run of a job, from wherever it stands to wherever it gets."""

    def __init__(
        self,
        job: Job,
        plan: Plan,
        source: Storage,
        destination: Storage,
        options: RunOptions,
        *,
        spec: WorkerSpec | None = None,
        checks: Checks,
        inventories: Inventories | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.job = job
        self.plan = plan
        self.source = source
        self.destination = destination
        self.options = options
        self.spec = spec
        self.inventories = inventories or {}
        self.progress: Progress = progress or Silent()
        self.writer: Writer = writer_for(destination, job.id, fsync=options.fsync)
        self._publisher = Publisher(job, plan, source, destination, self.writer)
        self._moved = Moved()
        self.checks = checks
        self._committed = time.monotonic()

    def __call__(self) -> Outcome:
        """Run to the end; raises Interrupted. Whatever else goes wrong is in the outcome."""
        started = time.monotonic()
        # What a killed run left half-written lies in the job's own directory.
        self.writer.close()
        stopped: Problem | None = None
        try:
            self._arrays()
            self._publisher.groups()
        except (DestinationError, JobError) as error:
            stopped = error.problem
        except BrokenExecutor as error:
            stopped = Problem(
                kind="worker",
                message="a worker died",
                found=str(error),
                advice="It may have run out of memory. Resume with fewer workers.",
            )
        except KeyboardInterrupt:
            self.progress.close()
            raise Interrupted(str(self.job.path)) from None
        finally:
            stopped = self._commit_at_the_end() or stopped
            self.writer.close()
        self.progress.close()
        return self._outcome(time.monotonic() - started, stopped)

    def _commit_at_the_end(self) -> Problem | None:
        try:
            self.job.commit()
        except JobError as error:  # what is not recorded will be done again
            return error.problem
        return None

    # Arrays

    def _arrays(self) -> None:
        rows = {row.path: row for row in self.job.nodes() if row.kind == "array"}
        pending = [
            (rows[array.path], array) for array in self.plan.arrays if rows[array.path].state != "done"
        ]
        totals = self.job.totals()
        done = [totals[row.id] for row, _ in pending if row.id in totals]
        self.progress.start(
            sum(array.bytes_read for _, array in pending if array.tasks),
            sum(array.reads for _, array in pending if array.tasks),
        )
        self.progress.advance(sum(t.chunks for t in done), sum(t.bytes_in for t in done))
        still = [
            _Array(row, array, np.empty(0, dtype=np.int64), all_submitted=True)
            for row, array in pending
            if not array.tasks
        ]
        for start in range(0, len(still), _BATCH):
            self._finish(still[start : start + _BATCH])
        moving = [pair for pair in pending if pair[1].tasks]
        if moving:
            self._move(moving)

    def _move(self, pending: list[tuple[NodeRow, ArrayPlan]]) -> None:
        workers = self._workers([array for _, array in pending])
        executor, submit, own = self._executor(workers)
        running: dict[Future[Moved], tuple[_Array, Task]] = {}
        tasks = self._tasks(pending)
        if self.options.verify != "none":
            self.checks.prepare_workers()
        try:
            exhausted = False
            while not exhausted or running:
                while not exhausted and len(running) < workers * 3:
                    item = next(tasks, None)
                    if item is None:
                        exhausted = True
                    else:
                        running[submit(item[1])] = item
                if not running:
                    break
                if self.options.verify != "none":
                    self.checks.prepare()
                finished, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in finished:
                    array, task = running.pop(future)
                    array.open_tasks -= 1
                    self._record(array, task, future)
                    if array.all_submitted and array.open_tasks == 0:
                        self._finish([array])
        finally:
            if own:
                executor.shutdown(wait=True, cancel_futures=True)
            else:
                for future in running:
                    future.cancel()

    def _workers(self, arrays: list[ArrayPlan]) -> int:
        """As many as are asked for, or as are good; fewer where the memory is for fewer."""
        workers = self.options.workers or self._good_number(arrays)
        needed = max((array.memory or 0 for array in arrays), default=0)
        budget, processes = memory_budget(self.plan.recipe.memory), self.options.processes
        return min(workers, workers_within(budget, needed, processes=processes)) if needed else workers

    def _good_number(self, arrays: list[ArrayPlan]) -> int:
        if not isinstance(self.source, LocalStorage) or not isinstance(self.destination, LocalStorage):
            return max(4, cores())
        chunks = sum(array.chunks for array in arrays)
        mean = sum(array.bytes_in for array in arrays) / max(chunks, 1)
        return 1 if mean < _SMALL and not self.options.processes else cores()

    def _executor(self, workers: int) -> tuple[Executor, Callable[[Task], Future[Moved]], bool]:
        options = self.options
        worker = Worker(
            self.source,
            self.writer,
            hard_links=options.hard_links,
            recheck=options.verify != "none",
        )
        if isinstance(options.executor, ThreadPoolExecutor):
            mine = options.executor
            return mine, lambda task: mine.submit(worker.run, task), False
        if options.executor is not None or options.processes:
            spec = self.spec
            if spec is None:
                raise out_of_reach()
            if options.executor is not None:
                given = options.executor
                return given, lambda task: given.submit(move, spec, task), False
            from concurrent.futures import ProcessPoolExecutor
            from multiprocessing import get_context

            pool = ProcessPoolExecutor(
                workers, mp_context=get_context("spawn"), initializer=end_with_coordinator
            )
            return pool, lambda task: _submit_quietly(pool, spec, task), True
        threads = ThreadPoolExecutor(workers, thread_name_prefix="zarrlift")
        return threads, lambda task: threads.submit(worker.run, task), True

    def _tasks(self, pending: list[tuple[NodeRow, ArrayPlan]]) -> Iterator[tuple[_Array, Task]]:
        """Every task that is not recorded, array by array."""
        for row, plan in pending:
            inventory = self._inventory(plan)
            array = _Array(row, plan, inventory.indexes)
            if inventory.fingerprint != plan.fingerprint:
                array.fail((source_changed(plan.path),))
                array.all_submitted = True
                self._finish([array])
                continue
            done = self.job.tasks_done(row.id)
            parts = Parts(plan.move, inventory.indexes, plan.bounds)
            numbers = [number for number in range(plan.tasks) if number not in done]
            if not numbers:
                array.all_submitted = True
                self._finish([array])
            for number in numbers:
                array.open_tasks += 1
                array.all_submitted = number == numbers[-1]
                yield array, parts.task(number, certain=inventory.certain)

    def _inventory(self, plan: ArrayPlan) -> Inventory:
        known = self.inventories.pop(plan.path, None)
        if known is not None:
            return known
        children = frozenset(
            node.path.removeprefix(f"{plan.path}/").split("/", 1)[0]
            for node in self.plan.nodes
            if node.path.startswith(f"{plan.path}/")
        )
        follow_links = self.plan.reading.follow_links
        return take_inventory(
            self.source, plan.path, plan.source, children=children, follow_links=follow_links
        )

    def _record(self, array: _Array, task: Task, future: Future[Moved]) -> None:
        try:
            moved = future.result()
        except (DestinationError, BrokenExecutor):
            raise
        except ZarrstackError as error:
            array.fail((error.at(node=array.plan.path).problem,))
            return
        except Exception as error:  # noqa: BLE001 - see `unforeseen`
            array.fail((unforeseen(array.plan.path, error),))
            return
        self.progress.advance(moved.chunks, moved.bytes_in)
        self._moved = self._moved.plus(moved)
        if moved.problems:
            array.fail(moved.problems)
            return
        self.job.record_task(
            array.row.id,
            task.number,
            chunks=moved.chunks,
            bytes_in=moved.bytes_in,
            bytes_out=moved.bytes_out,
            dropped=moved.dropped,
        )
        self._commit_sometimes()

    def _commit_sometimes(self) -> None:
        now = time.monotonic()
        if now - self._committed > _COMMIT_SECONDS:
            self.job.commit()
            self._committed = now

    def _finish(self, arrays: list[_Array]) -> None:
        """Every chunk of these is written: verify, then publish, or record what failed."""
        self._verify([array for array in arrays if not array.failures])
        for array in arrays:
            if not array.failures:
                try:
                    published = self._publisher.publish(array.plan.path, array.plan.document)
                except JobError as error:
                    array.fail((error.at(node=array.plan.path).problem,))
                else:
                    self.job.record_node(array.row.id, "done", published_ns=published)
                    continue
            # Tasks end in any order; a report reads the same each time.
            told = sorted(array.problems, key=lambda problem: problem.key or "")
            self.job.record_node(array.row.id, "failed", problems=told)
        self._commit_sometimes()

    def _verify(self, arrays: list[_Array]) -> None:
        level = self.options.verify
        if level == "none" or not arrays:
            return
        items = []
        for array in arrays:
            if array.plan.chunks and not array.plan.tasks:  # nothing was moved, so nothing was listed
                array.present = self._inventory(array.plan).indexes
            items.append((array.plan, array.present))
        for array, problems in zip(arrays, self.checks(self.job.id, level, items), strict=True):
            array.fail(problems)

    # The end

    def _outcome(self, seconds: float, stopped: Problem | None) -> Outcome:
        rows = self.job.nodes()
        refused = [problem for refusal in self.plan.refusals for problem in refusal.problems]
        # What is wrong with the archive as a whole, such as a key that leads out of it.
        whole_archive = [problem for problem in self.plan.problems if problem.severity == "refusal"]
        failed = [problem for row in rows if row.state == "failed" for problem in row.problems]
        whole = stopped is None and not whole_archive and all(row.state == "done" for row in rows)
        if whole and self.job.state == "incomplete":
            self.job.note(state="done", verified=None)
            self.job.commit()
        return Outcome(
            job=str(self.job.path),
            state="done" if whole else "incomplete",
            arrays_done=sum(row.state == "done" for row in rows if row.kind == "array"),
            arrays_total=len(self.plan.arrays) + sum(r.kind == "array" for r in self.plan.refusals),
            groups_done=sum(row.state == "done" for row in rows if row.kind == "group"),
            **self._moved.figures(),
            seconds=seconds,
            problems=tuple(
                dict.fromkeys((*whole_archive, *refused, *failed, *((stopped,) if stopped else ())))
            ),
            plan=self.plan,
        )


def out_of_reach() -> JobError:
    """Processes are asked for, and an end that only this one has."""
    return JobError(
        "processes cannot reach a store that lives in this one",
        advice="Use threads, or name both ends by URL.",
    )


def source_changed(path: str) -> Problem:
    """The source is not what the plan was made for."""
    return Problem(
        kind="source-changed",
        node=path,
        message="the source changed since the plan was made",
        advice="Undo this job and migrate again, so that old and new chunks are not mixed.",
    )


def _submit_quietly(pool: Executor, spec: WorkerSpec, task: Task) -> Future[Moved]:
    """Submit with Ctrl-C blocked: worker processes inherit that, and only the coordinator stops."""
    if not hasattr(signal, "pthread_sigmask"):
        return pool.submit(move, spec, task)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return pool.submit(move, spec, task)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
