"""Finds published arrays that lack some of what was recorded, and lets the job write it again where it may.

An array is hidden and written again only if that replaces nothing of others: its document is the job's, no
object was written after it, the source is unchanged, and the directories of the missing objects are gone.
zarr deletes the file of a chunk that is set to its fill value, and leaves its directory: that may be a change
by a user. Other arrays are reported and left as they are.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Final

import numpy as np

from zarrstack.core.errors import Problem, ZarrstackError
from zarrstack.core.paths import join

from ...archive.chunk_inventory import UNLISTED, Inventory, take_inventory
from ...planning.plans import ArrayPlan, Plan
from ...planning.source_inventory import SourceInventory
from ...recipe.options import JobPlace, PathText, Places
from ...storage.base import Storage
from ...storage.local.storage import LocalStorage
from ...storage.open_storage import open_storage
from ...storage.transformer_stack import with_layers
from ..ledger.find_job import find_job
from ..ledger.ledger import Job
from ..ledger.rows import NodeRow
from ..ours import documents, whose
from ..outcome import Outcome
from ..stored_inventories import last_inventories
from .lost_tasks import MissingObjects, first_keys, missing_objects, take_down

_DOCUMENT: Final = MissingObjects(
    tasks=frozenset(), absent=np.empty(0, np.int64), count=1, keys=("zarr.json",)
)


def hide_incomplete(
    job: Job, source: Storage, destination: Storage, *, force: bool = False
) -> tuple[Problem, ...]:
    """Hide the published arrays that lack objects and may be repaired; the problems of all others.

    The job is incomplete then. With `force`, only the source must be unchanged. StorageError.
    """
    plan, problems = job.plan(), []
    _hide_begun(job, plan, destination)
    for row, array, missing, reason in _incomplete(job, plan, source, destination, force=force):
        if reason is not None:
            problems.append(_problem(array, missing, reason))
            continue
        job.forget_tasks(row.id, missing.tasks)
        job.record_node(row.id, "pending")
        job.note(state="incomplete", verified=None, hiding=row.path)
        job.commit()
        _hide_begun(job, plan, destination)
    return tuple(problems)


def _hide_begun(job: Job, plan: Plan, destination: Storage) -> None:
    """Hide the array that the job has recorded for it, unless its document is one of others by now."""
    path = job.fact("hiding")
    if path is None:
        return
    content = destination.get(join(path, "zarr.json"))
    array = next((array for array in plan.arrays if array.path == path), None)
    if array is not None and (content is None or whose(job, array, content) == "current"):
        take_down(job, plan, destination, path)
    job.note(hiding=None)
    job.commit()


def incomplete_arrays(target: PathText, place: JobPlace, places: Places) -> tuple[Problem, ...]:
    """A problem for each published array of a job that lacks objects; changes nothing.

    The source may be gone. JobError, UsageError, StorageError.
    """
    with Job.open(find_job(target, place), write=False) as job:
        plan = job.plan()
        options = places.of_result(in_place=plan.in_place)
        opened = open_storage(plan.destination, storage_options=options, mode="w")
        source = destination = with_layers(opened, job.record.dest_through)
        if not plan.in_place:
            opened = open_storage(plan.source, storage_options=places.storage_options, mode="w")
            source = with_layers(opened, job.record.source_through)
        incomplete = _incomplete(job, plan, source, destination, force=False)
        return tuple(
            _problem(array, missing, reason or "resume the job to write them again")
            for _, array, missing, reason in incomplete
        )


def _incomplete(
    job: Job, plan: Plan, source: Storage, destination: Storage, *, force: bool
) -> Iterator[tuple[NodeRow, ArrayPlan, MissingObjects, str | None]]:
    """Rows, plans, what is missing, and why that may not be repaired."""
    rows = {row.path: row for row in job.nodes("array") if row.state == "done"}
    arrays = [array for array in plan.arrays if array.path in rows]
    listed_now = SourceInventory(plan, source)
    contents = documents(destination, [array.path for array in arrays])
    with closing(last_inventories(job)) as inventories:
        for array, (_, content) in zip(arrays, contents, strict=True):
            row = rows[array.path]
            missing = _missing(job, row, array, inventories.stored(array), source, destination)
            if content is None:
                missing = missing or _DOCUMENT
            if missing is None:
                continue
            reason = None if force else _edited(job, plan, row, array, missing, content, destination)
            try:
                unchanged = listed_now(array).fingerprint == array.fingerprint
            except ZarrstackError:
                unchanged = False
            if not unchanged or (array.route.name == "stay" and missing is not _DOCUMENT):
                reason = "the source no longer has these chunks as they were"
            elif array.changes is not None and not missing.tasks and missing is not _DOCUMENT:
                reason = "an update has replaced the record of these objects"
            yield row, array, missing, reason


def _missing(
    job: Job,
    row: NodeRow,
    array: ArrayPlan,
    inventory: Inventory | None,
    source: Storage,
    destination: Storage,
) -> MissingObjects | None:
    """What a listing of the array lacks; None if that is nothing, or cannot be known."""
    if inventory is None and array.fingerprint == UNLISTED:
        everything = np.arange(array.source.objects.total, dtype=np.int64)
        return missing_objects(array, everything, source, destination, job.recorded(row.id))
    if inventory is None or not destination.can_list:
        return None
    missing = missing_objects(array, inventory.indexes, source, destination, job.recorded(row.id))
    one_to_one = array.move.block_shape is None and not array.move.drop_empty
    stays = array.route.name == "stay"
    if missing is not None or not (stays or (array.changes is not None and one_to_one)):
        return missing
    # An update has recorded only what it has written.
    layout = array.source if stays else array.destination
    stored = take_inventory(destination, array.path, layout, names_only=True).indexes
    absent = np.setdiff1d(inventory.indexes, stored, assume_unique=True)
    if not len(absent):
        return None
    keys = first_keys(array.path, layout, absent)
    return MissingObjects(tasks=frozenset(), absent=absent, count=len(absent), keys=keys)


def _others_root(job: Job, plan: Plan, destination: Storage) -> bool:
    """Whether others have changed a root that is hidden with each array."""
    root = next((group for group in plan.groups if not group.path), None)
    content = destination.get("zarr.json") if plan.consolidate and root is not None else None
    return root is not None and content is not None and whose(job, root, content) == "others"


def _edited(
    job: Job,
    plan: Plan,
    row: NodeRow,
    array: ArrayPlan,
    missing: MissingObjects,
    content: bytes | None,
    destination: Storage,
) -> str | None:
    """Why others may have changed an array on purpose; None if they have not."""
    if content is None:
        return "its document was removed"
    if whose(job, array, content) != "current":
        return "others have changed its document"
    if _others_root(job, plan, destination):
        return "others have changed the document of the root, which contains that of the array"
    if not isinstance(destination, LocalStorage) or row.published_ns is None:
        return "they may have been deleted on purpose, which a store does not show"
    layout = array.destination
    stored = take_inventory(destination, array.path, layout)
    if stored.versions is not None and (stored.versions > row.published_ns).any():
        return "others have written to the array since"
    places = map(tuple, layout.objects.coordinates_of(missing.absent).tolist())
    directories = {layout.key(array.path, place).rpartition("/")[0] for place in places}
    if any(os.path.isdir(destination.path(directory)) for directory in directories):
        return "they may have been deleted on purpose: zarr deletes chunks that are set to the fill value"
    return None


def _problem(array: ArrayPlan, missing: MissingObjects, reason: str) -> Problem:
    again = "Put them back, or write them again from an unchanged source with: zarrlift update --force."
    in_place = "If they were deleted on purpose, leave them so; otherwise put them back."
    return Problem(
        kind="result-changed",
        node=array.path,
        message="a published array lacks objects that the job wrote",
        key=join(array.path, "zarr.json"),
        found=f"{missing} missing; {reason}",
        advice=in_place if array.route.name == "stay" else again,
    )


def with_problems(outcome: Outcome, problems: tuple[Problem, ...]) -> Outcome:
    """The outcome with the problems of published arrays too."""
    return replace(outcome, problems=(*outcome.problems, *problems)) if problems else outcome
