"""Runs one part of a job: the process has a copy in memory, and what it does goes to the file of its run."""

from __future__ import annotations

import os
import sqlite3
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Final, Self, Unpack

from zarrstack.core.errors import Problem, UsageError

from ...errors import JobError
from ...planning.plans import ArrayPlan, Plan
from ...recipe.keywords import PlacesKeywords, RunningKeywords, WatchingKeywords
from ...recipe.options import PathText, Places, Running, VerifyLevel, Watching
from ...recipe.signatures import explicit, given
from ...transfer.counts import MoveResult
from ..checks.checks import Checks
from ..job_array import part_index
from ..ledger.database import not_opened, require_file
from ..ledger.find_job import job_of_parts, refuse_undone
from ..ledger.last_run import is_locked
from ..ledger.ledger import Job
from ..ledger.read_only import read_only
from ..ledger.rows import NodeState, RecordedTask
from ..observed import observed
from ..opened_job import require_parts, unclaimed_job
from ..option_words import option_words
from ..outcome import Outcome, log_outcome
from ..processes.executors import RunOptions
from ..progress import ProgressChoice
from ..run import Run
from ..run_arrays import Share
from ..stored_inventories import planned_inventories
from .division import Division
from .run_file import PartRun, RunFile, read_run, run_files, tasks_of

_OF_ALL: Final = (
    "DELETE FROM node WHERE kind != 'array' OR state = 'done'",
    "UPDATE node SET plan = '', state = 'pending', problems = NULL",
    "DELETE FROM common",
    "DELETE FROM task",
    "VACUUM",
)
"""Forgets what concerns the whole job, which needs much memory if it is large."""


class _Moving(PlacesKeywords, RunningKeywords, WatchingKeywords):
    """The options of `migrate_part`."""


@explicit
def migrate_part(
    job: PathText,
    part: int | str,
    *,
    verify: VerifyLevel = "sample",
    progress: ProgressChoice = None,
    **options: Unpack[_Moving],
) -> Outcome:
    """Do the tasks of one part of a job made by `plan_parts`.

    `part` counts from 0; "auto" takes it from the environment of a job array. The job
    file is only read; what is done is recorded in a file next to it, and published by `gather`. A part that
    was killed is run again; one that is complete does nothing. The other arguments are those of `migrate`.

    The outcome is "incomplete" if tasks have failed.

    Raises
    ------
    UsageError
        If the job has no such part.
    JobError
        If the job is not one in parts, or the part is running on this machine.
    Interrupted
        After Ctrl-C; run the part again.

    Examples
    --------
    >>> plan = zarrlift.plan_parts("ocean.zarr", "new.zarr", job="parts.db", parts=2)
    >>> [zarrlift.migrate_part("parts.db", part).state for part in range(2)]
    ['done', 'done']
    """
    started = time.monotonic()
    path = job_of_parts(job)
    index = part_index(part)
    places, running, watching = given(options, Places, Running, Watching)
    with PartJob.read(path) as ledger:
        division, plan = divided(ledger)
        refuse_undone(ledger)
        parts = require_parts(ledger)
        if not 0 <= index < parts:
            raise UsageError("the job has no such part", found=str(index), expected=f"0 to {parts - 1}")
        unclaimed = unclaimed_job(path, "part", ledger, places, RunOptions.of(running), verify=verify)
        ends = unclaimed.ends
        run_options = replace(
            unclaimed.options,
            # Others have to know what has reached the disk.
            fsync=running.fsync or (ends.local_destination is not None and sys.platform != "linux"),
        )
        own = _plan_of(ledger, plan, division, index)
        nothing = Outcome(
            job=str(path), state="nothing to do", part=index, options=option_words(ledger), plan=own
        )
        if ledger.state != "incomplete":
            return nothing
        earlier = _earlier(path, ledger.id, index)
        checks = Checks(ends.source, ends.destination)
        with (
            observed(progress, ends.source.url, ends.destination.url, watching) as run,
            RunFile(ledger, index, earlier, ends.place, fsync=run_options.fsync) as file,
            closing(planned_inventories(path, ledger.id)) as inventories,
            checks,
        ):
            ledger.begin(earlier, file)
            run_options.follow_limit(path, parts=parts)
            share = PartShare(division, index, file.sync)
            outcome = Run(ledger, own, ends, run_options, checks, inventories, run.progress, share)()
            if outcome.state == "done" and not share.moved and not share.waits():
                outcome = nothing
            seconds = time.monotonic() - started
            outcome = replace(outcome, part=index, second_pass=share.waits(), seconds=seconds)
            log_outcome(outcome)
            return run.end(outcome)


def divided(job: Job) -> tuple[Division, Plan]:
    """The division of a job in parts and its plan; UsageError for another job."""
    parts = require_parts(job)
    plan = job.plan()
    return Division(plan.arrays, parts), plan


def _plan_of(job: Job, plan: Plan, division: Division, part: int) -> Plan:
    """The plan of the arrays of which a part has tasks, unless they are published."""
    pending = {row.path for row in job.nodes("array", done=False)}
    shares = (_share_of(array, division, part) for array in plan.arrays if array.path in pending)
    arrays = tuple(share for share in shares if share is not None)
    return replace(plan, arrays=arrays, groups=(), refusals=(), problems=())


def _share_of(array: ArrayPlan, division: Division, part: int) -> ArrayPlan | None:
    """The plan of an array with the amounts of the tasks of a part, for the progress; None without tasks."""
    passes = (False,) if array.between is None else (True, False)
    own = sum(len(division.numbers(array, part, first_pass=first)) for first in passes)
    if not own:
        return None
    first = 0 if array.between is None else max(len(array.between.bounds) - 1, 0)
    total = array.tasks + first
    amounts = {
        name: getattr(array, name) * own // total
        for name in ("chunks", "bytes_in", "bytes_out", "reads", "objects_out")
    }
    return replace(array, **amounts)


def _earlier(path: Path, job_id: str, part: int) -> list[PartRun]:
    """The earlier runs of a part; JobError if one is running on this machine, or its file is damaged."""
    runs = [run for file in run_files(path, part) if (run := read_run(file, job_id)) is not None]
    for run in runs:
        if run.run.owner.state() == "running" and is_locked(run.path):
            raise JobError(
                "another process is running this part",
                key=str(run.path),
                found=str(run.run.owner),
                advice="Wait for it, or stop it first.",
            )
    return sorted(runs, key=PartRun.order)


class PartJob(Job):
    """What a part knows of its job, and does of it."""

    _file: RunFile | None = None
    _of_job: Mapping[int, Mapping[int, RecordedTask]] = MappingProxyType({})
    """What the job has recorded, by node."""

    @classmethod
    def read(cls, path: Path) -> Self:
        """A copy of a job in one consistent state; its file is only read. JobError."""
        if not os.path.lexists(path):
            raise JobError("there is no such job file", key=str(path))
        require_file(path)
        copied = sqlite3.connect(":memory:", isolation_level=None)
        try:
            with read_only(path) as db:
                db.execute("SELECT 1 FROM meta").fetchone()  # a backup does not name its errors
                db.backup(copied)
            return cls(path, copied, None)
        except (JobError, sqlite3.Error) as error:
            copied.close()
            if isinstance(error, JobError):
                raise
            raise not_opened(path, error) from error

    def begin(self, earlier: Iterable[PartRun], file: RunFile) -> None:
        """Take what earlier runs of the part have done as its own, and go on in `file`."""
        since = {row.id: row.since for row in self.nodes("array", done=False)}
        self._of_job = {node: super(PartJob, self).recorded(node) for node in since}
        for statement in _OF_ALL:
            self._db.execute(statement)
        for (node, number), records in tasks_of(earlier, since).items():
            self.record_task(node, number, replace(records[-1], sums=None))
        self.note(id=file.id)
        self.commit()
        self._file = file

    def recorded(self, node: int) -> dict[int, RecordedTask]:
        """Recorded tasks of a node, by number; `totals` has those of the part alone."""
        return {**self._of_job.get(node, {}), **super().recorded(node)}

    def record_task(self, node: int, number: int, moved: MoveResult, *, synced: bool = False) -> None:
        """Record a task here, and in the file once it has reached the disk."""
        super().record_task(node, number, moved, synced=synced)
        if self._file is not None:
            self._file.task(node, number, moved)

    def record_node(
        self,
        node: int,
        state: NodeState,
        *,
        published_ns: int | None = None,
        problems: Iterable[Problem] = (),
    ) -> None:
        """Record that an array has failed: a part publishes none."""
        problems = tuple(problems)
        super().record_node(node, state, published_ns=published_ns, problems=problems)
        if self._file is not None:
            self._file.failed(node, problems)


class PartShare(Share):
    """The tasks of one part, whose work is published by `gather`."""

    publishes = False
    alone = False

    def __init__(self, division: Division, part: int, sync: Callable[[], None]) -> None:
        """`part` counts from 0."""
        super().__init__()
        self._sync = sync
        self._division = division
        self._part = part
        self.moved = False
        """Whether any task was to be done."""

    def each_turn(self) -> None:
        """Record tasks whose objects have reached the disk."""
        self._sync()

    def chosen(self, plan: ArrayPlan, numbers: list[int], *, first_pass: bool) -> list[int]:
        """The part's own."""
        own = self._division.numbers(plan, self._part, first_pass=first_pass)
        chosen = [number for number in numbers if number in own]
        self.moved = self.moved or bool(chosen)
        return chosen

    def waits(self) -> bool:
        """Whether own tasks wait for the first passes of other parts."""
        return any(
            numbers[0] < 0 and len(self._division.numbers(plan, self._part, first_pass=False))
            for plan, numbers in self.left
        )
