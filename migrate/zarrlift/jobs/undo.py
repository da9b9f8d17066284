"""`undo`: reverts a job.

Only objects that are provably written by the job are removed. All others are kept and reported.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import replace
from typing import Final, Unpack

from zarrstack.core.errors import Problem, StorageError, ZarrstackError
from zarrstack.core.paths import ancestors, join
from zarrstack.system.this import system

from ..planning.plans import ArrayPlan, Plan, Published
from ..recipe.keywords import JobPlaceKeywords, PlacesKeywords, TakingOverKeywords
from ..recipe.options import JobPlace, PathText, Places, StorageOptions, TakingOver
from ..recipe.signatures import explicit, given
from ..storage.base import CLAIM, Storage
from ..storage.local.files import is_dir
from ..storage.local.own_names import LAYERED, directory_of
from ..storage.local.storage import LocalStorage, sync
from ..storage.open_storage import open_storage
from ..storage.remote.store_writer import writer_for
from ..transfer.tasks import sweep
from .branch import undo_branch
from .ledger.ledger import Job
from .opened_job import OpenResult, open_result
from .outcome import Outcome, kept
from .overwrite import left_aside, not_yet_aside, remove_deleted_tree, restore_previous_tree
from .ownership import OwnObjects, PresentDocuments
from .resume.relocate import refuse_nothing_found
from .source_check import remove_inventory

_NOT_EMPTY: Final = frozenset({errno.ENOTEMPTY, errno.EEXIST})
"""Errors that systems raise for a directory that is not empty."""


class _Undoing(JobPlaceKeywords, PlacesKeywords, TakingOverKeywords):
    """The options of `undo`."""


@explicit
def undo(target: PathText, **options: Unpack[_Undoing]) -> Outcome:
    """Revert a job: restore what `finish` removed and delete exactly what the job wrote.

    `target` is the job file or the destination (in place, the source);
    `job` names the job file of a destination or source if it is not where jobs are looked for.
    `storage_options` and `dest_storage_options` open the source and the destination. With `take_over`, a
    place that another host has claimed is changed too.

    Objects that were changed since are kept and reported in the outcome's problems.

    Raises
    ------
    JobError
        If there is no such job, or another host has claimed the place and `take_over` is not set.

    Examples
    --------
    >>> zarrlift.migrate("ocean.zarr", "new.zarr").ok
    True
    >>> zarrlift.undo("new.zarr").state
    'undone'
    """
    job_place, places, taking_over = given(options, JobPlace, Places, TakingOver)
    with open_result(target, "undo", job_place, places, taking_over) as result:
        job, plan, place = result.job, result.plan, result.place
        if job.state == "undone":
            remove_inventory(job.path)  # an undo may have been killed before it did
            return result.end("nothing to do")
        problems: list[Problem] = []
        restored = removed = 0
        if place.on_branch:
            problems += undo_branch(job, place)
        else:
            kept_aside = not_yet_aside(job, place)
            if not kept_aside and left_aside(job, place) is None:
                refuse_nothing_found(job, plan, result.storage)
            if next(iter(job.legacy), None) is not None:
                job.sync_commits()  # nothing else has those documents
            job.note(undoing="yes")
            job.commit()
            if not kept_aside:
                restored = _restored(job, place)
                removed = _undone(result, places.storage_options, problems)
        # If something could not be removed, the next undo removes the rest.
        if not any(problem.kind == "storage" for problem in problems):
            if plan.in_place:
                sync(place)  # what was removed would come back on btrfs
            job.note(state="undone", verified=None, undoing=None)
            job.commit()
            remove_inventory(job.path)
        return result.end("undone", problems, removed=removed, restored=restored)


def _undone(result: OpenResult, source_options: StorageOptions, problems: list[Problem]) -> int:
    """Remove what the job wrote, and restore what it replaced; returns the number of objects removed."""
    job, plan, place = result.job, result.plan, result.place
    if isinstance(place, LocalStorage):
        problems.extend(_sweep_own(place, job))
    documents = PresentDocuments.of(job, plan, result.storage)
    problems += documents.problems()
    source = _source_of_links(job, plan, source_options)
    removed = _removed(result, source, documents, problems)
    if isinstance(place, LocalStorage) and not plan.in_place:
        if not any(problem.kind == "storage" for problem in problems):
            # From now on, a job that was moved may find nothing: only directories are left.
            job.note(undoing="emptied")
            job.commit()
        keys = {problem.key for problem in problems}
        problems.extend(_sweep(place, keys, documents.kept & documents.arrays))
    if (aside := restore_previous_tree(job, place)) is not None:
        problems.append(aside)
    remove_deleted_tree(job, place)
    return removed


def _restored(job: Job, storage: Storage) -> int:
    """Restore what `finish` removed, unless it exists again; returns the number of documents."""
    writer = writer_for(storage, job.id, fsync=True, in_place=True)
    restored = 0
    for key, content in job.legacy:
        if storage.get(key) is None:
            writer.write(key, content)
            restored += 1
    writer.settle()
    return restored


def _source_of_links(job: Job, plan: Plan, options: StorageOptions) -> Storage | None:
    """The source of a job whose chunks are hard links, if it still exists; None otherwise."""
    if job.record.link != "hard":
        return None
    with suppress(ZarrstackError):
        return open_storage(plan.source, storage_options=options)
    return None


def _removed(
    result: OpenResult, source: Storage | None, documents: PresentDocuments, problems: list[Problem]
) -> int:
    """Delete what the job wrote, except for nodes that remain visible; returns the number of objects."""
    job, plan, storage = result.job, result.plan, result.storage
    for path in documents.removable:  # the root's first, so no reader sees an incomplete v3 tree
        storage.delete(join(path, "zarr.json"))
    removed = len(documents.removable)
    if plan.in_place:
        return removed
    objects = OwnObjects(job, source, storage)
    rows = {row.path: row for row in job.nodes()}
    visible = documents.kept
    nodes: list[Published] = [*plan.groups, *plan.arrays]
    for node in nodes:
        for key, is_others in () if node.path in visible else objects.of_node(node, rows[node.path]):
            if is_others:
                problems.append(kept("changed after the job wrote it, so it is kept", node.path, key))
            else:
                storage.delete(key)
                removed += 1
        if isinstance(node, ArrayPlan):
            sweep(node, storage)
    return removed


def _sweep_own(storage: LocalStorage, job: Job) -> Iterator[Problem]:
    """Remove the job's own directories; yields a refusal for each that cannot be removed."""
    for own in (directory_of(job.id), LAYERED):
        with suppress(StorageError):
            storage.delete_tree(own)
        if os.path.lexists(storage.path(own)):
            yield _kept_directory(own, "it cannot be emptied")


def _sweep(
    storage: LocalStorage, reported: AbstractSet[str | None], visible: AbstractSet[str]
) -> Iterator[Problem]:
    """Remove every empty directory of a copy.

    Yields a refusal for each directory that cannot be removed, and a note for each that contains files of
    others. Keys in `reported` have a problem already, and so have those of arrays that remain `visible`.
    """
    if not is_dir(storage.root):
        return
    unlisted: list[Problem] = []
    root = system.long_path(str(storage.root))

    def relative(place: str) -> str:
        return os.path.relpath(place, root).replace(os.sep, "/")

    def missed(error: OSError) -> None:
        unlisted.append(_kept_directory(relative(error.filename), error.strerror or str(error)))

    for place, _, files in os.walk(root, topdown=False, onerror=missed):
        key = relative(place)
        if key.partition("/")[0] in reported or os.path.islink(place):
            continue  # already reported; or a root that is a link, which the job did not create
        if not visible.isdisjoint(ancestors(f"{key}/")):
            continue
        try:
            storage.delete_empty("" if key == "." else key)
        except OSError as error:
            if error.errno not in _NOT_EMPTY:
                yield _kept_directory(key, error.strerror or str(error))
            elif others := sorted(
                {join("" if key == "." else key, name) for name in files if name != CLAIM} - reported
            ):
                message = "files that the job did not write are kept, with their directory"
                yield replace(kept(message, None, others[0]), severity="note")
    yield from unlisted


def _kept_directory(key: str, why: str) -> Problem:
    return Problem(
        kind="storage",
        message="a directory cannot be removed",
        key=key,
        found=why,
        advice="Check why, then run undo again.",
    )
