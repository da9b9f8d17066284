"""`undo`: reverts a job.

Only objects that are provably written by the job are removed. All others are kept and reported.
"""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any, Final

from zarrstack.core.errors import Problem
from zarrstack.core.json_text import document
from zarrstack.core.paths import join

from ..archive.chunk_inventory import take_inventory
from ..planning.plans import ArrayPlan, GroupPlan, Plan
from ..storage.base import CLAIM, Storage
from ..storage.local.files import WRITTEN
from ..storage.local.scratch import LAYERED, directory_of
from ..storage.local.storage import LocalStorage
from ..storage.open_storage import open_storage
from ..storage.transformer_stack import with_layers
from ..storage.writer_for import writer_for
from ..transfer.tasks import sweep
from .claim import claimed, sweep_claim
from .ended import ended, kept
from .ledger.find_job import find_job
from .ledger.ledger import Job
from .outcome import Outcome
from .overwrite import left_aside, not_yet_aside, remove_deleted_tree, restore_previous_tree
from .parts.ledgers import refuse_running, scratch_directories, sweep_parts
from .provenance import CRATE, Provenance
from .publisher import is_root_document
from .resume.relocate import refuse_nothing_found, refuse_other_place
from .stored_inventories import remove_inventory
from .update.new_tree import drop_new_tree

_NOT_EMPTY: Final = frozenset({errno.ENOTEMPTY, errno.EEXIST})
"""Errors that systems raise for a directory that is not empty."""


def undo(
    target: str | os.PathLike[str],
    *,
    job: str | os.PathLike[str] | None = None,
    job_storage_options: Mapping[str, Any] | None = None,
    take_over: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    dest_storage_options: Mapping[str, Any] | None = None,
) -> Outcome:
    """Revert a job: restore what `finish` removed and delete exactly what the job wrote.

    `target` is the job file (a path, or a URL with `job_storage_options`), the destination or the source;
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
    started = time.monotonic()
    with Job.open(find_job(target, job, job_storage_options)) as opened:
        refuse_other_place(target, opened)
        plan = opened.plan()
        options = storage_options if plan.in_place else dest_storage_options
        place = open_storage(plan.destination, storage_options=options, mode="w")
        place.document_bound = WRITTEN
        if opened.fact("parts") is not None:
            refuse_running(opened.path, opened.id, take_over=take_over)
        if opened.state == "undone":
            sweep_claim(place, opened.path)
            return ended(opened, plan, "nothing to do", started)
        if place.on_branch:
            return _undo_on_branch(opened, plan, place, started, take_over=take_over)
        storage = with_layers(place, opened.fact("dest_through"))
        with claimed(place, opened.path, take_over=take_over) as claim:
            kept_aside = not_yet_aside(opened, place)
            if not kept_aside and left_aside(opened, place) is None:
                refuse_nothing_found(opened, plan, storage)
            opened.note(undoing="yes")
            opened.commit(now=True)
            problems: list[Problem] = []
            restored = removed = 0
            if not kept_aside:
                restored = _restored(opened, place)
                if isinstance(place, LocalStorage):
                    problems.extend(_sweep_own(place, opened))
                removed = _removed(opened, plan, storage, problems)
                if isinstance(place, LocalStorage) and not plan.in_place:
                    problems.extend(_sweep(place, {problem.key for problem in problems}))
                if (aside := restore_previous_tree(opened, place)) is not None:
                    problems.append(aside)
                remove_deleted_tree(opened, place)
                if opened.fact("update") is not None:
                    drop_new_tree(opened, place)
            # If something could not be removed, the next undo removes the rest.
            if not any(problem.kind == "storage" for problem in problems):
                sweep_parts(opened, place)
                opened.note(state="undone", verified=None, undoing=None)
                opened.commit()
                remove_inventory(opened.path)
            return claim.end(
                ended(opened, plan, "undone", started, problems, removed=removed, restored=restored)
            )


def _undo_on_branch(job: Job, plan: Plan, place: Storage, started: float, *, take_over: bool) -> Outcome:
    from .branch import undo_branch

    with claimed(place, job.path, take_over=take_over) as claim:
        problems = undo_branch(job, place)
        if not problems:
            job.note(state="undone", verified=None)
            job.commit()
            remove_inventory(job.path)
        return claim.end(ended(job, plan, "undone", started, list(problems), removed=0, restored=0))


def _restored(job: Job, storage: Storage) -> int:
    """Restore what `finish` removed, unless it exists again; returns the number of documents."""
    writer = writer_for(storage, job.id, fsync=False, in_place=True)
    restored = 0
    for key, content in job.legacy():
        if storage.get(key) is None:
            writer.write(key, content)
            restored += 1
    return restored


def _removed(job: Job, plan: Plan, storage: Storage, problems: list[Problem]) -> int:
    """Delete what the job wrote; returns the number of objects."""
    removed = _documents(job, plan, storage, problems)
    if plan.in_place:
        return removed
    published = {row.path: row.published_ns for row in job.nodes()}
    for group in plan.groups:
        removed += _files(group, storage, published.get(group.path), problems)
    for array in plan.arrays:
        removed += _chunks(array, storage, published.get(array.path), problems)
        sweep(array, storage)
    if job.fact("dest_through") is not None:
        _clear_hidden(plan, storage)
    return removed


def _clear_hidden(plan: Plan, storage: Storage) -> None:
    """Remove what layers keep of deleted objects, or of objects that a killed run did not complete."""
    from ..storage.remote.zarr_store import StoreStorage  # it imports zarr

    assert isinstance(storage, StoreStorage)
    for path in ["", *(node.path for node in plan.published if node.path)]:
        if next(storage.list_prefix(f"{path}/" if path else ""), None) is None:
            storage.clear(path)
            if not path:
                return


def _documents(job: Job, plan: Plan, storage: Storage, problems: list[Problem]) -> int:
    """Delete the job's documents, the root's first, so no reader sees an incomplete v3 tree."""
    removed = 0
    for node in plan.published:
        key = join(node.path, "zarr.json")
        content = storage.get(key)
        if content is None:
            continue
        ours = content == document(node.document)
        if ours or (node.path == "" and is_root_document(job, content)):
            storage.delete(key)
            removed += 1
        else:
            problems.append(kept("changed after the job wrote it, so it is kept", node.path, key))
    said = Provenance.from_text(job.fact("provenance"))
    if said is not None and said.in_crate and (content := storage.get(CRATE)) is not None:
        if content == said.crate(plan.format):
            storage.delete(CRATE)
            removed += 1
        else:
            problems.append(kept("changed after the job wrote it, so it is kept", "", CRATE))
    return removed


def _files(group: GroupPlan, storage: Storage, published_ns: int | None, problems: list[Problem]) -> int:
    """Delete the extra files copied with a group, by the rules of `_chunks`."""
    keys = (key for key in group.files if storage.size(key) is not None)
    return _delete(keys, group.path, storage, published_ns, problems)


def _chunks(array: ArrayPlan, storage: Storage, published_ns: int | None, problems: list[Problem]) -> int:
    """Delete the chunks of one array; chunks written after its `zarr.json` are not the job's and are kept."""
    layout = array.destination
    inventory = take_inventory(storage, array.path, layout)
    coordinates = map(layout.objects.coordinates, inventory.indexes.tolist())
    keys = (layout.key(array.path, place) for place in coordinates)
    return _delete(keys, array.path, storage, published_ns, problems)


def _delete(
    keys: Iterable[str], node: str, storage: Storage, published_ns: int | None, problems: list[Problem]
) -> int:
    removed = 0
    for key in keys:
        if _newer(storage, key, published_ns):
            problems.append(kept("changed after the job wrote it, so it is kept", node, key))
            continue
        storage.delete(key)
        removed += 1
    return removed


def _newer(storage: Storage, key: str, published_ns: int | None) -> bool:
    """Whether a local object was written after the array's `zarr.json`; stores do not provide this."""
    if published_ns is None or not isinstance(storage, LocalStorage):
        return False
    return os.lstat(storage.path(key)).st_mtime_ns > published_ns


def _sweep_own(storage: LocalStorage, job: Job) -> Iterator[Problem]:
    """Remove the job's own directories; yields a refusal for each that cannot be removed."""
    parts = [os.path.basename(path) for path in scratch_directories(job, storage)]
    for own in {directory_of(job.id): None, LAYERED: None, **dict.fromkeys(parts)}:
        shutil.rmtree(storage.path(own), ignore_errors=True)
        if os.path.lexists(storage.path(own)):
            yield _kept_directory(own, "it cannot be emptied")


def _sweep(storage: LocalStorage, told: AbstractSet[str | None]) -> Iterator[Problem]:
    """Remove every empty directory of a copy.

    Yields a refusal for each directory that cannot be removed, and a note for each that contains files of
    others. Keys in `told` are already reported.
    """
    if not storage.root.is_dir():
        return
    unlisted: list[Problem] = []

    def relative(place: str) -> str:
        return os.path.relpath(place, storage.root).replace(os.sep, "/")

    def missed(error: OSError) -> None:
        unlisted.append(_kept_directory(relative(error.filename), error.strerror or str(error)))

    for place, _, files in os.walk(storage.root, topdown=False, onerror=missed):
        key = relative(place)
        if key.partition("/")[0] in told or os.path.islink(place):
            continue  # already reported; or a root that is a link, which the job did not create
        try:
            os.rmdir(place)
        except OSError as error:
            if error.errno not in _NOT_EMPTY:
                yield _kept_directory(key, error.strerror or str(error))
            elif others := sorted(
                {join("" if key == "." else key, name) for name in files if name != CLAIM} - told
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
