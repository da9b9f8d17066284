"""Finds published arrays that lack some of what was recorded, and lets the job write it again where it may.

An array is hidden and written again only if that replaces nothing of others: its document is the job's, no
object was written after it, the source is unchanged, and the directories of the missing objects are gone.
zarr deletes the file of a chunk that is set to its fill value, and leaves its directory: that may be a change
by a user. Other arrays are reported and left as they are.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Final

import numpy as np

from zarrstack.core.errors import Problem, ZarrstackError
from zarrstack.core.paths import join

from ...archive.chunk_inventory import Inventory, take_inventory
from ...core.problems import warning
from ...core.units import count_text
from ...planning.inventories import SourceInventory
from ...planning.plans import ArrayPlan, Plan
from ...recipe.options import Places
from ...storage.base import Storage
from ...storage.giving_up import Threads, result_of
from ...storage.local.storage import LocalStorage
from ...storage.open_storage import open_storage
from ...storage.transformer_stack import with_layers
from .. import log_messages
from ..ledger.ledger import Job
from ..ledger.schema import NodeRow, RecordedTask
from ..outcome import Outcome
from ..ownership import documents, missing_documents, whose
from ..refusals import follow_links_in_place, require_root
from ..source_check import last_inventories
from .lost_tasks import NAMED, MissingObjects, first_keys, missing_objects, others_root, take_down

_REMOVED: Final = "they were removed while the job was running: resume it to write them again"
_DOCUMENT: Final = MissingObjects(
    tasks=frozenset(), absent=np.empty(0, np.int64), count=1, keys=("zarr.json",)
)
_NOT_KNOWN: Final = replace(_DOCUMENT, keys=())
_AT_ONCE: Final = 32
_BATCH: Final = 250


def hide_incomplete(
    job: Job,
    plan: Plan,
    source: Storage,
    destination: Storage,
    *,
    force: bool = False,
    ended: bool = False,
    no_list: bool = False,
) -> tuple[Problem, ...]:
    """Hide the published arrays that lack objects and may be repaired; the problems of all others.

    The job is incomplete then. With `force`, only the source must be unchanged. `ended`: nothing is repaired
    in this run, so the problems are those of all. `no_list`: only what an earlier run began to hide is
    hidden. StorageError.
    """
    problems: list[Problem] = []
    _hide_begun(job, plan, destination)
    if no_list:
        return ()
    unchecked: list[str] = []
    incomplete = _incomplete(job, plan, source, destination, unchecked, force=force, moved=ended)
    for row, array, missing, reason in incomplete:
        if reason is not None or ended:
            problems.append(_problem(array, missing, reason or _REMOVED, destination))
        if reason is not None:
            continue
        job.forget_tasks(row.id, missing.tasks)
        job.record_node(row.id, "pending")
        job.note(state="incomplete", verified=None, hiding=row.path)
        job.commit()
        _hide_begun(job, plan, destination)
    return (*problems, *_not_checked(unchecked))


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


def incomplete_arrays(job: Job, places: Places) -> tuple[Problem, ...]:
    """A problem for each published array of a job that lacks objects, and for documents; changes nothing.

    The source may be gone. JobError, UsageError, StorageError.
    """
    plan = job.plan()
    options = places.of_result(in_place=plan.in_place)
    opened = open_storage(plan.destination, storage_options=options, mode="w")
    require_root(job, opened)
    follow_links_in_place(opened, follow_links=plan.reading.follow_links, in_place=plan.in_place)
    source = destination = with_layers(opened, job.record.dest_through)
    if not plan.in_place:
        try:
            opened = open_storage(plan.source, storage_options=places.storage_options)
        except ZarrstackError:
            opened = LocalStorage(plan.source)  # without objects
        source = with_layers(opened, job.record.source_through)
    unchecked: list[str] = []
    problems = [
        _problem(array, missing, reason or "resume the job to write them again", destination)
        for _, array, missing, reason in _incomplete(job, plan, source, destination, unchecked)
    ]
    gone = None if problems else missing_documents(job, destination, ())
    return (*problems, *(() if gone is None else (gone.problem,)), *_not_checked(unchecked))


def _incomplete(
    job: Job,
    plan: Plan,
    source: Storage,
    destination: Storage,
    unchecked: list[str],
    *,
    force: bool = False,
    moved: bool = False,
) -> Iterator[tuple[NodeRow, ArrayPlan, MissingObjects, str | None]]:
    """Rows, plans, what is missing, and why that may not be repaired.

    `unchecked` receives the paths of arrays of which it is not known whether all objects are there. With
    `moved`, arrays whose chunks stay in place are left out.
    """
    rows = {row.path: row for row in job.nodes("array") if row.state == "done"}
    skipped = "stay" if moved else None
    arrays = [array for array in plan.arrays if array.path in rows and array.route.name != skipped]
    if not plan.in_place:
        for array in arrays:
            if not array.tasks:  # whose directory is not listed
                destination.refuse_links(array.path)
    listed_now = SourceInventory(plan, source)
    contents = documents(destination, [array.path for array in arrays])
    with closing(last_inventories(job)) as inventories:
        questions = (
            partial(_missing, array, inventories.stored(array), listed_now, destination, recorded)
            for array in arrays
            for recorded in (job.recorded(rows[array.path].id),)
        )
        results = _answers(questions, destination)
        for array, result, (_, content) in zip(arrays, results, contents, strict=True):
            row = rows[array.path]
            missing = _DOCUMENT if content is None and result is None else result
            if missing is _NOT_KNOWN:
                unchecked.append(array.path)
            if missing is None or missing is _NOT_KNOWN:
                continue
            reason = None if force else _edited(job, plan, row, array, missing, content, destination)
            if not _is_unchanged(array, listed_now) or (
                array.route.name == "stay" and missing is not _DOCUMENT
            ):
                reason = "the source no longer has these chunks as they were"
            elif array.changes is not None and not missing.tasks and missing is not _DOCUMENT:
                reason = "an update has replaced the record of these objects"
            yield row, array, missing, reason


def _answers(
    questions: Iterator[Callable[[], MissingObjects | None]], destination: Storage
) -> Iterator[MissingObjects | None]:
    """The answers in their order, many at a time if requests have latency."""
    if destination.requests is None:
        yield from (ask() for ask in questions)
        return
    with Threads(_AT_ONCE, "zarrlift-list") as threads:
        while batch := [threads.submit(ask) for ask in islice(questions, _BATCH)]:
            for future in batch:
                yield result_of(future)


def _missing(
    array: ArrayPlan,
    inventory: Inventory | None,
    listed_now: SourceInventory,
    destination: Storage,
    recorded: Mapping[int, RecordedTask],
) -> MissingObjects | None:
    """What a listing of the array lacks; None if that is nothing, `_NOT_KNOWN` if nothing is known."""
    stays = array.route.name == "stay"
    if not destination.can_list or not (array.tasks or stays or array.changes is not None):
        return None
    present = None if inventory is None else inventory.indexes
    missing = missing_objects(array, present, destination, recorded)
    if missing is not None or not (stays or array.changes is not None):
        return missing
    # An update has recorded only what it has written; of chunks that stay, nothing is recorded.
    if present is None:
        return None if _is_unchanged(array, listed_now) and stays else _NOT_KNOWN
    if not stays and (array.move.block_shape is not None or array.move.values.drop_empty):
        return None
    layout = array.source if stays else array.destination
    stored = take_inventory(destination, array.path, layout, names_only=True).indexes
    absent = np.setdiff1d(present, stored, assume_unique=True)
    if not len(absent):
        return None
    keys = first_keys(array.path, layout, absent)
    return MissingObjects(tasks=frozenset(), absent=absent, count=len(absent), keys=keys)


def _is_unchanged(array: ArrayPlan, listed_now: SourceInventory) -> bool:
    """Whether the source has the objects for which an array was planned."""
    try:
        return listed_now(array).fingerprint == array.fingerprint
    except ZarrstackError:
        return False


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
    if others_root(job, plan, destination):
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


def _problem(array: ArrayPlan, missing: MissingObjects, reason: str, destination: Storage) -> Problem:
    advice = "Put them back, or write them again from an unchanged source with: zarrlift update --force."
    if array.route.name == "stay":
        advice = "If they were deleted on purpose, leave them so; otherwise put them back."
    elif destination.on_branch:
        advice = "Put them back, or undo the job and migrate again."
    return Problem(
        kind="result-changed",
        node=array.path,
        message="a published array lacks objects that the job wrote",
        key=join(array.path, "zarr.json"),
        found=f"{missing} missing; {reason}",
        advice=advice,
    )


def _not_checked(paths: list[str]) -> tuple[Problem, ...]:
    """A warning about arrays of which some objects may be missing."""
    if not paths:
        return ()
    names = ", ".join("/" + path for path in paths[:NAMED]) + (", ..." if len(paths) > NAMED else "")
    return (
        warning(
            "result-changed",
            "some published arrays could not be checked for missing objects: the stored listing of the source"
            " is gone, and the source has changed or cannot be listed",
            found=f"{count_text(len(paths), 'array')} ({names})",
            advice="Compare the result with a copy of the source: zarrlift verify.",
        ),
    )


def with_problems(outcome: Outcome, problems: tuple[Problem, ...]) -> Outcome:
    """The outcome with the problems of published arrays too, each of which is logged."""
    new = tuple(problem for problem in dict.fromkeys(problems) if problem not in outcome.problems)
    for problem in new:
        if problem.severity == "refusal":
            log_messages.failed((problem,))
    return replace(outcome, problems=(*outcome.problems, *new))
