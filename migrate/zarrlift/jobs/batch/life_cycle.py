"""What happens to the archives of a batch after their migration: verify, update, finish, undo."""

from __future__ import annotations

from zarrstack.core.errors import JobError, Problem

from ...recipe.options import JobPlace, Places, Updating, values
from ..finish import finish
from ..opened_job import found_job, opened
from ..undo import undo
from ..update.update_job import update_job
from ..verification import verify
from .run_batch import Act, ArchiveCall


def verify_all(*, full: bool) -> Act:
    """Compare each result with its source; the ledger of one that is equal says so."""

    def act(call: ArchiveCall) -> tuple[Problem, ...]:
        options = call.options
        report = verify(
            call.ledger,
            full=full,
            **values(call.places, Places),
            executor=None if options.engine is None else options.executor,
            dask_address=options.dask_address if options.engine is not None else None,
            workers=options.workers,
        )
        return tuple(report.problems)

    return act


def update_all(updating: Updating) -> Act:
    """Bring each result up to date with its source."""

    def act(call: ArchiveCall) -> tuple[Problem, ...]:
        if not call.ledger.exists():
            return call.row.problems  # nothing of it could be migrated
        verify = call.asked.verify
        found = found_job(call.ledger, "update", JobPlace(), call.places, call.options, verify=verify)
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
    return finish(call.ledger, take_over=call.options.take_over, storage_options=opening).problems


def undo_one(call: ArchiveCall) -> tuple[Problem, ...]:
    """Take back what was written; archives of which nothing was begun count as undone."""
    if not call.ledger.exists():
        return ()
    return undo(call.ledger, take_over=call.options.take_over, **values(call.places, Places)).problems
