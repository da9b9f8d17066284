"""The tasks of an array, for one pass or for either of two through an intermediate array."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from zarrstack.core.errors import Problem, StorageError, ZarrstackError

from ..archive.chunk_inventory import Indexes, Inventory, take_inventory
from ..archive.chunk_reader import MissingObject
from ..archive.shard_reader import ShardReader
from ..core.grid.frames import Shards
from ..core.grid.grid import Grid
from ..core.grid.overlap import present_candidates, touched, touching
from ..planning.plans import ArrayPlan
from ..planning.routes import Move, Route, route_between
from ..recipe.recipe import ValueOptions
from ..storage.base import Storage
from ..storage.local.storage import LocalStorage
from ..storage.versions import ListedVersions


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Some chunks of one array."""

    move: Move
    number: int
    indexes: Indexes
    """Linear indexes of the objects to move, ascending; of blocks, if the move has them."""
    sources: Indexes | None = None
    """With blocks: ascending linear indexes of the existing source objects that the blocks overlap."""
    inner_chunks: Indexes | None = None
    """Linear indexes of the inner chunks that may be written; None for all that overlap stored values."""
    certain: bool = True
    """Whether all objects are known to exist."""
    versions: ListedVersions | None = None
    """Those of the source's objects, if reads are compared with the listing."""

    def first_key(self) -> str:
        """The key of the first object that the task reads, or else the place of the array's objects."""
        indexes = self.indexes if self.sources is None else self.sources
        if not len(indexes):
            return self.move.source.prefix(self.move.path)
        layout = self.move.source
        return layout.key(self.move.path, layout.objects.coordinates(int(indexes[0])))


class Tasks:
    """The tasks of one pass over an array's chunks. Those of a first pass have negative numbers."""

    def __init__(
        self,
        move: Move,
        present: Indexes,
        bounds: Sequence[int],
        *,
        versions: ListedVersions | None = None,
        inner_chunks: Indexes | None = None,
        only: Indexes | None = None,
        certain: bool = True,
    ) -> None:
        """`versions` are those of the chunks in `present`, as in `Task`; `certain` as there.

        `inner_chunks` are those of the destination that may be written; `only` are the objects, or blocks, to
        move. None for all.
        """
        self._move = move
        self.present = present
        self._versions = versions
        self._inner_chunks = inner_chunks
        self._certain = certain
        self._blocks: Grid | None = None
        self._indexes = present
        if move.block_shape is not None:
            self._blocks = Grid(move.source.shape, move.block_shape)
            self._indexes = touched(present, move.source.objects, self._blocks)
        if only is not None:
            self._indexes = np.intersect1d(self._indexes, only, assume_unique=True)
        self._cuts = np.searchsorted(self._indexes, bounds)

    def task(self, number: int) -> Task:
        """The task with a number."""
        place = number if number >= 0 else -1 - number
        part = self._indexes[self._cuts[place] : self._cuts[place + 1]]
        sources = inner_chunks = None
        if self._blocks is not None:
            if self._inner_chunks is not None:
                inside = _touching(part, self._blocks, self._move.destination.grid)
                inner_chunks = present_candidates(inside, self._inner_chunks)
            sources = present_candidates(
                _touching(part, self._blocks, self._move.source.objects), self.present
            )
        versions = None
        if self._versions is not None:
            versions = self._versions.of_some(part if sources is None else sources)
        return Task(
            move=self._move,
            number=number,
            indexes=part,
            sources=sources,
            inner_chunks=inner_chunks,
            certain=self._certain,
            versions=versions,
        )


def _touching(blocks: Indexes, of: Grid, grid: Grid) -> Indexes:
    """Ascending linear indexes of the cells of a grid that overlap some blocks of another one."""
    near = [touching(of.coordinates(block), of, grid) for block in blocks.tolist()]
    return np.unique(np.concatenate([blocks[:0], *near]))  # of no block, none


def pass_numbers(plan: ArrayPlan, *, first_pass: bool) -> range:
    """The task numbers of a pass: of the only one, or of the first or second of two."""
    if not first_pass:
        return range(plan.tasks)
    count = 0 if plan.between is None else max(len(plan.between.bounds) - 1, 0)
    return range(-1, -1 - count, -1)


def tasks_of(
    plan: ArrayPlan, inventory: Inventory, source: Storage, destination: Storage, *, first_pass: bool
) -> Tasks:
    """The tasks of an array; `inventory` is the source's.

    StorageError and ChunkError from listing the intermediate array and reading the source's shards.
    """
    versions = _versions(inventory, source)
    only = changed_units(plan, first_pass=first_pass)
    present, certain = inventory.indexes, inventory.certain
    of_source = partial(Tasks, present=present, versions=versions, only=only, certain=certain)
    if plan.between is None:
        return of_source(plan.move, bounds=plan.bounds)
    if first_pass:
        return of_source(first_move(plan), bounds=plan.between.bounds)
    inner_chunks = inner_chunks_reached(plan, inventory, source, versions)
    between = take_inventory(destination, plan.path, plan.between.layout)
    return Tasks(second_move(plan), between.indexes, plan.bounds, inner_chunks=inner_chunks, only=only)


def changed_units(plan: ArrayPlan, *, first_pass: bool = False) -> Indexes | None:
    """The objects, or blocks, of a pass that an update moves; None for all."""
    if plan.changes is None:
        return None
    objects, shape = plan.changes.objects, plan.move.block_shape
    if shape is None:
        return objects
    blocks = Grid(plan.source.shape, shape)
    units = touched(objects, plan.destination.objects, blocks)
    if not first_pass:
        return units
    assert plan.between is not None
    whole = plan.between.layout.objects
    needed = touched(units, blocks, whole)
    return touched(needed, whole, Grid(plan.source.shape, plan.between.block_shape))


def intermediate_objects(plan: ArrayPlan, present: Indexes) -> Indexes:
    """The intermediate objects that the first of two passes writes; `present` are the source's objects."""
    assert plan.between is not None
    objects = plan.between.layout.objects
    wanted = touched(present, plan.source.objects, objects)
    blocks = changed_units(plan, first_pass=True)
    if blocks is None:
        return wanted
    inside = touched(blocks, Grid(plan.source.shape, plan.between.block_shape), objects)
    return np.intersect1d(wanted, inside, assume_unique=True)


def sources_moved(plan: ArrayPlan, present: Indexes) -> Indexes:
    """Those of the source's objects that the tasks of an array read."""
    units = changed_units(plan, first_pass=plan.between is not None)
    if units is None:
        return present
    shape = plan.move.block_shape if plan.between is None else plan.between.block_shape
    if shape is not None:
        units = touched(units, Grid(plan.source.shape, shape), plan.source.objects)
    return np.intersect1d(present, units, assume_unique=True)


def rewritten(plan: ArrayPlan) -> Indexes:
    """The objects of a result that an update writes again or deletes: whole blocks, if it makes blocks."""
    assert plan.changes is not None
    if plan.move.block_shape is None:
        return plan.changes.objects
    blocks, units = Grid(plan.source.shape, plan.move.block_shape), changed_units(plan)
    assert units is not None
    return np.union1d(plan.changes.objects, touched(units, blocks, plan.destination.objects))


def _versions(inventory: Inventory, source: Storage) -> ListedVersions | None:
    """The versions with which chunks are compared when they are read."""
    if not source.tells_versions or inventory.sizes is None or inventory.versions is None:
        return None
    return ListedVersions(inventory.indexes, inventory.sizes, inventory.versions)


def inner_chunks_reached(
    plan: ArrayPlan, inventory: Inventory, source: Storage, versions: ListedVersions | None = None
) -> Indexes | None:
    """Linear indexes, ascending, of the destination's inner chunks that overlap a stored one of the source.

    None for all.

    Only these are written, whatever the intermediate chunks overlap.
    """
    layout, target = plan.source, plan.destination.grid
    if not isinstance(layout.frame, Shards):
        if len(inventory.indexes) == layout.objects.total:
            return None
        return touched(inventory.indexes, layout.objects, target)
    shards = ShardReader(source, plan.path, layout)
    reached, count = [], 0
    for number in shards.in_turn(inventory.indexes.tolist(), versions):
        try:
            present = shards.present(number, versions)
        except MissingObject:
            continue  # missing although listed: reported by the first pass, or there was no listing
        except ZarrstackError as error:
            raise error.at(key=shards.key(number)) from None
        count += len(present)
        reached.append(touched(present, layout.grid, target))
    if count == layout.grid.total:
        return None
    return np.unique(np.concatenate(reached)) if reached else np.empty(0, dtype=np.int64)


def first_move(plan: ArrayPlan) -> Move:
    """The move from the source to the intermediate array, without a change of values."""
    assert plan.between is not None
    return Move(
        path=plan.path,
        source=plan.source,
        destination=plan.between.layout,
        route=Route(name="regrid", shared=0, reason="chunk shape"),
        values=ValueOptions(allow_pickle=plan.move.values.allow_pickle),
        block_shape=plan.between.block_shape,
        piece_shape=plan.between.piece_shape,
        run_shape=plan.between.run_shape,
    )


def second_move(plan: ArrayPlan) -> Move:
    """The move from the intermediate array to the result.

    If their inner chunks are the same, it passes on payloads, whatever the codecs of the array's source are.
    """
    assert plan.between is not None
    source = plan.between.layout
    route = route_between(source, plan.destination, same_place=False, values=plan.move.values)
    return plan.move._replace(source=source, route=route, source_is_destination=True)


def sweep_known(
    plans: Sequence[ArrayPlan], destination: Storage, record: Callable[[], None]
) -> dict[str, Problem]:
    """Run `sweep` for completed arrays, after `record` has made their completion durable.

    Otherwise, after a kill, a resume would repeat them from an incomplete intermediate array. Returns the
    problem for each array, by path, of which something is left.
    """
    staged = [plan for plan in plans if plan.between is not None]
    if staged:
        record()
    problems = {}
    for plan in staged:
        try:
            sweep(plan, destination)
        except StorageError as error:
            problems[plan.path] = error.at(node=plan.path).problem
    return problems


def sweep(plan: ArrayPlan, destination: Storage) -> None:
    """Delete the intermediate array, including hidden objects, which only the job can have; StorageError."""
    if plan.between is None:
        return
    root = plan.between.layout.root
    assert root is not None
    if isinstance(destination, LocalStorage):
        destination.delete_tree(root)
        with contextlib.suppress(OSError):  # those of other arrays are still in it
            while root := root.rpartition("/")[0]:
                destination.delete_empty(root)
        return
    for key in list(destination.list_prefix(f"{root}/")):
        destination.delete(key)
