"""The objects of an array of a result that an update concerns: found, planned again, or deleted."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from zarrstack.core.paths import join

from ...archive.chunk_inventory import Indexes, Inventory, take_inventory
from ...archive.nodes import Layout
from ...core.grid.grid import Grid
from ...core.grid.overlap import touched
from ...planning.plans import ArrayPlan, Changes, Planned, Refusal, Whole
from ...storage.base import Storage
from ...storage.local.storage import LocalStorage, sync
from ...storage.writer import at_destination
from ...transfer.tasks import changed_units, intermediate_objects, rewritten, sources_moved, sweep


def same_form(old: ArrayPlan, new: ArrayPlan) -> bool:
    """Whether both plans make the same objects of the same chunks, whatever the shape."""
    return _form(old) == _form(new)


def _form(plan: ArrayPlan) -> tuple[Any, ...]:
    move = plan.move
    layouts = (_without_shape(move.source), _without_shape(move.destination))
    how = (move.route.name, move.route.shared, move.values)
    return (*layouts, *how, plan.fill_is_null, move.block_shape is None)


def _without_shape(layout: Layout) -> Layout:
    return replace(layout, shape=(0,) * len(layout.shape), dimension_names=None)


def moved_again(old: ArrayPlan, before: Inventory, new: ArrayPlan, now: Inventory) -> Indexes | None:
    """The objects of the result that the changes of the source concern, in the new grid; None if unknown.

    An edge that a new shape moves affects the objects stored there, except for objects that keep their bytes.
    """
    if not (before.notices_rewriting and now.notices_rewriting):
        return None
    origins, targets = new.source.objects, new.destination.objects
    sources = _changed(before, old.source.objects, now, origins)
    same_grid = new.move.block_shape is None
    objects = sources if same_grid else touched(sources, origins, targets)
    shape = old.destination.shape
    if new.route.copies or shape == new.destination.shape:
        return objects
    stored = now.indexes if same_grid else touched(now.indexes, origins, targets)
    ends = targets.coordinates_of(stored) * np.array(targets.chunk_shape) + np.array(targets.chunk_shape)
    edges = np.array(
        [min(pair) if len(set(pair)) > 1 else -1 for pair in zip(shape, targets.shape, strict=True)]
    )
    at_edge = ((edges >= 0) & (ends > edges)).any(axis=1)
    return np.union1d(objects, stored[at_edge])


def _changed(before: Inventory, old: Grid, now: Inventory, new: Grid) -> Indexes:
    """The objects of the new grid that were rewritten, added or deleted."""
    indexes = before.indexes
    inside = np.ones(len(indexes), dtype=np.bool_)
    if old.counts != new.counts:
        indexes = new.indices_of(old.coordinates_of(indexes))
        inside = indexes >= 0
        indexes = indexes[inside]
    in_both = np.isin(indexes, now.indexes, assume_unique=True)
    now_in_both = np.isin(now.indexes, indexes, assume_unique=True)
    differ = np.zeros(int(in_both.sum()), dtype=np.bool_)
    for first, second in ((before.sizes, now.sizes), (before.versions, now.versions)):
        if first is not None and second is not None:
            differ |= first[inside][in_both] != second[now_in_both]
    return np.sort(np.concatenate((indexes[~in_both], now.indexes[~now_in_both], indexes[in_both][differ])))


def outside(old: ArrayPlan, new: ArrayPlan) -> tuple[int, ...] | None:
    """The shape of the earlier result, if some of its objects are outside the new grid."""
    shape = old.destination.shape
    if old.changes is not None and old.changes.shape_before is not None:
        shape = tuple(max(pair) for pair in zip(shape, old.changes.shape_before, strict=True))
    pairs = zip(Grid(shape, new.destination.object_shape).counts, new.destination.objects.counts, strict=True)
    return shape if any(before > after for before, after in pairs) else None


def with_earlier_shape(plan: ArrayPlan) -> Layout:
    """The layout of a result, large enough for all objects that an unfinished update has not yet removed."""
    return _enlarged(plan.destination, None if plan.changes is None else plan.changes.shape_before)


def _enlarged(layout: Layout, shape: tuple[int, ...] | None) -> Layout:
    if shape is None:
        return layout
    return replace(layout, shape=tuple(max(pair) for pair in zip(shape, layout.shape, strict=True)))


def interrupted(plan: ArrayPlan) -> Indexes:
    """Objects that an unfinished update, and those before it, may have written.

    They are linear indexes in the grid of `with_earlier_shape`, ascending.
    """
    assert plan.changes is not None
    places = plan.destination.objects.coordinates_of(rewritten(plan))
    indexes = with_earlier_shape(plan).objects.indices_of(places)
    return np.union1d(indexes, plan.changes.outside)


def inside(new: ArrayPlan, places: Indexes) -> Indexes:
    """The linear indexes of those (n, ndim) positions that are in the new grid of a result."""
    indexes = new.destination.objects.indices_of(places)
    return indexes[indexes >= 0]


def updating(
    new: ArrayPlan,
    now: Inventory,
    objects: Indexes,
    shape_before: tuple[int, ...] | None,
    unsettled: Indexes | None = None,
) -> ArrayPlan:
    """The plan that makes only some objects of the result again.

    `unsettled` has the (n, ndim) positions of what interrupted updates may have written: it is made again as
    well, as far as it is still in the grid.
    """
    outside = np.empty(0, np.int64)
    if unsettled is not None:
        objects = np.union1d(objects, inside(new, unsettled))
        beyond = unsettled[new.destination.objects.indices_of(unsettled) < 0]
        outside = np.sort(_enlarged(new.destination, shape_before).objects.indices_of(beyond))
    whole = Whole(new.chunks, new.bytes_in if new.bytes_in_known else None, new.objects_out)
    changed = replace(
        new,
        move=new.move._replace(replaces=True),
        changes=Changes.of(objects, shape_before, outside, whole),
    )
    sources = sources_moved(changed, now.indexes)
    between = changed.between
    if between is not None:
        units = changed_units(changed, first_pass=True)
        between = replace(between, bounds=_bounds(between.bounds, units))
        reached = intermediate_objects(changed, now.indexes)
        source_grid, shape = between.layout.objects, changed.move.block_shape
        assert shape is not None
        present = touched(reached, source_grid, Grid(new.source.shape, shape))
    elif changed.move.block_shape is not None:
        present = touched(now.indexes, new.source.objects, Grid(new.source.shape, changed.move.block_shape))
    else:
        present = now.indexes
    units = changed_units(changed)
    assert units is not None
    bounds = _bounds(new.bounds, np.intersect1d(units, present, assume_unique=True))
    sizes = None if now.sizes is None else now.sizes[now.indexes.searchsorted(sources)]
    return replace(
        changed,
        between=between,
        bounds=bounds,
        chunks=len(sources) if bounds else new.chunks,
        reads=len(sources),
        times_read=1.0,
        bytes_in=0 if sizes is None else int(sizes.sum()),
        bytes_in_known=sizes is not None,
        bytes_out=round(new.bytes_out * len(sources) / max(new.chunks, 1)),
        bytes_out_known=False,
        objects_out=len(objects),
    )


def _bounds(bounds: tuple[int, ...], units: Indexes | None) -> tuple[int, ...]:
    """The bounds of those tasks that have some of the units."""
    if units is None or not len(units) or not bounds:
        return ()
    cuts = np.searchsorted(units, bounds)
    starts = [bounds[task] for task in range(len(bounds) - 1) if cuts[task + 1] > cuts[task]]
    return (*starts, bounds[-1]) if starts else ()


def retire_vanished(plan: ArrayPlan, present: Indexes, destination: Storage) -> None:
    """Delete the changed objects of which the source has nothing any more; DestinationError.

    `present` are the source's objects.
    """
    if plan.changes is None or plan.route.name == "stay":
        return
    alive = present
    if plan.move.block_shape is not None:
        alive = touched(present, plan.source.objects, plan.destination.objects)
    vanished = np.setdiff1d(plan.changes.objects, alive, assume_unique=True)
    _delete_for_good(plan.path, plan.destination, vanished, destination)


def retire_outside(plan: ArrayPlan, destination: Storage) -> None:
    """Delete the objects outside of an array that has shrunk, after its document; DestinationError."""
    if plan.changes is None or plan.changes.shape_before is None or plan.route.name == "stay":
        return
    layout = with_earlier_shape(plan)
    with at_destination():
        stored = take_inventory(destination, plan.path, layout).indexes
    places = layout.objects.coordinates_of(stored)
    outside = stored[plan.destination.objects.indices_of(places) < 0]
    _delete_for_good(plan.path, layout, outside, destination)


def clear(earlier: Planned, destination: Storage, *, in_place: bool) -> int:
    """Delete a node of a result, its document first; returns the number of objects. DestinationError."""
    if isinstance(earlier, Refusal):
        return 0
    with at_destination():
        destination.delete(join(earlier.path, "zarr.json"))
    if in_place:
        return 1
    removed = 1
    if isinstance(earlier, ArrayPlan):
        with at_destination():
            sweep(earlier, destination)
            layout = with_earlier_shape(earlier)
            stored = take_inventory(destination, earlier.path, layout).indexes
        _delete(earlier.path, layout, stored, destination)
        removed += len(stored)
    else:
        with at_destination():
            for key in earlier.files:
                destination.delete(key)
        removed += len(earlier.files)
        _prune(earlier.files, "", destination)
    if earlier.path:
        _prune([join(earlier.path, "zarr.json")], "", destination)
    return removed


def below_first(nodes: Iterable[Planned]) -> list[Planned]:
    """Nodes in an order in which children come before their group."""
    return sorted(nodes, key=lambda node: (-node.path.count("/") - bool(node.path), node.path))


def _delete_for_good(path: str, layout: Layout, objects: Indexes, destination: Storage) -> None:
    """Delete objects that a power failure would bring back on btrfs, when nothing looks for them any more."""
    _delete(path, layout, objects, destination)
    if len(objects):
        sync(destination)


def _delete(path: str, layout: Layout, objects: Indexes, destination: Storage) -> None:
    keys = [layout.key(path, tuple(place)) for place in layout.objects.coordinates_of(objects).tolist()]
    with at_destination():
        for key in keys:
            destination.delete(key)
    _prune(keys, layout.prefix(path), destination)


def _prune(keys: Iterable[str], prefix: str, destination: Storage) -> None:
    """Remove local directories that have become empty, up to that of `prefix`."""
    if not isinstance(destination, LocalStorage):
        return
    for directory in sorted({key.rpartition("/")[0] for key in keys}, reverse=True):
        empty = directory
        with suppress(OSError):  # something else is in it
            while empty and empty + "/" != prefix:
                destination.delete_empty(empty)
                empty = empty.rpartition("/")[0]
