"""Repairs the effects of a system crash: recorded work that had not reached the disk.

After a power failure, a file that was written and renamed may be empty, filled with zeros or missing, unless
it was flushed (by `--fsync`, or by the periodic sync of a long run).
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from zarrstack.core.errors import ZarrstackError
from zarrstack.core.paths import join

from ...archive.chunk_inventory import Indexes, Inventory
from ...planning.inventories import Inventories
from ...planning.plans import ArrayPlan, Plan
from ...planning.regrid.blocks import available_cores
from ...planning.source_inventory import SourceInventory
from ...storage.base import Storage
from ...storage.local.owner_process import boot_id
from ..ledger.last_run import last_run
from ..ledger.ledger import Job
from ..provenance import CRATE
from .lost_tasks import written

_UNCOMPARED: Final = "uncompared"
"""A fact of a job of which work that a crash may have lost could not be compared."""


def may_be_lost(job: Job) -> bool:
    """Whether the system on which the work was recorded has restarted since, or is unknown.

    Or whether this was so for an earlier run, which could not compare all of the work.
    """
    last = last_run(job)
    here = boot_id()
    return job.fact(_UNCOMPARED) is not None or last is None or not here or last.owner.boot != here


def find_torn_documents(job: Job, destination: Storage) -> None:
    """Mark nodes whose `zarr.json` is missing or torn as not published; StorageError.

    The same for the root, if the file that describes its origin is not as it was written. Torn documents are
    removed, also those whose record was lost.
    """
    provenance = job.record.provenance
    for row in job.nodes():
        if row.kind == "refusal":
            continue
        key = join(row.path, "zarr.json")
        content = destination.get(key)
        if content is not None and is_torn(content):
            destination.delete(key)
            content = None
        if row.state != "done":
            continue
        if content is not None:
            if row.path or provenance is None or not provenance.in_crate:
                continue
            if destination.get(CRATE) == provenance.crate(job.header["format"]):
                continue
        job.record_node(row.id, "pending")
    job.commit()


def is_torn(document: bytes) -> bool:
    """Whether a document is not JSON, as after a power failure."""
    try:
        json.loads(document)
    except ValueError:
        return True
    return False


def compare_unsynced(
    job: Job, plan: Plan, source: Storage, destination: Storage, inventories: Inventories
) -> None:
    """Compare work that had not reached the disk with the source, and mark wrong tasks as not done.

    The `zarr.json` of visible arrays is removed first. StorageError.
    """
    plans = {array.path: array for array in plan.arrays}
    listed_now = SourceInventory(plan, source)
    unsynced = job.unsynced()
    uncompared = None
    for row in job.nodes("array"):
        array = plans.get(row.path)
        numbers = unsynced.get(row.id)
        if array is None or not numbers:
            continue
        inventory = inventories.get(array.path) or listed_now(array)
        wrong = _wrong_tasks(array, inventory, source, destination, numbers)
        if wrong is None:  # the source changed, which is reported elsewhere
            uncompared = "yes"
            continue
        if wrong and listed_now(array).fingerprint != array.fingerprint:
            continue  # it was listed before that; an array that an update keeps may have no source at all
        if wrong and row.state == "done":
            _take_down(job, plan, destination, row.path)
            job.record_node(row.id, "pending")
        job.forget_tasks(row.id, wrong)
    if uncompared is None:
        job.record_synced()
    job.note(**{_UNCOMPARED: uncompared})
    job.commit()


def _wrong_tasks(
    plan: ArrayPlan,
    inventory: Inventory,
    source: Storage,
    destination: Storage,
    numbers: set[int],
) -> set[int] | None:
    """The tasks with wrong values; None if the source no longer exists in that state."""
    from ...verification.before_publishing import both_sides  # slow to load

    if inventory.fingerprint != plan.fingerprint:
        return None
    if plan.between is not None:
        return numbers  # intermediate data of two passes cannot be compared
    try:
        objects = written(plan, inventory, source)
        values = both_sides(plan, source, destination)
        with ThreadPoolExecutor(available_cores(), thread_name_prefix="zarrlift-check") as pool:
            return {
                number
                for number in numbers
                if any(
                    compared.problems
                    for compared in values.objects(_of_task(objects.indexes, objects.numbers, number), pool)
                )
            }
    except ZarrstackError:
        return numbers


def _take_down(job: Job, plan: Plan, destination: Storage, path: str) -> None:
    """Hide an array, also from consolidated metadata, until it is correct."""
    destination.delete(join(path, "zarr.json"))
    for row in job.nodes("group"):
        if row.path == "" and row.state == "done" and plan.consolidate:
            destination.delete("zarr.json")
            job.record_node(row.id, "pending")


def _of_task(indexes: Indexes, numbers: Indexes, number: int) -> list[int]:
    selection: list[int] = indexes[numbers == number].tolist()
    return selection
