"""The coordinator: submits tasks to an executor and updates the progress display and the ledger.

Work is recorded after it is done. An array is verified and published after its last chunk is written. An
error in one array is recorded for that array, and the others continue.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import BrokenExecutor
from dataclasses import replace
from functools import partial
from typing import Final

from zarrstack.core.errors import JobError, Problem, StorageError, WorkerError, ZarrstackError

from ..errors import Interrupted
from ..executors.dispatcher import Dispatcher, Ended, LostTaskError
from ..planning.chunk_advice import with_advice
from ..planning.inventories import Inventories
from ..planning.plans import ArrayPlan, Plan
from ..storage.base import Storage
from ..storage.writer import DestinationError, Writer
from ..storage.writer_for import writer_for
from ..transfer.counts import MoveResult
from ..transfer.tasks import Task, sources_moved, sweep_known
from ..transfer.unexpected_errors import unexpected_error
from ..transfer.worker import Worker, WorkerSpec
from . import log_messages
from .branch import branch_of
from .checks.checks import Checked, Checks, Found
from .disk_sync import DiskSync
from .ledger.last_run import note_moving
from .ledger.ledger import Job
from .ledger.rows import NodeRow
from .ledger.throughput import Throughput
from .option_words import option_words
from .outcome import Outcome
from .processes import process_tuning
from .processes.executors import RunOptions
from .progress import NullProgress, Progress, Ticker
from .publisher import Publisher
from .route_rates import RouteRates
from .run_arrays import NOTHING, PendingChecks, RunArray, RunTasks, Share, retire
from .run_engine import RunEngine
from .run_outcome import outcome_of
from .source_check import SourceCheck
from .work_totals import WorkTotal

_BATCH: Final = 250  # arrays without tasks that are verified together


class Run:
    """One run of a job, from its recorded state to completion or failure."""

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
        share: Share | None = None,
    ) -> None:
        self.job = job
        self.plan = plan
        self.source = source
        self.destination = destination
        self.options = options
        self.progress: Progress = progress or NullProgress()
        self.writer: Writer = writer_for(destination, job.id, fsync=options.fsync, in_place=plan.in_place)
        inventories = Inventories() if inventories is None else inventories
        self._share = share or Share()
        self._tasks = RunTasks(job, plan, source, destination, inventories, self._share)
        self._source_check = SourceCheck(source, plan, inventories)
        self._engine = RunEngine(plan, source, destination, options, spec)
        self._publisher = Publisher(
            job, plan, source, destination, self.writer, self._source_check.group, self._engine.elsewhere
        )
        self._moved = MoveResult()
        self._throughput = Throughput(job)
        self._lost: set[int] = set()
        self._verified: deque[PendingChecks] = deque()
        self.checks = checks
        self._syncs = DiskSync(job, destination, fsync=options.fsync)
        self._branch = branch_of(job, plan, destination)

    def __call__(self) -> Outcome:
        """Run to the end; raises Interrupted. All other errors are in the outcome."""
        started = time.monotonic()
        # Partial files of a killed run are in the job's own directory.
        self.writer.close(alone=self._share.alone)
        stopped: Problem | None = None
        try:
            self._branch.begin()
            self._arrays()
            if self._share.publishes and not self._share.left:
                self._look_for_new_nodes()
                self._publisher.groups()
                self._branch.publish()
        except (DestinationError, JobError, WorkerError) as error:
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
            raise Interrupted(str(self.job.path), option_words(self.job)) from None
        finally:
            self._engine.close()
            self._source_check.close()
            stopped = self._commit_at_the_end() or stopped
            self.writer.close(alone=self._share.alone)
        self.progress.close()
        log_messages.failed(() if stopped is None else (stopped,))
        ended = outcome_of(self.job, self.plan, self._share, self._moved, time.monotonic() - started, stopped)
        if ended.state == "done":
            self._branch.end()
        return ended

    def _commit_at_the_end(self) -> Problem | None:
        try:
            if self.job.nodes(done=False):
                self._syncs.sometimes()
            self._throughput.note(self._moved, last=True)
            self.job.commit()
        except (JobError, DestinationError) as error:  # unrecorded work is repeated
            return error.problem
        return None

    # Arrays

    def _arrays(self) -> None:
        rows = {row.path: row for row in self.job.nodes("array")}
        pending = [
            (rows[array.path], array) for array in self.plan.arrays if rows[array.path].state != "done"
        ]
        totals = self.job.totals()
        note_moving(self.job, totals, self.options.verify)
        rates = RouteRates(remote=not self._engine.local, known=self.job.fact("route_rates"))
        self._work = WorkTotal(self.progress, [(plan, totals.get(row.id)) for row, plan in pending], rates)
        still = [RunArray(*pair, NOTHING, all_submitted=True) for pair in pending if not pair[1].tasks]
        for start in range(0, len(still), _BATCH):
            self._finish(still[start : start + _BATCH])
            self._conclude(all_but=1)  # verified while these are published
        self._conclude()
        moving = [pair for pair in pending if pair[1].tasks]
        staged = [pair for pair in moving if pair[1].between is not None]
        if staged:
            self._move(staged, first_pass=True)
        if moving := [pair for pair in moving if pair[0].id not in self._lost]:
            self._move(moving)
        self._moved = self._moved.plus(MoveResult(retries=self._work.note(self.job)))

    def _move(self, pending: list[tuple[NodeRow, ArrayPlan]], *, first_pass: bool = False) -> None:
        finish = self._passed if first_pass else self._finish
        if not self._share.moves:
            for start in range(0, len(pending), _BATCH):
                done: list[RunArray] = []
                deque(self._tasks(pending[start : start + _BATCH], done, first_pass=first_pass), maxlen=0)
                finish(done)
                self._conclude(all_but=1)
            self._conclude()
            return
        process_tuning.before_moving()
        executor = self._engine.tasks([array for _, array in pending], self._worker())
        running: Dispatcher[tuple[RunArray, Task]] = Dispatcher(executor.engine)
        ended: list[RunArray] = []
        tasks = self._tasks(pending, ended, first_pass=first_pass)
        if self.options.verify != "none" and executor.in_threads:
            self.checks.prepare_workers()
        # This starts a thread, so forks come first.
        ticker = Ticker(self.progress, lambda: self._work.present(executor.under_way()))
        try:
            exhausted = False
            while not exhausted or running:
                while not exhausted and running.has_room():
                    if (item := next(tasks, None)) is None:
                        exhausted = True
                    else:
                        running.submit(item, *executor.call(item[1]))
                if running:
                    if self.options.verify != "none":
                        self.checks.prepare()
                    for task_ended in running.ended():
                        array, task = task_ended.item
                        array.open_tasks -= 1
                        self._record(array, task, task_ended, running.under_way)
                        if array.all_submitted and array.open_tasks == 0:
                            ended.append(array)
                self._work.note_silence(self.job, then=self._commit_sometimes)
                self._share.each_turn()
                self._conclude()  # checks started before the tasks that ended now
                finish(ended)
                ended.clear()
                if self.options.stopped:
                    raise KeyboardInterrupt
            self._conclude()
        finally:
            ticker.stop()
            running.stop()

    def _worker(self) -> Worker:
        return Worker(
            self.source,
            self.writer,
            hard_links=self.options.hard_links,
            recheck=self.options.verify != "none",
            digest=self.options.digest_of_tasks,
        )

    def _passed(self, arrays: list[RunArray]) -> None:
        """End the first of two passes: start the second, or record the failure."""
        for array in arrays:
            if array.failures or array.left:
                self._lost.add(array.row.id)
                self._leave(array)
        self._commit_sometimes()

    def _leave(self, array: RunArray) -> None:
        """Record the failure of an array, and what others have to do of it."""
        if array.failures:
            self._record_failure(array)
        if array.left:
            self._share.left.append((array.plan, array.left))

    def _record(self, array: RunArray, task: Task, ended: Ended[tuple[RunArray, Task]], running: int) -> None:
        try:
            moved: MoveResult = ended.result()
        except LostTaskError as error:
            array.fail((error.at(node=array.plan.path, key=task.first_key()).problem,))
            return
        except (DestinationError, WorkerError, BrokenExecutor):
            raise
        except ZarrstackError as error:
            array.fail((error.at(node=array.plan.path).problem,))
            return
        except Exception as error:  # noqa: BLE001 - see `unexpected_error`
            array.fail((unexpected_error(array.plan.path, error),))
            return
        self._work.moved(array.plan, moved, running=running)
        self._moved = self._moved.plus(moved)
        if moved.problems:
            array.fail(moved.problems)
            return
        self.job.record_task(array.row.id, task.number, moved)
        self._commit_sometimes()

    def _commit_sometimes(self) -> None:
        if self._branch.due():
            self._syncs.sometimes()
            self._throughput.note(self._moved)
            self._work.note(self.job)
            self.job.commit()
            self._branch.committed()

    def _finish(self, arrays: list[RunArray]) -> None:
        """Start to verify arrays whose chunks are all written; `_conclude` publishes them."""
        here: list[RunArray] = []
        for array in arrays:
            if array.left or not self._share.publishes:
                self._leave(array)
            else:
                here.append(array)
        if here:
            if self.options.elsewhere:
                self._branch.refresh()
            whole = [array for array in here if not array.failures]
            retire(whole, self._tasks, self.destination)
            still = self._source_check.begin([array.plan for array in whole])
            self._verified.append(PendingChecks(here, whole, self._verifying(whole), still))

    def _conclude(self, *, all_but: int = 0) -> None:
        """Publish verified arrays or record their failures, except for the last `all_but` started."""
        while len(self._verified) > all_but:
            asked = self._verified.popleft()
            for array, checked, told in zip(asked.whole, asked.found(), asked.changed(), strict=True):
                problems, array.sums = checked
                changed = told
                if problems and told is None:  # the comparison may have read another version
                    changed = self._source_check.thoroughly(array.plan)
                array.fail(problems if changed is None else (changed,))
                if array.failures and self._share.is_wrong(array):
                    self.job.forget_tasks(array.row.id)
            self._publish(asked.arrays)

    def _publish(self, arrays: list[RunArray]) -> None:
        published: list[tuple[int, int | None]] = []
        whole = [array.plan for array in arrays if not array.failures]
        left = sweep_known(whole, self.destination, partial(self.job.commit, now=True))
        try:
            for array in arrays:
                if array.plan.path in left:
                    array.fail((left[array.plan.path],))
                if not array.failures:
                    try:
                        written = self._publisher.publish_array(array.row, array.plan, array.sums)
                        retire([array], self._tasks, self.destination, outside=True)
                    except JobError as error:
                        array.fail((error.at(node=array.plan.path).problem,))
                    else:
                        published.append((array.row.id, written))
                        self._work.finished(array.plan)
                        continue
                self._record_failure(array)
        finally:
            self.job.record_published(published)
        self._commit_sometimes()

    def _record_failure(self, array: RunArray) -> None:
        # Tasks end in any order; the report is deterministic. An update leaves the earlier document.
        problems = (with_advice(problem, self.source, array.plan.source) for problem in array.problems)
        told = sorted(problems, key=lambda problem: problem.key or "")
        self.job.record_node(array.row.id, "failed", published_ns=array.row.published_ns, problems=told)
        self._work.failed(array.plan, told)

    def _verifying(self, arrays: list[RunArray]) -> Callable[[], Found]:
        """Start to verify; the returned function gives the result for each array."""
        level = self.options.verify
        if level == "none" or not arrays:
            return lambda: [Checked()] * len(arrays)
        items = []
        for array in arrays:
            # Nothing was moved and therefore nothing was listed.
            if level == "sample" and array.plan.chunks and not array.plan.tasks:
                array.present = self._tasks.inventory(array.plan).indexes
            items.append((array.plan, sources_moved(array.plan, array.present)))
        checks = self._engine.checks(level, self.checks)
        return checks.submit(self.job.id, level, items, self._engine.budget, digest=self.options.digest)

    def _look_for_new_nodes(self) -> None:
        """Report nodes added to the source; in place, a new group document would hide them."""
        try:
            added = tuple(self._source_check.added())
        except StorageError as error:
            added = (error.problem,)
        if added:
            known = self.plan.problems
            problems = (*known, *(problem for problem in added if problem not in known))
            self.plan = self._publisher.plan = replace(self.plan, problems=problems)
