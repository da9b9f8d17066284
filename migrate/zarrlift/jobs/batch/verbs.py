"""What the commands do with each archive of a batch: migrate, verify, update, finish, undo."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from zarrstack.core.errors import Problem, ZarrstackError

from ...errors import JobError
from ...recipe.options import JobPlace, Places, Updating, values
from ...storage.base import BESIDE
from ...storage.local.partial_files import sweep_partial
from ...storage.local.sibling_names import sibling
from ...storage.open_storage import is_url, open_storage
from ..archive_run import migrate_archive
from ..claim import HeldError, sweep_claim
from ..finish import finish
from ..opened_job import found_job, opened
from ..stored_inventories import remove_inventory
from ..undo import undo
from ..update.update_job import update_job
from ..verification import verify
from .rows import COMPLETE, BatchRow, of_job
from .run_batch import Act, ArchiveCall


def migrate(call: ArchiveCall) -> tuple[Problem, ...] | None:
    """Migrate an archive, or resume its job, unless another process has its claim, or has done it."""
    row, wanted = call.row, call.row.request
    if row.state not in COMPLETE and row.begun() and of_job(row).state in COMPLETE:
        return None
    request = call.request()
    options = replace(
        call.options, verify=wanted.verify, digest=wanted.digest, hard_links=wanted.link == "hard"
    )
    try:
        ends = request.open().limited(options.limit)
        outcome = migrate_archive(request, ends, call.job, options, call.progress)
    except HeldError:
        return None
    # Another process may have done it after the look above.
    return None if outcome.state == "nothing to do" and not outcome.problems else outcome.problems


def may_be_restored(row: BatchRow) -> bool:
    """Whether an archive that was migrated in place may have been restored since: its document is gone."""
    is_local = row.in_place and row.state in COMPLETE and not is_url(row.destination)
    return is_local and not os.path.lexists(os.path.join(row.destination, "zarr.json"))


def verify_all(*, full: bool) -> Act:
    """Compare each result with its source; the job of one that is equal says so."""

    def act(call: ArchiveCall) -> tuple[Problem, ...]:
        options = call.options
        report = verify(
            call.job,
            full=full,
            **values(call.places, Places),
            executor=None if options.engine is None else options.executor,
            dask_address=options.dask_address if options.engine is not None else None,
            workers=options.workers,
            bwlimit=options.limit,  # type: ignore[arg-type]  # shared by all archives
        )
        return tuple(report.problems)

    return act


def update_all(updating: Updating) -> Act:
    """Bring each result up to date with its source."""

    def act(call: ArchiveCall) -> tuple[Problem, ...]:
        if not call.row.begun():
            return call.row.problems  # nothing of it could be migrated
        verify = call.row.request.verify
        found = found_job(call.job, "update", JobPlace(), call.places, call.options, verify=verify)
        with opened(found, call.progress) as it:
            return it.end(update_job(it, updating)).problems

    return act


def finish_one(call: ArchiveCall) -> tuple[Problem, ...]:
    """Remove the legacy metadata of an archive that was migrated in place and verified."""
    if call.row.verified is None:
        raise JobError(
            "the result has not been verified since it was written", advice="Verify the batch first."
        )
    opening = call.places.storage_options
    return finish(call.job, take_over=call.options.take_over, storage_options=opening).problems


def may_be_claimed(row: BatchRow) -> bool:
    """Whether an undo that was killed may have left its claim; in a store, only a request could tell."""
    return is_url(row.destination) or os.path.lexists(sibling(Path(row.destination), BESIDE))


def undo_one(call: ArchiveCall) -> tuple[Problem, ...]:
    """Take back what was written, and what a run left that was killed before the archive had a job."""
    if call.row.begun():
        return undo(call.job, take_over=call.options.take_over, **values(call.places, Places)).problems
    sweep_partial(str(call.job))
    remove_inventory(call.job)
    place, options = call.row.destination, call.places.of_result(in_place=call.row.in_place)
    if not is_url(place) and os.path.isdir(os.path.dirname(place)):
        with suppress(ZarrstackError):  # in place, the archive may be gone
            sweep_claim(open_storage(place, storage_options=options, mode="w"), call.job)
    return ()
