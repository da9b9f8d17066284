"""Runs one part of a job."""

from __future__ import annotations

import sys
import time
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Unpack

from zarrstack.core.errors import UsageError

from ...errors import Interrupted
from ...planning.plans import ArrayPlan, Plan
from ...recipe.keywords import PlacesKeywords, RunningKeywords, WatchingKeywords
from ...recipe.options import JobPlace, PathText, Places, Running, VerifyLevel, Watching
from ...recipe.signatures import explicit, given
from ...storage.base import Storage
from ...storage.local.storage import LocalStorage
from .. import log_messages
from ..checks.checks import LocalChecks
from ..disk_sync import sync
from ..ledger.find_job import job_of_parts, refuse_undone
from ..ledger.last_run import noted_run
from ..ledger.ledger import Job
from ..ledger.rows import NodeRow, RecordedTask
from ..ledger.snapshot import snapshot
from ..opened_job import found_job, require_parts
from ..option_words import option_words
from ..outcome import Outcome
from ..processes.executors import RunOptions
from ..progress import ProgressChoice
from ..run import Run
from ..stored_inventories import planned_inventories
from .division import Division
from .ledgers import ledgers_of, own_ledger, readers
from .part_index import part_index
from .shares import PartShare


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """What a part reads from its job."""

    job_id: str
    index: int
    """Counted from 0."""
    plan: Plan
    """The arrays of which the part has tasks, unless they are published."""
    division: Division
    rows: dict[str, tuple[NodeRow, str | None]]
    """Their rows and rounds, by path."""
    recorded: dict[str, dict[int, RecordedTask]]
    """Their tasks that the job has recorded, by path."""
    complete: bool
    """Whether the job is."""
    options: tuple[str, ...]


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
    file is only read; what is done is recorded in a ledger next to it, and published by `gather`. A part that
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
    with snapshot(path) as opened:
        known = _part(opened, index)
        digest, hard_links = opened.fact("digest") is not None, opened.fact("link") == "hard"
    found = found_job(path, "part", JobPlace(), places, RunOptions.of(running), verify=verify)
    ends = found.ends
    # Others have to know what has reached the disk.
    fsync = running.fsync or (ends.local_destination is not None and sys.platform != "linux")
    run_options = replace(found.options, fsync=fsync, digest=digest, hard_links=hard_links)
    nothing = Outcome(
        job=str(path), state="nothing to do", part=index, options=known.options, plan=known.plan
    )
    if known.complete:
        return nothing
    with (
        ends.observed(progress, watching) as run,
        own_ledger(path, known.job_id, index) as ledger,
    ):
        ledger.parts.adopt(known.rows[array.path] for array in known.plan.arrays)
        ledger.commit()
        share = PartShare(known.division, known.index, _recorded_elsewhere(path, ledger, known, ends.place))
        checks = LocalChecks(ends.source, ends.destination)
        with noted_run(ledger), closing(planned_inventories(path, known.job_id)) as inventories, checks:
            try:
                outcome = Run(
                    ledger, known.plan, ends, run_options, checks, inventories, run.progress, share
                )()
            except Interrupted:
                raise Interrupted(str(path), known.options) from None
            finally:
                _flush(ledger, ends.place)
        if outcome.state == "done" and not share.moved and not share.waits():
            outcome = nothing
        outcome = replace(
            outcome,
            job=str(path),
            part=index,
            options=known.options,
            second_pass=share.waits(),
            seconds=time.monotonic() - started,
        )
        log_messages.ended(outcome)
        return run.end(outcome)


def _part(job: Job, index: int) -> _Part:
    """What one part has to know; UsageError if there is no such part."""
    division, plan = divided(job)
    parts = int(job.fact("parts") or 0)
    refuse_undone(job)
    if not 0 <= index < parts:
        raise UsageError("the job has no such part", found=str(index), expected=f"0 to {parts - 1}")
    rows = {row.path: (row, job.parts.round(row.id)) for row in job.nodes("array") if row.state != "done"}
    arrays = [
        _share_of(array, numbers)
        for array in plan.arrays
        if array.path in rows
        and (
            numbers := [
                *division.numbers(array, index, first_pass=True),
                *division.numbers(array, index, first_pass=False),
            ]
        )
    ]
    return _Part(
        job_id=job.id,
        index=index,
        plan=replace(plan, arrays=tuple(arrays), groups=(), refusals=(), problems=()),
        division=division,
        rows=rows,
        recorded={array.path: job.recorded(rows[array.path][0].id) for array in arrays},
        complete=job.state != "incomplete",
        options=option_words(job),
    )


def divided(job: Job) -> tuple[Division, Plan]:
    """The division of a job in parts and its plan; UsageError for another job."""
    parts = require_parts(job)
    plan = job.plan()
    return Division(plan.arrays, parts), plan


def _share_of(array: ArrayPlan, numbers: list[int]) -> ArrayPlan:
    """The plan of an array with the amounts of some of its tasks, for the progress."""
    first = 0 if array.between is None else max(len(array.between.bounds) - 1, 0)
    total = array.tasks + first
    amounts = {
        name: getattr(array, name) * len(numbers) // total
        for name in ("chunks", "bytes_in", "bytes_out", "reads", "objects_out")
    }
    return replace(array, **amounts)


def _recorded_elsewhere(
    path: Path, ledger: Job, known: _Part, destination: Storage
) -> dict[str, dict[int, RecordedTask]]:
    """Tasks of the part's arrays that the job, or the part on another machine, has recorded."""
    found = known.recorded
    rounds = {row.id: number for row, number in known.rows.values()}
    paths = {row.id: row.path for row, _ in known.rows.values()}
    others = [other for other in ledgers_of(path, known.index) if other.path != ledger.path]
    with readers(others, known.job_id, destination, []) as each:
        for reader in each:
            for row in reader.tasks(rounds):
                recorded = found.setdefault(paths[row.node], {})
                recorded[row.number] = RecordedTask(row.chunks, row.dropped)
    return found


def _flush(ledger: Job, destination: Storage) -> None:
    """Flush the part's files to disk, so that its machine may fail without a loss."""
    if isinstance(destination, LocalStorage) and ledger.unsynced() and sync(destination):
        ledger.record_synced()
        ledger.commit()
