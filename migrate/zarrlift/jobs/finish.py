"""`finish`: removes the legacy metadata of an archive that was migrated in place.

In an Icechunk repository, it moves the branch that readers see to what is whole, if some arrays failed.

Only documents that are unchanged since the migration are removed. All others are kept and reported.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Final, Unpack

from zarrstack.core.errors import JobError, Problem
from zarrstack.core.paths import join

from ..formats.registry import attributes_document
from ..planning.array_planner import digest
from ..planning.plans import Plan
from ..recipe.keywords import JobPlaceKeywords, SourceOptionsKeywords, TakingOverKeywords
from ..recipe.options import JobPlace, PathText, Places, SourceOptions, TakingOver
from ..recipe.signatures import explicit, given
from ..storage.base import Storage
from ..storage.icechunk.place import is_icechunk_url
from ..storage.local.files import WRITTEN
from ..storage.open_storage import open_storage
from .branch import finish_branch
from .claim import claimed, sweep_claim
from .command_line import command
from .ended import ended, kept
from .ledger.find_job import find_job, refuse_undone
from .ledger.ledger import Job
from .outcome import Outcome
from .resume.relocate import settle_result
from .stored_inventories import changed_objects

_AGAIN: Final = "Undo the job and migrate again."


class _Finishing(JobPlaceKeywords, SourceOptionsKeywords, TakingOverKeywords):
    """The options of `finish`."""


@explicit
def finish(target: PathText, **options: Unpack[_Finishing]) -> Outcome:
    """Remove the legacy metadata of an archive that was migrated in place.

    `target` is the job file (a path, or a URL with `job_storage_options`), the destination or the source;
    `job` names the job file of a destination or source if it is not where jobs are looked for.
    `storage_options` open the archive. With `take_over`, an archive that another host has claimed is changed
    too.

    For an incomplete job of an Icechunk repository: leave out the arrays that failed, and let readers see the
    others.

    Requires that every node is migrated and that a verification has passed since. Each document is kept in
    the job file before it is deleted, so `undo` can restore it.

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
    started = time.monotonic()
    job, places, taking_over = given(options, JobPlace, SourceOptions, TakingOver)
    storage_options, take_over = places.storage_options, taking_over.take_over
    with Job.open(find_job(target, job)) as opened:
        both = Places(storage_options=storage_options, dest_storage_options=storage_options)
        settle_result(opened, target, both)
        plan = opened.plan()
        if is_icechunk_url(plan.destination):
            place = open_storage(plan.destination, storage_options=storage_options, mode="w")
            with claimed(place, opened.path, take_over=take_over) as claim:
                state, left_out = finish_branch(opened, place)
                return claim.end(ended(opened, plan, state, started, removed=left_out))
        if not plan.in_place:
            raise JobError(
                "there is nothing to finish: a copy keeps its source",
                key=str(opened.path),
                advice="To take it back: zarrlift undo.",
            )
        if opened.state == "finished":
            sweep_claim(open_storage(plan.source, storage_options=storage_options, mode="w"), opened.path)
            return ended(opened, plan, "nothing to do", started)
        waiting = [row.path for row in opened.nodes() if row.state != "done"]
        if opened.state != "done" or waiting:
            raise JobError(
                "some nodes are not migrated",
                key=str(opened.path),
                found=", ".join("/" + path for path in waiting[:5]) or opened.state,
                advice="Resume the job first.",
            )
        refuse_undone(opened)
        if opened.fact("verified") is None:
            raise JobError(
                "the result has not been verified since it was written",
                key=str(opened.path),
                advice=f"Run: {command('verify', plan.source)}",
            )
        storage = open_storage(plan.source, storage_options=storage_options, mode="w")
        storage.document_bound = WRITTEN
        with claimed(storage, opened.path, take_over=take_over) as claim:
            found, problems = _legacy_documents(plan, storage)
            if problems:
                return claim.end(ended(opened, plan, "incomplete", started, problems))
            # The chunks belong to the result and may be written by its users.
            changed = [replace(note, severity="note") for note in changed_objects(opened, plan, storage)]
            opened.sync_commits()
            opened.legacy.keep(found)
            opened.commit(now=True)
            for key, _ in found:
                storage.delete(key)
            opened.note(state="finished")
            opened.commit()
            return claim.end(ended(opened, plan, "finished", started, changed, removed=len(found)))


def _legacy_documents(plan: Plan, storage: Storage) -> tuple[list[tuple[str, bytes]], list[Problem]]:
    """The documents to remove, with their contents, and the problems that prevent their removal."""
    found: list[tuple[str, bytes]] = []
    problems: list[Problem] = []
    pairs = [*plan.source_digests, *(pair for node in plan.published for pair in node.source_digests)]
    for node in plan.published:
        key = join(node.path, "zarr.json")
        if storage.get(key) is None:
            problems.append(kept("its zarr.json is gone", node.path, key, _AGAIN))
    for key, expected in pairs:
        content = storage.get(key)
        if content is None:  # deleted and kept by an earlier finish that was killed
            continue
        if digest(content) != expected:
            problems.append(kept("the document changed since it was migrated", None, key, _AGAIN))
        found.append((key, content))
    name = attributes_document(plan.format)
    known = {key for key, _ in pairs}
    later = [key for node in plan.published if name and (key := join(node.path, name)) not in known]
    for key, content in zip(later, storage.get_many(later), strict=True):
        if content is not None:
            problems.append(kept("the document was written after the migration", None, key, _AGAIN))
    return found, problems
