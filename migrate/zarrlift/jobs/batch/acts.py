"""What a batch does with one archive, which is what the commands for one do, and the plan of a dry run."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from zarrstack.core.errors import Problem, ZarrstackError

from ...errors import JobError
from ...planning.blocks import available_cores, memory_budget
from ...planning.plans import Plan
from ...recipe.options import JobPlace, Moved, Places, Updating, values
from ...storage.local.partial_files import sweep_partial
from ...storage.open_storage import is_url, open_storage
from ...transfer.unexpected_errors import unexpected_error
from ..archive_run import ArchiveRequest, migrate_archive
from ..claim import sweep_claim
from ..endpoints import Endpoints
from ..executors import RunOptions
from ..finish import finish
from ..ledger.database import HeldError
from ..ledger.ledger import Job
from ..opened_job import claim_and_open, unclaimed_job
from ..progress import Progress
from ..refusals import refuse_unmet
from ..resume.published_arrays import incomplete_arrays
from ..source_check import remove_inventory
from ..undo import undo
from ..update.update import update_job
from ..verification import verify
from .rows import ArchiveState, BatchRow, RowRequest
from .state import COMPLETE, LARGE, reason_path, remove_reason, state


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveCall:
    """One archive, and what it is worked on with."""

    row: BatchRow
    options: RunOptions
    places: Places
    progress: Progress | None
    beside: int = 1
    """Archives that are run at the same time."""

    @property
    def job(self) -> Path:
        """Where its job file is, or will be."""
        return Path(self.row.job)

    @property
    def request(self) -> ArchiveRequest:
        """What is asked for it; each place gets the options that are for places like it."""
        row, places = self.row, self.places
        return _Request(
            source=row.source,
            destination=None if row.in_place else row.destination,
            **values(row.request, RowRequest),
            storage_options=places.storage_options if is_url(row.source) else None,
            dest_storage_options=places.dest_storage_options if is_url(row.destination) else None,
            beside=self.beside,
        )


Act: TypeAlias = Callable[[ArchiveCall], tuple[Problem, ...] | None]
"""What is done with each archive, in any thread; returns its problems, or raises one.

None if another process does it.
"""


class LargeArchive(Exception):  # noqa: N818 - no error
    """An archive is to be run alone."""


@dataclass(frozen=True, kw_only=True)
class _Request(ArchiveRequest):
    """What is asked for an archive that may be run beside others."""

    beside: int

    def planned(self, ends: Endpoints, **how: Any) -> Plan:
        """As for one archive; raises `LargeArchive` for one that is not to be run beside others."""
        plan = super().planned(ends, **how)
        if self.beside > 1 and _is_large(plan, self.beside):
            raise LargeArchive
        return plan


def _is_large(plan: Plan, beside: int) -> bool:
    nbytes = sum(array.bytes_in for array in plan.arrays)
    memory = max((array.memory or 0 for array in plan.arrays), default=0)
    return nbytes >= LARGE or memory * beside > memory_budget(plan.recipe.memory)


def migrate_one(call: ArchiveCall) -> tuple[Problem, ...] | None:
    """Migrate an archive, or resume its job, unless another process has its claim, or has done it."""
    row = call.row
    if row.state not in COMPLETE and row.begun() and state(row).state in COMPLETE:
        return None
    if row.state in COMPLETE and not may_be_restored(row) and not incomplete(row, call.places):
        return None
    options = replace(call.options, verify=row.request.verify)
    try:
        ends = call.request.open().limited(options.limit)
        outcome = migrate_archive(call.request, ends, call.job, options, call.progress)
        if row.state in ("incomplete", "failed", "refused") and any(map(_is_changed, outcome.problems)):
            return update_one(call, updating=Updating())  # also what an earlier run has published
    except HeldError:  # also of a process that has given its claim back, and closes its job next
        return None
    # Another process may have done it after the look above.
    return None if outcome.state == "nothing to do" and not outcome.problems else outcome.problems


def _is_changed(problem: Problem) -> bool:
    """Whether a problem is that of a source that was changed or replaced."""
    return problem.kind == "source-changed" and problem.severity == "refusal"


def incomplete(row: BatchRow, places: Places) -> tuple[Problem, ...]:
    """A problem for each published array of a complete archive that lacks objects; changes nothing."""
    call = ArchiveCall(row=row, options=RunOptions(), places=places, progress=None)
    with Job.open(call.job, write=False) as job:
        return incomplete_arrays(job, call.request)


def may_be_restored(row: BatchRow) -> bool:
    """Whether an archive that was migrated in place may have been restored since: its document is gone."""
    is_local = row.in_place and row.state in COMPLETE and not is_url(row.destination)
    return is_local and not os.path.lexists(os.path.join(row.destination, "zarr.json"))


def verify_one(call: ArchiveCall, /, *, full: bool) -> tuple[Problem, ...]:
    """Compare a result with its source; the job of one that is equal says so."""
    options = call.options
    with options.heeding_stop():
        report = verify(
            call.job,
            full=full,
            **values(call.places, Places),
            executor=None if options.engine is None else options.executor,
            workers=options.workers,
            bwlimit=options.limit,  # type: ignore[arg-type]  # shared by all archives
        )
    return tuple(report.problems)


def update_one(call: ArchiveCall, /, *, updating: Updating) -> tuple[Problem, ...]:
    """Bring a result up to date with its source."""
    row = call.row
    if not row.begun():
        return row.problems  # nothing of it could be migrated
    unclaimed = unclaimed_job(
        call.job,
        "update",
        JobPlace(),
        call.places,
        call.options,
        moved=Moved() if row.in_place else Moved(source=row.source),  # of two, the one that the list names
        verify=row.request.verify,
    )
    with claim_and_open(unclaimed, call.progress) as open_job:
        return open_job.end(update_job(open_job, updating)).problems


def finish_one(call: ArchiveCall) -> tuple[Problem, ...]:
    """Remove the legacy metadata of an archive that was migrated in place and verified."""
    if call.row.verified is None:
        raise JobError(
            "the result has not been verified since it was written", advice="Verify the batch first."
        )
    opening = call.places.storage_options
    return finish(call.job, take_over=call.options.take_over, storage_options=opening).problems


def undo_one(call: ArchiveCall) -> tuple[Problem, ...]:
    """Take back what was written, and what a run left that was killed before the archive had a job."""
    row = call.row
    if row.begun():
        problems = undo(call.job, take_over=call.options.take_over, **values(call.places, Places)).problems
        remove_reason(row)
        return problems
    for path in (row.job, reason_path(row)):
        sweep_partial(path)
    remove_reason(row)
    remove_inventory(call.job)
    options = call.places.of_result(in_place=row.in_place)
    if not is_url(row.destination) and os.path.isdir(os.path.dirname(row.destination)):
        with suppress(ZarrstackError):  # in place, the archive may be gone
            sweep_claim(open_storage(row.destination, storage_options=options, mode="w"), call.job)
    return ()


def plan_one(row: BatchRow, places: Places) -> BatchRow:
    """An archive with what planning finds, if it has no job; nothing is written."""
    if row.begun():
        return row
    request = ArchiveCall(row=row, options=RunOptions(), places=places, progress=None).request
    try:
        ends = request.open()
        request.refuse_places(ends, Path(row.job))
        plan = request.planned(ends)
        refuse_unmet(plan)
    except ZarrstackError as error:
        now: ArchiveState = "failed" if isinstance(error, JobError) else "refused"
        return replace(row, state=now, problems=(error.problem,))
    except Exception as error:  # noqa: BLE001 - see `unexpected_error`
        return replace(row, state="failed", problems=(unexpected_error("", error),))
    problems = [problem for problem in plan.problems if problem.severity == "refusal"]
    problems += [problem for refusal in plan.refusals for problem in refusal.problems]
    return replace(
        row,
        format=plan.format,
        state="refused" if plan.refusals and not plan.arrays else "pending",
        problems=tuple(problems),
        arrays=len(plan.arrays) + sum(refusal.kind == "array" for refusal in plan.refusals),
        objects=sum(array.chunks for array in plan.arrays),
        bytes_in=sum(array.bytes_in for array in plan.arrays),
        large=_is_large(plan, available_cores()),
    )
