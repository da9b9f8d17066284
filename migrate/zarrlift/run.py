"""The coordinator: tasks to an executor, progress, and the ledger.

Work is done first and recorded after; an array is verified and published when its last
chunk is written. Whatever goes wrong with one array is kept with it, and the rest goes on.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np

from zarrstack.core.errors import JobError, Problem, ZarrstackError
from zarrstack.core.paths import names_below

from . import process
from .advising import advised
from .counting import Moved
from .executors import Executing, RunOptions, executing, forks_for, workers_for
from .inventory import Indexes, Inventory, take_inventory
from .job import Job, NodeRow
from .outcome import Outcome
from .planning import Inventories
from .planning_blocks import memory_budget
from .plans import ArrayPlan, Plan
from .progress import Progress, Silent
from .publishing import Publisher
from .storage import LocalStorage, Storage
from .tasks import Task, sweep_known, tasks_of
from .verifying.checks import Checks, Found, unforeseen
from .worker import Worker, WorkerSpec
from .writing import DestinationError, Writer, writer_for

_COMMIT_SECONDS: Final = 0.5
"""How much work a killed process may have to repeat."""
_BATCH: Final = 250
"""Arrays without work that are verified together."""
_MOST_PROBLEMS: Final = 1000
"""Problems kept per array; the count in the message tells of the rest."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C (or a termination signal) stopped the run; `job` can be resumed."""

    def __init__(self, job: str) -> None:
        super().__init__(job)
        self.job = job


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
        self.writer: Writer = writer_for(destination, job.id, fsync=options.fsync, in_place=plan.in_place)
        self._publisher = Publisher(job, plan, source, destination, self.writer)
        self._moved = Moved()
        self._lost: set[int] = set()
        self._verified: deque[tuple[list[_Array], list[_Array], Callable[[], Found]]] = deque()
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
        rows = {row.path: row for row in self.job.nodes("array")}
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
            self._conclude(all_but=1)  # which is looked at while these are published
        self._conclude()
        moving = [pair for pair in pending if pair[1].tasks]
        staged = [pair for pair in moving if pair[1].between is not None]
        if staged:
            self._move(staged, first_pass=True)
        moving = [pair for pair in moving if pair[0].id not in self._lost]
        if moving:
            self._move(moving)

    def _move(self, pending: list[tuple[NodeRow, ArrayPlan]], *, first_pass: bool = False) -> None:
        process.keep_freed_memory()
        executor = self._executor([array for _, array in pending])
        running: dict[Future[Moved], tuple[_Array, Task]] = {}
        ended: list[_Array] = []
        tasks = self._tasks(pending, ended, first_pass=first_pass)
        finish = self._passed if first_pass else self._finish
        if self.options.verify != "none" and executor.in_threads:
            self.checks.prepare_workers()
        try:
            exhausted = False
            while not exhausted or running:
                while not exhausted and len(running) < executor.workers * 3:
                    item = next(tasks, None)
                    if item is None:
                        exhausted = True
                    else:
                        running[executor.submit(item[1])] = item
                if running:
                    if self.options.verify != "none":
                        self.checks.prepare()
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        array, task = running.pop(future)
                        array.open_tasks -= 1
                        self._record(array, task, future)
                        if array.all_submitted and array.open_tasks == 0:
                            ended.append(array)
                self._conclude()  # what was asked before the tasks that have ended now
                finish(ended)
                ended.clear()
            self._conclude()
        finally:
            executor.stop(running)

    def _executor(self, arrays: list[ArrayPlan]) -> Executing:
        worker = Worker(
            self.source,
            self.writer,
            hard_links=self.options.hard_links,
            recheck=self.options.verify != "none",
        )
        local = isinstance(self.source, LocalStorage) and isinstance(self.destination, LocalStorage)
        budget = memory_budget(self.plan.recipe.memory)
        number = workers_for(arrays, self.options, budget, local=local)
        forks = forks_for(arrays, self.options, budget, local=local)
        return executing(self.options, worker, self.spec, forks or number, forks=forks > 0)

    def _tasks(
        self, pending: list[tuple[NodeRow, ArrayPlan]], ended: list[_Array], *, first_pass: bool
    ) -> Iterator[tuple[_Array, Task]]:
        """Every task that is not recorded, array by array; of arrays in two passes those of one pass.

        Arrays without any go to `ended`.
        """
        for row, plan in pending:
            inventory = self._inventory(plan, keep=first_pass)
            array = _Array(row, plan, inventory.indexes)
            if inventory.fingerprint != plan.fingerprint:
                array.fail((source_changed(plan.path),))
                array.all_submitted = True
                ended.append(array)
                continue
            done = self.job.tasks_done(row.id)
            try:
                tasks = tasks_of(plan, inventory, self.source, self.destination, first_pass=first_pass)
            except ZarrstackError as error:
                array.fail((error.at(node=plan.path).problem,))
                array.all_submitted = True
                ended.append(array)
                continue
            numbers = [number for number in tasks.numbers if number not in done]
            if not numbers:
                array.all_submitted = True
                ended.append(array)
            for number in numbers:
                array.open_tasks += 1
                array.all_submitted = number == numbers[-1]
                yield array, tasks.task(number)

    def _passed(self, arrays: list[_Array]) -> None:
        """The first of two passes is over: go on with the second, or record what failed."""
        for array in arrays:
            if array.failures:
                self._lost.add(array.row.id)
                self._record_failure(array)
        self._commit_sometimes()

    @cached_property
    def _below(self) -> dict[str, frozenset[str]]:
        return names_below(node.path for node in self.plan.nodes)

    def _inventory(self, plan: ArrayPlan, *, keep: bool = False) -> Inventory:
        known = self.inventories.pop(plan.path, None)
        if known is not None and keep:
            self.inventories[plan.path] = known
        if known is not None:
            return known
        children = self._below.get(plan.path, frozenset())
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
            chunks=moved.chunks if task.number >= 0 else 0,
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
        """Every chunk of these is written: begin to verify; `_conclude` does the rest."""
        if arrays:
            whole = [array for array in arrays if not array.failures]
            self._verified.append((list(arrays), whole, self._verifying(whole)))

    def _conclude(self, *, all_but: int = 0) -> None:
        """Publish what was verified, or record what failed, but for the last ones of what was begun."""
        while len(self._verified) > all_but:
            arrays, whole, found = self._verified.popleft()
            for array, problems in zip(whole, found(), strict=True):
                array.fail(problems)
                if problems:  # what is written is not right, so that a resume must write it again
                    self.job.forget_tasks(array.row.id)
            self._publish(arrays)

    def _publish(self, arrays: list[_Array]) -> None:
        published: list[tuple[int, int | None]] = []
        whole = [array.plan for array in arrays if not array.failures]
        sweep_known(whole, self.destination, self.job.commit)
        try:
            for array in arrays:
                if not array.failures:
                    try:
                        written = self._publisher.publish(array.plan.path, array.plan.document)
                    except JobError as error:
                        array.fail((error.at(node=array.plan.path).problem,))
                    else:
                        published.append((array.row.id, written))
                        continue
                self._record_failure(array)
        finally:
            self.job.record_published(published)
        self._commit_sometimes()

    def _record_failure(self, array: _Array) -> None:
        # Tasks end in any order; a report reads the same each time.
        problems = (advised(problem, self.source, array.plan.source) for problem in array.problems)
        told = sorted(problems, key=lambda problem: problem.key or "")
        self.job.record_node(array.row.id, "failed", problems=told)

    def _verifying(self, arrays: list[_Array]) -> Callable[[], Found]:
        """Begin to verify; a call gives what is wrong with each."""
        level = self.options.verify
        if level == "none" or not arrays:
            return lambda: [()] * len(arrays)
        items = []
        for array in arrays:
            # Nothing was moved, so nothing was listed.
            if level == "sample" and array.plan.chunks and not array.plan.tasks:
                array.present = self._inventory(array.plan).indexes
            items.append((array.plan, array.present))
        return self.checks.soon(self.job.id, level, items, memory_budget(self.plan.recipe.memory))

    # The end

    def _outcome(self, seconds: float, stopped: Problem | None) -> Outcome:
        rows = self.job.nodes(done=False)
        refused = [problem for refusal in self.plan.refusals for problem in refusal.problems]
        # What is wrong with the archive as a whole, such as a key that leads out of it.
        whole_archive = [problem for problem in self.plan.problems if problem.severity == "refusal"]
        failed = [problem for row in rows if row.state == "failed" for problem in row.problems]
        whole = stopped is None and not whole_archive and not rows
        if whole and self.job.state == "incomplete":
            self.job.note(state="done", verified=None)
            self.job.commit()
        return Outcome(
            job=str(self.job.path),
            state="done" if whole else "incomplete",
            arrays_done=self.job.done("array"),
            arrays_total=len(self.plan.arrays) + sum(r.kind == "array" for r in self.plan.refusals),
            groups_done=self.job.done("group"),
            **self._moved.figures(),
            seconds=seconds,
            problems=tuple(
                dict.fromkeys((*whole_archive, *refused, *failed, *((stopped,) if stopped else ())))
            ),
            plan=self.plan,
        )


def source_changed(path: str) -> Problem:
    """The source is not what the plan was made for."""
    return Problem(
        kind="source-changed",
        node=path,
        message="the source changed since the plan was made",
        advice="Undo this job and migrate again, so that old and new chunks are not mixed.",
    )
