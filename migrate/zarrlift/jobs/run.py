"""The coordinator: submits tasks to an executor, and lets each array go through its states (`ArrayState`).

Work is recorded after it is done. An array is verified and published after its last chunk is written. An
error in one array is recorded for that array, and the others continue.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import BrokenExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from zarrstack.core.errors import ChunkError, Problem, StorageError, ZarrstackError

from ..archive.chunk_inventory import take_inventory
from ..errors import Interrupted, JobError, WorkerError
from ..planning.chunk_checks import with_advice
from ..planning.inventories import Inventories
from ..planning.plans import Plan
from ..storage.giving_up import check
from ..storage.remote.store_writer import writer_for
from ..storage.writer import DestinationError, Writer
from ..transfer.counts import MoveResult
from ..transfer.executors.dispatcher import Dispatcher, Ended, LostTaskError
from ..transfer.tasks import Task, sweep_known
from ..transfer.unexpected_errors import unexpected_error
from ..transfer.worker import Worker
from . import log_messages, process_tuning
from .array_states import ArrayState, PendingChecks, RunArray, RunTasks, following, retire
from .branch import branch_of
from .checks import Checks, Found, Question
from .claim import Claim
from .endpoints import Endpoints
from .executors import RunEngine, RunOptions
from .ledger.last_run import note_moving
from .ledger.ledger import Job
from .option_words import option_words
from .outcome import Outcome, log_outcome, outcome_of_run
from .overwrite import left_aside, remove_previous_tree
from .progress import Progress, Ticker, UnderWay, WorkTotal, send_end
from .publisher import DiskSync, Publisher
from .resume.published_arrays import hide_incomplete, with_problems
from .source_check import SourceCheck

_MISSING: Final = "Others have removed them: resume to write them again."
_BATCH: Final = 250  # arrays without tasks that are verified together


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenJob:
    """A job open for writing, whose places are claimed and are what it says."""

    job: Job
    ends: Endpoints
    options: RunOptions
    checks: Checks
    claim: Claim
    progress: Progress | None
    crashed: bool = False
    """Whether files of its last run may not have reached the disk."""

    @property
    def loses(self) -> bool:
        """Whether a crash may have lost some of the work of a complete job."""
        return self.crashed and bool(self.job.unsynced() or self.job.nodes(done=False))

    def run_to_end(self, plan: Plan, inventories: Inventories) -> Outcome:
        """Run the job to its end, and remove what it replaced.

        What a crash may have lost is compared first.
        """
        job, ends = self.job, self.ends
        if self.crashed:
            from .resume.lost_tasks import compare_unsynced  # not needed by a first run

            compare_unsynced(job, plan, ends.source, ends.destination, inventories)
        started = time.monotonic()
        outcome = Run(self, plan, inventories)()
        if outcome.state == "done":
            remove_previous_tree(job, ends.destination)
        aside = left_aside(job, ends.destination)
        problems = outcome.problems if aside is None else (*outcome.problems, aside)
        outcome = replace(outcome, seconds=time.monotonic() - started, problems=problems)
        log_outcome(outcome)
        return outcome

    def end(self, outcome: Outcome) -> Outcome:
        """Release the places; the outcome with what that has shown."""
        return self.claim.end(outcome)


class Run:
    """One run of a job, from its recorded state to completion or failure."""

    def __init__(self, open_job: OpenJob, plan: Plan, inventories: Inventories) -> None:
        """`inventories` are those that planning has left."""
        job, ends, options = open_job.job, open_job.ends, open_job.options
        self.job, self.plan, self.options = job, plan, options
        self.checks, self.progress = open_job.checks, open_job.progress
        self.source, self.destination = source, destination = ends.source, ends.destination
        self.writer: Writer = writer_for(destination, job.id, fsync=options.fsync, in_place=plan.in_place)
        self._tasks = RunTasks(job, plan, ends, inventories, list_again=not options.no_list)
        self._source_check = SourceCheck(source, plan, inventories)
        self._engine = RunEngine(plan, (source, destination), options, ends.spec(job, options))
        self._publisher = Publisher(job, plan, ends, self.writer, self._source_check.group)
        self._moved = MoveResult()
        self._under_way: Callable[[], UnderWay] = dict
        self._checking: deque[PendingChecks] = deque()
        self._syncs = DiskSync(job, destination, fsync=options.fsync)
        self._branch = branch_of(job, plan, destination)

    def __call__(self) -> Outcome:
        """Run to the end; raises Interrupted. All other errors are in the outcome."""
        started = time.monotonic()
        # Partial files of a killed run are in the job's own directory.
        self.writer.close()
        stopped: Problem | None = None
        removed: tuple[Problem, ...] = ()
        try:
            self._branch.begin()
            with self.options.heeding_stop():
                self._run_arrays()
            self._report_new_nodes()
            self._publisher.groups()
            self._branch.publish()
            removed = self._hide_incomplete()
        except (DestinationError, JobError, StorageError, WorkerError) as error:
            stopped = error.problem
        except BrokenExecutor as error:
            stopped = Problem(
                kind="worker",
                message="a worker died",
                found=str(error),
                advice="It may have run out of memory. Resume with fewer workers.",
            )
        except KeyboardInterrupt:
            self._engine.give_up()
            send_end(self.progress)
            raise Interrupted(str(self.job.path), option_words(self.job)) from None
        finally:
            self._engine.close()
            self._source_check.close()
            stopped = self._commit_at_the_end() or stopped
            self.writer.close()
        send_end(self.progress)
        log_messages.failed(() if stopped is None else (stopped,))
        ended = with_problems(outcome_of_run(self.job, self.plan, self._moved, stopped), removed)
        if ended.state == "done":
            self._branch.end()
        return replace(ended, seconds=time.monotonic() - started)

    def _commit_at_the_end(self) -> Problem | None:
        try:
            if self.job.nodes(done=False):
                self._syncs.sometimes()
            self.job.commit()
        except (JobError, DestinationError) as error:  # unrecorded work is repeated
            return error.problem
        return None

    # Arrays

    def _run_arrays(self) -> None:
        """Bring each array that is not done to the end of its states."""
        rows = {row.path: row for row in self.job.nodes("array")}
        pending = [
            RunArray(rows[plan.path], plan, all_submitted=not plan.tasks)
            for plan in self.plan.arrays
            if rows[plan.path].state != "done"
        ]
        self._publisher.hold_root(new=bool(pending))
        totals = self.job.totals()
        note_moving(self.job, totals, self.options.verify)
        amounts = [(array.plan, totals.get(array.row.id)) for array in pending]
        self._work = WorkTotal(self.progress, amounts)
        self._check_without_tasks(array for array in pending if not array.plan.tasks)
        with_tasks = [array for array in pending if array.plan.tasks]
        for first_pass in (True, False):
            # An array in two passes waits again after its first one, unless it has failed.
            chosen = [
                array
                for array in with_tasks
                if array.state is ArrayState.WAITING and (array.plan.between or not first_pass)
            ]
            if chosen:
                self._move(chosen, first_pass=first_pass)
        self._moved = self._moved.plus(MoveResult(retries=self._work.note(self.job)))

    def _check_without_tasks(self, arrays: Iterable[RunArray]) -> None:
        """Check and publish arrays of which nothing is to be done; some are checked while others appear."""
        copied = (array for array in arrays if self._advance(array) is ArrayState.COPIED)
        while batch := list(islice(copied, _BATCH)):
            self._check_and_publish(batch)
        self._take_check_results()

    def _move(self, arrays: list[RunArray], *, first_pass: bool) -> None:
        """Run the tasks of arrays: each goes on as soon as its last task has ended."""
        process_tuning.before_moving()
        worker = Worker(
            self.source,
            self.writer,
            hard_links=self.job.record.link == "hard",
            recheck=self.options.verify != "none",
        )
        # A forked copy holds the open files of this process. On SMB, where a deleted file stays until
        # everyone has closed it, a journal that it held could not be created again.
        self.job.commit()
        self.writer.prepare()
        executor = self._engine.tasks([array.plan for array in arrays], worker)
        running: Dispatcher[tuple[RunArray, Task]] = Dispatcher(executor.engine)
        items = self._tasks(arrays, first_pass=first_pass)
        if self.options.verify != "none" and executor.in_threads:
            self.checks.prepare_workers()
        self._under_way = executor.under_way
        # This starts a thread, so forks come first.
        ticker = Ticker(self.progress, lambda: self._work.present(executor.under_way()))
        try:
            exhausted = False
            while not exhausted or running:
                copied: list[RunArray] = []
                while not exhausted and running.has_room():
                    array, task = next(items, (None, None))
                    if array is None:
                        exhausted = True
                    elif task is not None:
                        running.submit((array, task), *executor.call(task))
                    elif self._advance(array) is ArrayState.COPIED:
                        copied.append(array)
                if running:
                    if self.options.verify != "none":
                        self.checks.prepare()
                    for ended in running.ended():
                        array, task = ended.item
                        array.open_tasks -= 1
                        self._record(array, task, ended)
                        if self._advance(array) is ArrayState.COPIED:
                            copied.append(array)
                self._work.note_unanswered(self.job, then=self._commit_sometimes)
                if self.options.limit is not None:
                    self._commit_sometimes()
                self._check_and_publish(copied)
                check()
            self._take_check_results()
        except KeyboardInterrupt:
            executor.give_up()
            raise
        finally:
            running.stop()
            ticker.stop()

    def _record(self, array: RunArray, task: Task, ended: Ended[tuple[RunArray, Task]]) -> None:
        try:
            moved: MoveResult = ended.result()
        except LostTaskError as error:
            array.fail((error.at(node=array.plan.path, key=task.first_key()).problem,))
        except (DestinationError, WorkerError, BrokenExecutor):
            raise
        except ZarrstackError as error:
            array.fail((error.at(node=array.plan.path).problem,))
        except Exception as error:  # noqa: BLE001 - see `unexpected_error`
            array.fail((unexpected_error(array.plan.path, error),))
        else:
            self._work.moved(array.plan, moved)
            self._moved = self._moved.plus(moved)
            array.fail(moved.problems)
            if not moved.problems:
                self.job.record_task(array.row.id, task.number, moved)
                self._commit_sometimes()

    def _commit_sometimes(self) -> None:
        if self._branch.due():
            self._syncs.sometimes()
            self._work.note(self.job)
            if self.options.limit is not None:
                self._work.note_under_way(self.job, self._under_way())
            self.job.commit()
            self._branch.committed()

    def _advance(self, array: RunArray) -> ArrayState:
        """Let an array enter the state that follows."""
        array.state = following(array)
        return array.state

    def _check_and_publish(self, copied: list[RunArray]) -> None:
        """Check what has been copied, and publish what has been checked in the meantime."""
        begun = len(self._checking)
        if copied:
            self._start_checks(copied)
        self._take_check_results(begun)

    def _start_checks(self, arrays: list[RunArray]) -> None:
        """All tasks of some arrays have ended: those that are whole are checked."""
        whole: list[RunArray] = []
        for array in arrays:
            state = self._advance(array)
            if state is ArrayState.CHECKING:
                whole.append(array)
            elif array.failures:
                self._record_failure(array)
        if whole:
            if self.options.elsewhere:
                self._branch.refresh()
            retire(whole, self._tasks, self.destination)
            for array in whole:
                self._tasks.begin_listing(array, self._source_check)
            unchanged = self._source_check.begin([array.plan for array in whole])
            self._checking.append((whole, self._start_comparison(whole), unchanged))
        self._commit_sometimes()

    def _take_check_results(self, begun: int | None = None) -> None:
        """Take the results of so many checks, of all by default: those that are right are published."""
        for _ in range(len(self._checking) if begun is None else begun):
            arrays, results, changes = self._checking.popleft()
            for array, problems, change in zip(arrays, results(), changes(), strict=True):
                changed = change
                if problems and change is None:  # the comparison may have read another version
                    changed = self._source_check.thoroughly(array.plan)
                array.fail(problems if changed is None else (changed,))
                if array.failures:
                    self.job.forget_tasks(array.row.id)
            self._write_documents(arrays)

    def _write_documents(self, arrays: list[RunArray]) -> None:
        self._publisher.require_root()
        published: list[tuple[int, int | None]] = []
        whole = [array.plan for array in arrays if not array.failures]
        left = sweep_known(whole, self.destination, self.job.commit)
        try:
            for array in arrays:
                if array.plan.path in left:
                    array.fail((left[array.plan.path],))
                written = None if array.failures else self._write_document(array)
                if self._advance(array) is ArrayState.PUBLISHED:
                    published.append((array.row.id, written))
                    self._work.ended(array.plan)
                else:
                    self._record_failure(array)
        finally:
            self.job.record_published(published)
        self._commit_sometimes()

    def _write_document(self, array: RunArray) -> int | None:
        """Write the document of an array; its modification time, if the storage has one."""
        try:
            self._require_objects(array)
            written = self._publisher.publish_array(array.plan)
            retire([array], self._tasks, self.destination, outside=True)
            self._count(array)
        except DestinationError:
            raise
        except (JobError, StorageError, ChunkError) as error:
            array.fail((error.at(node=array.plan.path).problem,))
            return None
        return written

    def _count(self, array: RunArray) -> None:
        """Record what an array consists of after an update, which has counted only the objects it wrote."""
        plan = array.plan
        if plan.changes is None or self.options.no_list or plan.route.copies:
            return
        with suppress(ZarrstackError):
            found = take_inventory(self.destination, plan.path, plan.destination)
            if found.certain:
                objects, size = len(found.indexes), found.total_bytes
                whole = plan.changes.whole._replace(objects_out=objects, bytes_out=size)
                self.job.record_whole(array.row.id, whole)

    def _require_objects(self, array: RunArray) -> None:
        """Raise JobError if objects that were written are gone; their tasks are to be repeated."""
        missing = array.missing()
        if missing is not None:
            self.job.forget_tasks(array.row.id, missing.tasks)
            raise JobError(
                "objects that the job wrote are missing or changed", found=str(missing), advice=_MISSING
            )

    def _record_failure(self, array: RunArray) -> None:
        # Tasks end in any order; the report is deterministic. An update leaves the earlier document.
        problems = (with_advice(problem, self.source, array.plan.source) for problem in array.problems)
        in_order = sorted(problems, key=lambda problem: problem.key or "")
        self.job.record_node(array.row.id, "failed", published_ns=array.row.published_ns, problems=in_order)
        self._work.ended(array.plan, in_order)

    def _start_comparison(self, arrays: list[RunArray]) -> Callable[[], Found]:
        """Start to verify; the returned function gives the result for each array."""
        level = self.options.verify
        if level == "none":
            return lambda: [()] * len(arrays)
        items = [self._tasks.to_check(array, listed=level == "sample") for array in arrays]
        checks = self._engine.checks(level, self.checks)
        question = Question(self.job.id, level, items, self._engine.budget)
        return checks.submit(question)

    def _hide_incomplete(self) -> tuple[Problem, ...]:
        """Hide published arrays of which others have removed objects in the meantime; their problems."""
        if self.options.no_list or self.destination.on_branch:
            return ()
        self._publisher.require_root()
        return hide_incomplete(self.job, self.plan, self.source, self.destination, ended=True)

    def _report_new_nodes(self) -> None:
        """Report nodes added to the source; in place, a new group document would hide them."""
        try:
            added = tuple(self._source_check.added())
        except StorageError as error:
            added = (error.problem,)
        if added:
            earlier = self.plan.problems
            problems = (*earlier, *(problem for problem in added if problem not in earlier))
            self.plan = self._publisher.plan = replace(self.plan, problems=problems)
