"""`finish`: removes the legacy metadata of an archive that was migrated in place, or the job file of a copy.

In an Icechunk repository, it moves the branch that readers see to what is whole, if some arrays failed.

Only documents that are unchanged since the migration are removed. All others are kept and reported.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final, Unpack

from zarrstack.core.errors import Problem
from zarrstack.core.paths import join
from zarrstack.system.this import system

from ..core.format_table import FORMATS
from ..core.problems import command
from ..errors import JobError
from ..planning.inventories import digest
from ..planning.plans import Plan
from ..recipe.keywords import JobPlaceKeywords, SourceOptionsKeywords, TakingOverKeywords
from ..recipe.options import JobPlace, PathText, Places, SourceOptions, TakingOver
from ..recipe.signatures import explicit, given
from ..storage.base import Storage
from ..storage.local.files import storage_error
from ..storage.local.storage import sync
from .branch import finish_branch
from .ledger.ledger import Job
from .opened_job import OpenResult, open_result, refuse_undone
from .outcome import Outcome, kept
from .ownership import documents
from .resume.lost_tasks import is_torn
from .resume.published_arrays import incomplete_arrays
from .source_check import changed_objects, remove_inventory

_AGAIN: Final = "Undo the job and migrate again."


class _Finishing(JobPlaceKeywords, SourceOptionsKeywords, TakingOverKeywords):
    """The options of `finish`."""


@explicit
def finish(target: PathText, **options: Unpack[_Finishing]) -> Outcome:
    """Remove the legacy metadata of an archive that was migrated in place, or the job file of a copy.

    `target` is the job file or the destination (in place, the source);
    `job` names the job file of a destination or source if it is not where jobs are looked for.
    `storage_options` open the archive. With `take_over`, an archive that another host has claimed is changed
    too.

    For an incomplete job of an Icechunk repository: leave out the arrays that failed, and let readers see the
    others.

    Requires that every node is migrated and that a verification has passed since. In place, each document is
    kept in the job file before it is deleted, so `undo` can restore it. A copy without its job file cannot be
    undone or updated.

    Raises
    ------
    JobError
        If nodes are not migrated or not verified since, or if another host has claimed the archive
        and `take_over` is not set.

    Examples
    --------
    >>> zarrlift.migrate("ocean.zarr", in_place=True).ok
    True
    >>> zarrlift.verify("ocean.zarr").ok
    True
    >>> zarrlift.finish("ocean.zarr").state
    'finished'
    """
    job_place, opening, taking_over = given(options, JobPlace, SourceOptions, TakingOver)
    both = Places(storage_options=opening.storage_options, dest_storage_options=opening.storage_options)
    with open_result(target, "finish", job_place, both, taking_over) as result:
        job, plan, place = result.job, result.plan, result.place
        if place.on_branch:
            state, left_out = finish_branch(job, place)
            return result.end(state, removed=left_out)
        outcome = _finished(result, both)
    if outcome.state == "finished" and not plan.in_place:
        _remove_files(job.path)
    return outcome


def _finished(result: OpenResult, both: Places) -> Outcome:
    """Remove legacy documents, or record that the job file is to be removed."""
    job, plan, place = result.job, result.plan, result.place
    if job.state == "finished":
        return result.end("nothing to do" if plan.in_place else "finished")
    _require_verified(job, plan)
    if not plan.in_place:
        if lacking := incomplete_arrays(job, both):
            return result.end("incomplete", lacking)
        job.note(state="finished")
        job.commit()
        return result.end("finished")
    legacy, problems = _legacy_documents(plan, place)
    if problems:
        return result.end("incomplete", problems)
    # The chunks belong to the result and may be written by its users.
    changed = [replace(note, severity="note") for note in changed_objects(job, plan, place)]
    warnings = [replace(problem, severity="warning") for problem in incomplete_arrays(job, both)]
    sync(place)  # the new documents, before the old ones are removed
    job.sync_commits()
    job.legacy.keep(legacy)
    job.commit()
    for key, _ in legacy:
        place.delete(key)
    job.note(state="finished")
    job.commit()
    return result.end("finished", (*changed, *warnings), removed=len(legacy))


def _remove_files(job: Path) -> None:
    """Remove a job file, which is closed, and the listing beside it; StorageError."""
    remove_inventory(job)
    try:
        system.unlink(str(job))
    except OSError as error:
        raise storage_error("cannot remove the job file", str(job), error) from error


def _require_verified(job: Job, plan: Plan) -> None:
    """Raise JobError unless every node is migrated, and verified since."""
    waiting = [row.path for row in job.nodes() if row.state != "done"]
    if job.state != "done" or waiting:
        raise JobError(
            "some nodes are not migrated",
            key=str(job.path),
            found=", ".join("/" + path for path in waiting[:5]) or job.state,
            advice="Resume the job first.",
        )
    refuse_undone(job)
    if job.fact("verified") is None:
        raise JobError(
            "the result has not been verified since it was written",
            key=str(job.path),
            advice=f"Run: {command('verify', plan.source)}",
        )


def _legacy_documents(plan: Plan, storage: Storage) -> tuple[list[tuple[str, bytes]], list[Problem]]:
    """The documents to remove, with their contents, and the problems that prevent their removal."""
    contents: list[tuple[str, bytes]] = []
    problems: list[Problem] = []
    pairs = [*plan.source_digests, *(pair for node in plan.published for pair in node.source_digests)]
    for path, content in documents(storage, (node.path for node in plan.published)):
        if content is None or is_torn(content):
            problems.append(kept("its zarr.json is gone", path, join(path, "zarr.json"), _AGAIN))
    for key, expected in pairs:
        content = storage.get(key)
        if content is None:  # deleted and kept by an earlier finish that was killed
            continue
        if digest(content) != expected:
            problems.append(kept("the document changed since it was migrated", None, key, _AGAIN))
        contents.append((key, content))
    name = FORMATS[plan.format].attributes
    planned = {key for key, _ in pairs}
    later = [key for node in plan.published if name and (key := join(node.path, name)) not in planned]
    for key, content in zip(later, storage.get_many(later), strict=True):
        if content is not None:
            problems.append(kept("the document was written after the migration", None, key, _AGAIN))
    return contents, problems
