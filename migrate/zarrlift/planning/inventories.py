"""The inventories made for a plan: in memory, or in the file of a job, where a resume finds them.

`SourceInventory` lists the chunks of planned arrays again, in the same way as for the plan.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Final

import numpy as np

from ..archive.chunk_inventory import Indexes, Inventory, take_inventory
from ..archive.inventory_file import InventoryFile
from ..archive.nodes import ArrayNode, Layout, SourceDocument
from ..core.node_paths import names_below
from ..storage.base import Storage
from ..storage.versions import Timestamp
from .plans import ArrayPlan, Plan

_BLOCK: Final = 1 << 20
"""Rows compared at once."""
_NAMED: Final = 3
"""Keys named for each kind of change."""


def digest(content: bytes) -> str:
    """The digest that identifies a metadata document."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def digests(
    documents: tuple[SourceDocument, ...], digest: Callable[[bytes], str] = digest
) -> tuple[tuple[str, str], ...]:
    """(key, digest) of each document."""
    return tuple([(document.key, digest(document.content)) for document in documents])


class Inventories:
    """Inventories by array path; a run that follows the planning uses them."""

    def __init__(
        self, file: InventoryFile | None = None, earlier: Mapping[str, ArrayPlan] | None = None
    ) -> None:
        """`earlier` are the arrays whose inventories in `file` may be used instead of a new listing."""
        self.began = Timestamp()
        """Before anything is read for the plan."""
        self._file = file
        self._earlier = earlier or {}
        self._held: dict[str, Inventory] = {}
        self._stored: set[str] = set()
        self.listed = 0
        """Number of objects listed so far, for a progress display."""

    def count(self, objects: int) -> None:
        """Add to the number of listed objects."""
        self.listed += objects

    def reuse(self, node: ArrayNode) -> Inventory | None:
        """The stored inventory of an array whose documents are unchanged since; None to list it."""
        before = self._earlier.get(node.path)
        if before is None or node.layout is None or before.source_digests != digests(node.documents):
            return None
        if replace(before.source, chain=node.layout.chain) != node.layout:  # the plan may rename codecs
            return None
        return self.stored(before)

    def stored(self, plan: ArrayPlan) -> Inventory | None:
        """The inventory of which a plan was made, if it is in the file or was when the file was opened."""
        return None if self._file is None else self._file.get(plan.path, plan.fingerprint)

    def __setitem__(self, path: str, inventory: Inventory) -> None:
        if self._file is not None and self._file.put(path, inventory):
            self._stored.add(path)
        else:
            self._held[path] = inventory

    def get(self, path: str) -> Inventory | None:
        """The inventory of an array; None if there is none."""
        if path in self._stored and self._file is not None:
            return self._file.get(path)
        return self._held.get(path)

    def pop(self, path: str) -> Inventory | None:
        """The inventory of an array, which is not needed again."""
        inventory = self.get(path)
        self._stored.discard(path)
        self._held.pop(path, None)
        return inventory

    def complete(self) -> bool:
        """Make the file visible, whose job exists; False if there is none or if it is as it was."""
        return self._file is not None and self._file.complete()

    def to_keep(self) -> Iterator[bytes] | None:
        """The content of a file without a name, to store it elsewhere; None if there is none."""
        if self._file is None or self._file.path is not None or not self._file.complete():
            return None
        return self._file.pieces()

    def close(self) -> None:
        """Close the file; inventories in use remain valid."""
        if self._file is not None:
            self._file.close()


class SourceInventory:
    """Lists arrays of one plan; the fingerprints are comparable with those in the plan."""

    def __init__(self, plan: Plan, source: Storage) -> None:
        self._plan = plan
        self._source = source

    def __call__(self, array: ArrayPlan) -> Inventory:
        """The chunks that exist now; StorageError."""
        return take_inventory(
            self._source,
            array.path,
            array.source,
            children=self._below.get(array.path, frozenset()),
            follow_links=self._plan.reading.follow_links,
        )

    @cached_property
    def _below(self) -> dict[str, frozenset[str]]:
        return names_below(node.path for node in self._plan.nodes)


class _Changed:
    """The number of objects with one kind of change, and the first of them."""

    def __init__(self) -> None:
        self.count = 0
        self.first: list[int] = []

    def add(self, indexes: Indexes) -> None:
        self.count += len(indexes)
        self.first += indexes[: _NAMED - len(self.first)].tolist()


def changed_keys(array: ArrayPlan, before: Inventory, now: Inventory, earlier: Layout | None = None) -> str:
    """The number of objects that were rewritten, added and deleted, with the first keys of each.

    `earlier` is the layout of `before`, if the shape of the array may have changed; the result is empty if
    the chunks or their keys have, too.
    """
    layout = array.source
    outside = _Changed()
    if earlier is not None and (earlier.object_shape, earlier.keys) != (layout.object_shape, layout.keys):
        return ""
    if earlier is not None and earlier.objects.counts != layout.objects.counts:
        indexes = layout.objects.indices_of(earlier.objects.coordinates_of(before.indexes))
        inside = indexes >= 0
        outside.add(before.indexes[~inside])
        before = before._replace(
            indexes=indexes[inside],
            sizes=None if before.sizes is None else before.sizes[inside],
            versions=None if before.versions is None else before.versions[inside],
        )
    rewritten, added, deleted = _changes(before, now)
    names = []
    for kind, parts in (
        ("rewritten", [(layout, rewritten)]),
        ("added", [(layout, added)]),
        ("deleted", [(layout, deleted), (earlier or layout, outside)]),
    ):
        count = sum(changed.count for _, changed in parts)
        keys = [
            grid.key(array.path, grid.objects.coordinates(index))
            for grid, changed in parts
            for index in changed.first
        ][:_NAMED]
        if count:
            more = "" if count == len(keys) else ", ..."
            names.append(f"{count} {kind} ({', '.join(keys)}{more})")
    return "; ".join(names)


def _changes(before: Inventory, now: Inventory) -> tuple[_Changed, _Changed, _Changed]:
    """The objects that were rewritten, added and deleted, compared in blocks."""
    rewritten, added, deleted = _Changed(), _Changed(), _Changed()
    bounds = [*before.indexes[_BLOCK::_BLOCK].tolist(), None]
    starts = [0, 0]
    for bound in bounds:
        ends = [
            len(each.indexes) if bound is None else int(each.indexes.searchsorted(bound))
            for each in (before, now)
        ]
        old, new = (slice(start, end) for start, end in zip(starts, ends, strict=True))
        starts = ends
        in_both = np.isin(before.indexes[old], now.indexes[new], assume_unique=True)
        now_in_both = np.isin(now.indexes[new], before.indexes[old], assume_unique=True)
        deleted.add(before.indexes[old][~in_both])
        added.add(now.indexes[new][~now_in_both])
        same = before.indexes[old][in_both]
        differ = np.zeros(len(same), bool)
        for first, second in ((before.sizes, now.sizes), (before.versions, now.versions)):
            if first is not None and second is not None:
                differ |= first[old][in_both] != second[new][now_in_both]
        rewritten.add(same[differ])
    return rewritten, added, deleted
