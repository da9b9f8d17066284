"""What is recorded as written and is not there any more: those tasks are done again.

One listing of names and sizes of each array that a resume goes on with. That a file holds what was written
to it, it cannot tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from zarrstack.core.grid.grid import Grid
from zarrstack.core.grid.overlap import touched

from ...archive.chunk_inventory import Indexes, Inventory, take_inventory
from ...archive.nodes import Layout
from ...planning.plans import ArrayPlan
from ...storage.base import Storage
from ...transfer.tasks import leaves_reached
from ..ledger.rows import Recorded


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The objects that the tasks of one pass write, and which task writes each."""

    layout: Layout
    indexes: Indexes
    """Linear indexes of objects of the layout, ascending; at most those that are written."""
    numbers: Indexes
    """Number of the task of each."""

    @classmethod
    def of(
        cls,
        layout: Layout,
        indexes: Indexes,
        bounds: Sequence[int],
        block_shape: tuple[int, ...] | None,
        *,
        first_pass: bool = False,
    ) -> Written:
        """`bounds` and `block_shape` are those of the pass, as a plan has them."""
        units = indexes
        if block_shape is not None and layout.shape:
            blocks, shape = Grid(layout.shape, block_shape), np.array(layout.object_shape)
            units = blocks.indices_of(layout.objects.coordinates_of(indexes) * shape // np.array(block_shape))
        places = np.searchsorted(np.array(bounds, dtype=np.int64), units, side="right") - 1
        return cls(layout=layout, indexes=indexes, numbers=-1 - places if first_pass else places)

    def whole(
        self, there: Inventory, sizes: Indexes | None = None
    ) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Whether each object is there, with something in it, or with these `sizes` where they are known."""
        if not len(there.indexes):
            return np.zeros(len(self.indexes), dtype=bool)
        at = np.minimum(np.searchsorted(there.indexes, self.indexes), len(there.indexes) - 1)
        whole = there.indexes[at] == self.indexes
        if there.sizes is not None and self.layout.data_type.itemsize != 0:
            whole &= (there.sizes[at] > 0) if sizes is None else (there.sizes[at] == sizes)
        return np.asarray(whole)


def written(plan: ArrayPlan, inventory: Inventory, source: Storage) -> Written:
    """What the only pass of an array writes, or the second of two; StorageError, ChunkError."""
    layout = plan.destination
    if plan.move.block_shape is None:
        return Written.of(layout, inventory.indexes, plan.bounds, None)
    leaves = leaves_reached(plan, inventory, source)
    objects = layout.objects
    indexes = (
        np.arange(objects.total, dtype=np.int64) if leaves is None else touched(leaves, layout.grid, objects)
    )
    return Written.of(layout, indexes, plan.bounds, plan.move.block_shape)


def lost_tasks(
    plan: ArrayPlan,
    inventory: Inventory,
    source: Storage,
    destination: Storage,
    recorded: Mapping[int, Recorded],
) -> set[int]:
    """Numbers of recorded tasks of which something is gone or empty; `inventory` is the source's.

    Where objects may have been left out as empty, a task counts as lost if it cannot be told which.
    StorageError, ChunkError.
    """
    if not recorded or not destination.can_list:
        return set()
    lost = _lost(plan, inventory, source, destination, recorded)
    if plan.between is None or {number for number in recorded if number >= 0} - lost == {*range(plan.tasks)}:
        return lost  # what lies between two passes is gone when both are done
    layout = plan.between.layout
    indexes = touched(inventory.indexes, plan.source.objects, layout.objects)
    first = Written.of(layout, indexes, plan.between.bounds, plan.between.block_shape, first_pass=True)
    missing = first.numbers[~first.whole(take_inventory(destination, plan.path, layout))]
    return lost | (recorded.keys() & set(missing.tolist()))


def _lost(
    plan: ArrayPlan,
    inventory: Inventory,
    source: Storage,
    destination: Storage,
    recorded: Mapping[int, Recorded],
) -> set[int]:
    done = {number: task for number, task in recorded.items() if number >= 0}
    if not done:
        return set()
    there = take_inventory(destination, plan.path, plan.destination)
    all_of = written(plan, inventory, source)
    same = plan.route.name == "relink" and plan.move.block_shape is None
    whole = all_of.whole(there, inventory.sizes if same else None)
    if plan.move.block_shape is not None:
        return done.keys() & set(all_of.numbers[~whole].tolist())
    # Each object is one of the source's, so that the ledger's counts say how many there must be.
    count = np.bincount(all_of.numbers[whole], minlength=plan.tasks)
    return {number for number, task in done.items() if count[number] != task.chunks - task.dropped}
