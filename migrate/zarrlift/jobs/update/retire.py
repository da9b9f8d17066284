"""Deletes what a result no longer has: objects, and whole nodes."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from zarrstack.core.paths import join

from ...archive.chunk_inventory import Indexes, take_inventory
from ...archive.nodes import Layout
from ...planning.plans import ArrayPlan, Planned, Refusal
from ...storage.base import Storage
from ...storage.local.storage import LocalStorage
from ...storage.writer import at_destination
from ...transfer.tasks import sweep
from ..disk_sync import sync
from .differences import vanished, with_earlier_shape


def retire_vanished(plan: ArrayPlan, present: Indexes, destination: Storage) -> None:
    """Delete the changed objects of which the source has nothing any more; DestinationError.

    `present` are the source's objects.
    """
    if plan.changes is not None and plan.route.name != "stay":
        _delete_for_good(plan.path, plan.destination, vanished(plan, present), destination)


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
