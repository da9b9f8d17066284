"""Finds recorded tasks whose output is missing, or wrong after a system crash; they are then repeated.

The former needs one listing of names and sizes for each array that a resume continues, and does not detect
wrong file contents. After a power failure, a file that was written and renamed may be empty, filled with
zeros or missing, unless it was flushed (by `--fsync`, or by the periodic sync of a long run): what had not
reached the disk is compared with the source.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from zarrstack.core.errors import StorageError, ZarrstackError
from zarrstack.core.paths import join
from zarrstack.system.this import system

from ...archive.chunk_inventory import Indexes, Inventory, take_inventory
from ...archive.nodes import Layout
from ...core.grid.grid import Grid
from ...core.grid.overlap import touched
from ...core.units import count_text
from ...planning.blocks import available_cores
from ...planning.inventories import Inventories, SourceInventory
from ...planning.plans import ArrayPlan, Plan
from ...storage.base import Storage
from ...storage.giving_up import Threads
from ...transfer.tasks import changed_units, inner_chunks_reached
from ..ledger.last_run import last_run
from ..ledger.ledger import Job
from ..ledger.schema import RecordedTask
from ..ownership import documents, whose

NAMED: Final = 3
"""Keys named for each array."""
_UNCOMPARED: Final = "uncompared"
"""A fact of a job of which work that a crash may have lost could not be compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenObjects:
    """The objects written by the tasks of one pass, with the task that writes each."""

    layout: Layout
    indexes: Indexes
    """Linear indexes of the layout's objects, ascending; an upper bound of what is written."""
    numbers: Indexes
    """Task number of each object."""

    @classmethod
    def of(
        cls,
        layout: Layout,
        indexes: Indexes,
        bounds: Sequence[int],
        block_shape: tuple[int, ...] | None,
        *,
        first_pass: bool = False,
    ) -> WrittenObjects:
        """`bounds` and `block_shape` are those of the pass in the plan."""
        units = indexes
        if block_shape is not None and layout.shape:
            blocks, shape = Grid(layout.shape, block_shape), np.array(layout.object_shape)
            units = blocks.indices_of(layout.objects.coordinates_of(indexes) * shape // np.array(block_shape))
        places = np.searchsorted(np.array(bounds, dtype=np.int64), units, side="right") - 1
        return cls(layout=layout, indexes=indexes, numbers=-1 - places if first_pass else places)

    def whole(
        self, stored: Inventory, sizes: Indexes | None = None
    ) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Whether each object exists and is not empty, and has its size in `sizes`, unless that is -1."""
        if not len(stored.indexes):
            return np.zeros(len(self.indexes), dtype=bool)
        at, whole = self._found(stored)
        if stored.sizes is not None and self.layout.data_type.itemsize != 0 and not self.layout.opaque:
            whole &= stored.sizes[at] > 0
            if sizes is not None:
                whole &= (stored.sizes[at] == sizes) | (sizes < 0)
        return np.asarray(whole)

    def stored_bytes(self, stored: Inventory, tasks: int) -> dict[int, int]:
        """The bytes stored of the objects of each task; empty without sizes."""
        if stored.sizes is None or not len(stored.indexes):
            return {}
        at, exists = self._found(stored)
        totals = np.zeros(tasks, np.int64)
        np.add.at(totals, self.numbers[exists], stored.sizes[at[exists]])
        return dict(enumerate(totals.tolist()))

    def _found(self, stored: Inventory) -> tuple[Indexes, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
        """Where each object is in a listing that is not empty, and whether it is there."""
        at = np.minimum(np.searchsorted(stored.indexes, self.indexes), len(stored.indexes) - 1)
        return at, np.asarray(stored.indexes[at] == self.indexes)


def written(plan: ArrayPlan, inventory: Inventory, source: Storage) -> WrittenObjects:
    """The output of an array's only or second pass; StorageError, ChunkError."""
    layout = plan.destination
    if plan.move.block_shape is None:
        return _by_task(plan, inventory.indexes)
    inner_chunks = inner_chunks_reached(plan, inventory, source)
    objects = layout.objects
    indexes = (
        np.arange(objects.total, dtype=np.int64)
        if inner_chunks is None
        else touched(inner_chunks, layout.grid, objects)
    )
    return _by_task(plan, indexes)


def lost_tasks(
    plan: ArrayPlan,
    inventory: Inventory,
    destination: Storage,
    recorded: Mapping[int, RecordedTask],
) -> set[int]:
    """Numbers of recorded tasks of which objects are missing; `inventory` is the source's. StorageError."""
    if not recorded or not destination.can_list:
        return set()
    missing = missing_objects(
        plan, inventory.indexes, destination, recorded, sizes=inventory.sizes, names_only=False
    )
    lost = set() if missing is None else set(missing.tasks)
    if plan.between is None or {number for number in recorded if number >= 0} - lost == {*range(plan.tasks)}:
        return lost  # intermediate data of two passes is deleted when both are done
    stored = take_inventory(destination, plan.path, plan.between.layout)
    present = stored.indexes if stored.sizes is None else stored.indexes[stored.sizes > 0]
    return lost | lost_between(plan, present, recorded)


def lost_between(plan: ArrayPlan, present: Indexes, recorded: Mapping[int, RecordedTask]) -> set[int]:
    """Numbers of the recorded tasks of a first of two passes of which intermediate objects are missing.

    `present` are those that exist. The number of objects of each task is recorded.
    """
    assert plan.between is not None
    layout, bounds = plan.between.layout, plan.between.bounds
    existing = WrittenObjects.of(layout, present, bounds, plan.between.block_shape, first_pass=True)
    count = Counter(existing.numbers.tolist())
    return {number for number, task in recorded.items() if number < 0 and task.objects > count[number]}


def refuse_lost_between(plan: ArrayPlan, present: Indexes, recorded: Mapping[int, RecordedTask]) -> None:
    """Raise StorageError if the intermediate array lacks some of what the first of two passes has written.

    `present` are the intermediate objects that exist: missing ones would become fill values.
    """
    if plan.between is not None and lost_between(plan, present, recorded):
        raise StorageError(
            "chunks of the intermediate array are missing",
            key=plan.between.layout.root,
            advice="Resume: the first pass is repeated.",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingObjects:
    """What the destination lacks of the recorded work of an array."""

    tasks: frozenset[int]
    """Numbers of the tasks that wrote it."""
    absent: Indexes
    """Linear indexes of their absent objects, of those too that may have been omitted as empty."""
    count: int
    keys: tuple[str, ...]
    """The first ones; none if some objects may have been omitted as empty."""

    def __str__(self) -> str:
        names = f" ({', '.join(self.keys)}{', ...' if self.count > len(self.keys) else ''})"
        return count_text(self.count, "object") + (names if self.keys else "")


def missing_objects(
    plan: ArrayPlan,
    present: Indexes | None,
    destination: Storage,
    recorded: Mapping[int, RecordedTask],
    *,
    sizes: Indexes | None = None,
    names_only: bool = True,
) -> MissingObjects | None:
    """What a listing lacks of the recorded work of an array's only or second pass; StorageError.

    The number of objects of each task is recorded. `present` are the source's objects, by which missing ones
    are named; None if they are not known. An object that is empty counts as missing if the listing has sizes
    (that of local files does not with `names_only`). With the `sizes` of the source's objects, so does one
    that was copied unchanged and has another size, if its task has written another number of bytes in all:
    what comes after the end of a chunk is not copied.
    """
    if not plan.tasks or not destination.can_list:
        return None
    stored = take_inventory(destination, plan.path, plan.destination, names_only=names_only)
    blocks = plan.move.block_shape is not None
    if present is None or blocks:
        present, sizes = stored.indexes, None
    if not plan.route.copies or any(problem.kind == "trailing-bytes" for problem in plan.problems):
        sizes = None
    objects = _by_task(plan, present)
    if sizes is not None:
        sizes = sizes[np.searchsorted(present, objects.indexes)]
        nbytes = objects.stored_bytes(stored, plan.tasks)
        as_written = [number for number, task in recorded.items() if task.bytes_out == nbytes.get(number)]
        sizes = np.where(np.isin(objects.numbers, as_written), -1, sizes)
    whole = objects.whole(stored, sizes)
    count = np.bincount(objects.numbers[whole], minlength=plan.tasks)
    lacking = {}
    for number, task in recorded.items():
        of_task = task.objects if blocks else task.chunks - task.dropped
        if number >= 0 and of_task > count[number]:
            lacking[number] = of_task - int(count[number])
    if not lacking:
        return None
    if present is stored.indexes:
        objects = _by_task(plan, np.arange(plan.destination.objects.total, dtype=np.int64))
        whole = objects.whole(stored)
    absent = objects.indexes[~whole & np.isin(objects.numbers, list(lacking))]
    total = sum(lacking.values())
    keys = first_keys(plan.path, plan.destination, absent) if len(absent) == total else ()
    return MissingObjects(tasks=frozenset(lacking), absent=absent, count=total, keys=keys)


def _by_task(plan: ArrayPlan, indexes: Indexes) -> WrittenObjects:
    """Those of the destination's objects that the tasks of the only or second pass may write."""
    layout, shape, only = plan.destination, plan.move.block_shape, changed_units(plan)
    if only is not None:
        if shape is not None:
            only = touched(only, Grid(plan.source.shape, shape), layout.objects)
        indexes = np.intersect1d(indexes, only, assume_unique=True)
    objects = WrittenObjects.of(layout, indexes, plan.bounds, shape)
    inside = (objects.numbers >= 0) & (objects.numbers < plan.tasks)
    return replace(objects, indexes=objects.indexes[inside], numbers=objects.numbers[inside])


def first_keys(path: str, layout: Layout, indexes: Indexes) -> tuple[str, ...]:
    """The keys of the first objects, to name them."""
    return tuple(layout.key(path, layout.objects.coordinates(index)) for index in indexes[:NAMED].tolist())


def may_be_lost(job: Job) -> bool:
    """Whether the system on which the work was recorded has restarted since, or is unknown.

    Or whether this was so for an earlier run, which could not compare all of the work.
    """
    last = last_run(job)
    here = system.boot()
    return job.fact(_UNCOMPARED) is not None or last is None or not here or last.owner.boot != here


def find_torn_documents(job: Job, destination: Storage) -> None:
    """Mark nodes whose `zarr.json` is missing or torn as not published; StorageError.

    Torn documents are removed, also those whose record was lost.
    """
    rows = {row.path: row for row in job.nodes() if row.kind != "refusal"}
    for path, content in documents(destination, rows):
        torn = content is not None and is_torn(content)
        if torn:
            destination.delete(join(path, "zarr.json"))
        if rows[path].state == "done" and (torn or content is None):
            job.record_node(rows[path].id, "pending")
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
            take_down(job, plan, destination, row.path)
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
    from ...verification.passed_through import differing_objects

    if inventory.fingerprint != plan.fingerprint:
        return None
    if plan.between is not None:
        return numbers  # intermediate data of two passes cannot be compared
    try:
        objects = written(plan, inventory, source)
        if plan.route.name == "pass":
            by_task = ((number, objects.indexes[objects.numbers == number]) for number in numbers)
            ends = source, destination
            return {
                number
                for number, some in by_task
                if any(differing_objects(plan.path, plan.source, some, *ends))
            }
        values = both_sides(plan, source, destination)
        with Threads(available_cores(), "zarrlift-check") as pool:
            return {
                number
                for number in numbers
                if any(
                    compared.problems
                    for compared in values.objects(objects.indexes[objects.numbers == number].tolist(), pool)
                )
            }
    except ZarrstackError:
        return numbers


def take_down(job: Job, plan: Plan, destination: Storage, path: str) -> None:
    """Hide an array until it is correct, also from consolidated metadata that others have not changed."""
    destination.delete(join(path, "zarr.json"))
    if others_root(job, plan, destination):
        return
    for row in job.nodes("group"):
        if row.path == "" and row.state == "done" and plan.consolidate:
            destination.delete("zarr.json")
            job.record_node(row.id, "pending")


def others_root(job: Job, plan: Plan, destination: Storage) -> bool:
    """Whether others have changed a root that is hidden with each array."""
    root = plan.root
    content = destination.get("zarr.json") if plan.consolidate and root is not None else None
    return root is not None and content is not None and whose(job, root, content) == "others"
