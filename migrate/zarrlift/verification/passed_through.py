"""Compares arrays that are passed through, of which only bytes are known: documents, names and objects."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from zarrstack.core.errors import Problem
from zarrstack.core.paths import join

from ..archive.chunk_inventory import Inventory, list_objects, take_inventory
from ..archive.nodes import ArrayNode, Layout
from ..core.problems import refusal
from ..transfer.extra_files import difference
from .sampling import SAMPLED, first_samples

if TYPE_CHECKING:
    from ..archive.chunk_inventory import Indexes
    from ..storage.base import Storage
    from .listed_objects import Listings

_NAMED: Final = 20
"""Maximum number of objects that are named of each kind of difference in names and sizes."""


def differing_objects(
    path: str, layout: Layout, indexes: Indexes, source: Storage, destination: Storage
) -> Iterator[Problem]:
    """The objects with these linear indexes that are not equal byte by byte; StorageError."""
    for key in _keys(path, layout, indexes):
        if (found := difference(source, destination, key)) is not None:
            yield _differs(path, key, found)


class Compared(NamedTuple):
    """What was compared of an array, and its differences."""

    problems: list[Problem]
    objects: int = 0
    bytes: int = 0
    """Of these objects, if a listing has them."""


def compare_node(
    node: ArrayNode, source: Storage, destination: Storage, listings: Listings, *, full: bool
) -> Compared:
    """Compare an array of two archives: its document, and what `compare` compares. StorageError."""
    assert node.passed is not None
    layout, key = node.passed.objects, join(node.path, "zarr.json")
    now = None
    if source.can_list and listings.lists:
        below = listings.children.get(node.path, frozenset())
        layout, now = list_objects(source, node.path, children=below, follow_links=listings.follow_links)
    elif layout is not None and not source.can_list:
        now = take_inventory(source, node.path, layout)
    found = Compared([])
    if layout is not None and now is not None:
        found = compare(node.path, layout, now, source, destination, full=full)
    if destination.get(key) != node.documents[0].content:
        found.problems.append(_differs(node.path, key, "other bytes"))
    return found


def compare(
    path: str, layout: Layout, now: Inventory, source: Storage, destination: Storage, *, full: bool
) -> Compared:
    """Compare the names and sizes of an array's objects, and the bytes of some or all; StorageError.

    `now` are those of the source.
    """
    problems: list[Problem] = []
    indexes, suspects = now.indexes, now.indexes[:0]
    if destination.can_list and now.certain:
        result = take_inventory(destination, path, layout)
        missing = np.setdiff1d(indexes, result.indexes, assume_unique=True)
        surplus = np.setdiff1d(result.indexes, indexes, assume_unique=True)
        names = [*_keys(path, layout, surplus[:_NAMED]), *(layout.prefix(path) + n for n in result.unclaimed)]
        problems += [_differs(path, key, "nothing") for key in _keys(path, layout, missing[:_NAMED])]
        problems += [_differs(path, key, "an object", "none, as in the source") for key in names]
        indexes = np.setdiff1d(indexes, missing, assume_unique=True)
        if now.sizes is not None and result.sizes is not None:
            before = now.sizes[np.searchsorted(now.indexes, indexes)]
            after = result.sizes[np.searchsorted(result.indexes, indexes)]
            suspects = indexes[before != after][:_NAMED]
    if not full:
        some = first_samples(layout.objects, indexes, random.Random(path), random_inner_chunks=SAMPLED)
        indexes = np.union1d(some, suspects).astype(np.int64)
    problems += differing_objects(path, layout, indexes, source, destination)
    places = np.searchsorted(now.indexes, indexes)
    return Compared(problems, len(indexes), 0 if now.sizes is None else int(now.sizes[places].sum()))


def _differs(path: str, key: str, found: str, expected: str = "the bytes of the source") -> Problem:
    message = "an object differs from that of the source"
    return refusal("verify-objects", message, node=path, key=key, found=found, expected=expected)


def _keys(path: str, layout: Layout, indexes: Indexes) -> list[str]:
    return layout.object_keys(path, layout.objects.coordinates_of(indexes))
