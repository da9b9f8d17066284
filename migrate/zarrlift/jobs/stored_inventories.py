"""The file beside a job that holds the inventories of its source."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

from zarrstack.core.errors import Problem, ZarrstackError

from ..archive.chunk_inventory import Inventory
from ..archive.inventory_file import InventoryFile
from ..planning.inventories import Inventories
from ..planning.plans import ArrayPlan, Plan
from ..planning.source_inventory import SourceInventory, changed_keys
from ..storage.base import Storage
from ..storage.local.presence import exists
from .ledger.ledger import Job
from .source_check import source_changed

_SUFFIX: Final = ".inventory"

log: Final = logging.getLogger("zarrlift")


def inventory_path(job: Path) -> Path:
    """The path of the inventory of the job in this file."""
    return job.with_name(job.name + _SUFFIX)


def has_inventory(job: Path) -> bool:
    """Whether the listings of a job are stored."""
    return exists(inventory_path(job))


def keep_inventory(job: Job, inventories: Inventories) -> None:
    """Keep the listings of a job for later runs of it: in its file, or in the file that they have."""
    if (content := inventories.to_keep()) is not None:
        job.listing.keep(content)
        job.commit()
    else:
        inventories.complete()


def _lists_slowly(source: Storage) -> bool:
    return source.requests is not None and source.can_list and not source.in_process


def remove_inventory(job: Path) -> None:
    """Delete the stored listings of a job; a failure is only logged."""
    path = inventory_path(job)
    try:
        path.unlink(missing_ok=True)
        _later(job).unlink(missing_ok=True)
    except OSError as error:
        log.warning("%s: cannot delete the stored listing of the source: %s", job, error)


def new_inventories(job: Path, id: str, source: Storage) -> Inventories:
    """Where the listings of a new job are put: in a file if the source is a store, where they take long.

    Those of other sources go into the job file in the end.
    """
    if _lists_slowly(source):
        return Inventories(InventoryFile.create(inventory_path(job), id))
    return Inventories(InventoryFile.temporary(id))


def later_inventories(job: Job, source: Storage) -> Inventories:
    """Where the listings of an update are put, until `replace_inventory`."""
    if _lists_slowly(source) or exists(inventory_path(job.path)):
        return Inventories(InventoryFile.create(_later(job.path), job.id))
    return Inventories(InventoryFile.temporary(job.id))


def _later(job: Path) -> Path:
    path = inventory_path(job)
    return path.with_name(path.name + ".new")


def replace_inventory(job: Job, inventories: Inventories) -> None:
    """Let the listings of an update take the place of earlier ones; a failure is only logged."""
    if exists(_later(job.path)) and inventories.complete():
        try:
            os.replace(_later(job.path), inventory_path(job.path))
        except OSError as error:
            log.warning("%s: cannot store the listing of the source: %s", job.path, error)
    keep_inventory(job, inventories)


def planned_inventories(job: Path, id: str) -> Inventories:
    """The listings of which the plan of a job was made, to read."""
    return Inventories(InventoryFile.open(inventory_path(job), id))


def last_inventories(job: Job) -> Inventories:
    """The same, of a job that may have them in its file."""
    if has_inventory(job.path):
        return planned_inventories(job.path, job.id)
    return Inventories(InventoryFile.temporary(job.id, job.listing.pieces()))


def earlier_inventories(job: Job, plan: Plan, source: Storage) -> Inventories:
    """The listings of an earlier run of a job.

    They replace listings that take long, if an object is compared with its listed version when it is read. An
    array whose source changed is listed again: another attempt would fail as the last one did.
    """
    file = InventoryFile.open(inventory_path(job.path), job.id, write=True)
    if file is None:
        return new_inventories(job.path, job.id, source)
    changed = {
        row.path
        for row in job.nodes("array")
        if any(problem.kind == "source-changed" for problem in row.problems)
    }
    usable = plan.arrays if source.tells_versions and _lists_slowly(source) else ()
    return Inventories(file, {array.path: array for array in usable if array.path not in changed})


def changed_objects(job: Job, plan: Plan, source: Storage) -> Iterator[Problem]:
    """A problem for each array of which objects changed since they were listed for the plan; StorageError.

    The source is listed again; without a stored inventory, nothing is compared.
    """
    listed_now = SourceInventory(plan, source)
    with closing(planned_inventories(job.path, job.id)) as inventories:
        for array in plan.arrays:
            before = inventories.stored(array)
            if before is None:
                continue
            try:
                now = listed_now(array)
            except ZarrstackError as error:
                raise error.at(node=array.path) from None
            yield from change_since(array, before, now)


def change_since(array: ArrayPlan, before: Inventory, now: Inventory) -> Iterator[Problem]:
    """The problem of an array of which objects changed since its plan was made from another listing."""
    if now.fingerprint != array.fingerprint:
        yield source_changed(
            array.path,
            "objects of the source were written, added or deleted since the plan was made",
            found=changed_keys(array, before, now),
        )
