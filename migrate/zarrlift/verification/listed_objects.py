"""Compares the names and sizes of an array's stored objects, from one listing of each side.

Only what is certain without reading an object is a difference here. Other objects that look wrong are
suspects: their values are compared, all of them up to a limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from math import prod
from typing import TYPE_CHECKING, Final

import numpy as np

from zarrstack.core.chunk_keys_v3 import KeyEncoding
from zarrstack.core.errors import Problem
from zarrstack.core.paths import join

from ..archive.chunk_inventory import take_inventory
from ..core.chain.chain import Chain
from ..core.codec_table import SEVERAL, facts_of
from ..core.grid.frames import Shards
from ..core.grid.overlap import touched
from ..core.problems import refusal
from .documents import VARIABLE
from .sides import first_coordinates
from .zarr_python_reader import data_type_name, native

if TYPE_CHECKING:
    from ..archive.chunk_inventory import Indexes, Inventory
    from ..archive.nodes import Layout
    from ..recipe.recipe import ArrayRecipe
    from ..storage.base import Storage
    from .array_values import ArrayValues
    from .zarr_python_reader import ResultNode

SUSPECTS: Final = 1000
"""Maximum number of suspects per array whose values are compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectDifferences:
    """What the listings of both sides tell."""

    problems: tuple[Problem, ...]
    """The first objects that are certainly wrong."""
    count: int
    """Number of all of them."""
    suspects: Indexes
    """Linear indexes of objects whose values have to be compared."""
    stored: Indexes
    """Objects that are stored on either side."""
    unnamed: Indexes
    """The same without those that are certainly wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listings:
    """What `verify` lists, and what is known of the result."""

    lists: bool = True
    """Whether names and sizes are listed."""
    by_job: bool = False
    """Whether a known job made the result."""
    follow_links: bool = False
    children: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Names below arrays that are no chunks."""
    planned: Callable[[str], Inventory | None] = lambda _: None
    """The listing of which a job was planned, by path."""
    changes: Callable[[str, Inventory], Iterable[Problem]] = lambda *_: ()
    """The differences of a listing of the source from the one of which a job was planned."""

    def source(self, storage: Storage, path: str, layout: Layout) -> Inventory:
        """The objects of an array of the source, listed now; StorageError."""
        below = self.children.get(path, frozenset())
        return take_inventory(storage, path, layout, children=below, follow_links=self.follow_links)


class _Found:
    """The first objects with a difference, and the number of all."""

    def __init__(self, values: ArrayValues, most: int) -> None:
        self._values = values
        self._most = most
        self.problems: list[Problem] = []
        self.count = 0
        self.indexes: list[Indexes] = []

    def add(self, indexes: Indexes, message: str, found: str | Indexes, expected: str | Indexes) -> None:
        """Add objects by their linear indexes; for sizes, `found` and `expected` have one for each."""
        self.indexes.append(indexes)
        for place, index in enumerate(indexes[: max(self._most - len(self.problems), 0)].tolist()):
            self._problem(
                self.key(index),
                message,
                *(_text(side, place) for side in (found, expected)),
            )
        self.count += len(indexes)

    def name(self, key: str, message: str, found: str, expected: str) -> None:
        """Add one object that is not in the grid."""
        self.count += 1
        if len(self.problems) < self._most:
            self._problem(key, message, found, expected)

    def key(self, index: int) -> str:
        """The key of an object of the result."""
        grid = self._values.grid
        return self._values.result.key(first_coordinates(grid.region(grid.coordinates(int(index)))))

    def _problem(self, key: str, message: str, found: str, expected: str) -> None:
        self.problems.append(
            refusal(
                "verify-objects", message, node=self._values.path, key=key, found=found, expected=expected
            )
        )


def compare_objects(
    values: ArrayValues,
    source: Inventory,
    destination: Storage,
    result_node: ResultNode,
    recipe: ArrayRecipe,
    *,
    by_job: bool,
    in_place: bool,
    most: int,
) -> ObjectDifferences:
    """The differences in names and sizes, of which `most` are described; StorageError.

    `source` is the listing of the source, `result_node` the array of the result. With `by_job`, a job of
    zarrlift made the result, with an object for each one of the source and no other. Other software may omit
    empty chunks, or write those that are missing.
    """
    metadata = result_node.metadata
    assert metadata is not None
    keys = KeyEncoding.from_json(metadata.chunk_key_encoding.to_dict())
    layout = replace(values.layout, chunk_shape=values.grid.chunk_shape, frame=None, keys=keys, root=None)
    result = source if in_place else take_inventory(destination, values.path, layout)
    chain = Chain.from_json(result_node.document["codecs"])
    itemsize = None if data_type_name(metadata) in VARIABLE else native(metadata).itemsize
    size = _one_size(chain, prod(values.grid.chunk_shape), itemsize)
    wrong = _Found(values, most)
    expected = source.indexes
    if not values.aligned:
        expected = touched(expected, values.layout.objects, values.grid)
    in_result = result.indexes
    missing = np.setdiff1d(expected, in_result, assume_unique=True)
    surplus = np.setdiff1d(in_result, expected, assume_unique=True)
    suspects = []
    for key, what in () if by_job else (*result.bad_links, *result.no_files):  # which else are missing
        wrong.name(key, "an object is not a regular file", what, "a file")
    if result.sizes is not None and itemsize != 0:
        wrong.add(in_result[result.sizes == 0], "an object is empty", "0 bytes", "a chunk")
    # A shard of the source may have no chunk, and nothing is written for such parts.
    if by_job and not recipe.drop_empty and not isinstance(values.layout.frame, Shards):
        wrong.add(missing, "an object is missing", "none", "one, as in the source")
    elif values.aligned:
        suspects.append(missing)
    if by_job:
        wrong.add(surplus, "the source has no such object", "an object", "none, as in the source")
    elif values.aligned:
        suspects.append(surplus)
    if by_job and not in_place:
        for key in _outside(result, layout, destination, values.path):
            wrong.name(key, "an object outside the array", "an object", "none")
    copied = values.aligned and values.layout.chain == chain and values.layout.frame is None
    copied = copied and not recipe.drop_empty and recipe.dtype is None  # else they are encoded again
    suspects.append(
        _compare_sizes(source, result, chain, size, wrong, destination, by_job=by_job, copied=copied)
    )
    named = np.unique(np.concatenate(wrong.indexes)) if wrong.indexes else np.arange(0)
    stored = np.union1d(expected, in_result)
    return ObjectDifferences(
        problems=tuple(wrong.problems),
        count=wrong.count,
        suspects=np.setdiff1d(np.concatenate(suspects), named)[:SUSPECTS],
        stored=stored,
        unnamed=np.setdiff1d(stored, named, assume_unique=True) if len(named) else stored,
    )


def _compare_sizes(
    source: Inventory,
    result: Inventory,
    chain: Chain,
    size: int | None,
    wrong: _Found,
    destination: Storage,
    *,
    by_job: bool,
    copied: bool,
) -> Indexes:
    """Add objects of a wrong size; returns those that may be valid nevertheless.

    `size` is that of every object of the result, if there is one; `copied`: objects have the source's bytes.
    """
    nothing = np.arange(0, dtype=np.int64)
    if result.sizes is None:
        return nothing
    filled = result.sizes > 0
    indexes, sizes = result.indexes[filled], result.sizes[filled]
    message = "an object has another size"
    if size is not None:
        differ = sizes != size
        wrong.add(indexes[differ], message, sizes[differ], f"{size:,} bytes")
        return nothing
    if not copied or source.sizes is None or not len(source.indexes):
        return nothing
    at = np.minimum(np.searchsorted(source.indexes, indexes), len(source.indexes) - 1)
    differ = (source.indexes[at] == indexes) & (source.sizes[at] != sizes)
    # A copy encodes chunks of several frames or members again as one.
    if not by_job or any(codec.name in SEVERAL for codec in chain.codecs):
        suspects: Indexes = indexes[differ]
        return suspects
    # A copy leaves out bytes that follow a blosc chunk, whose header has its length.
    may_be_cut = differ & (source.sizes[at] > sizes) if chain.codecs[-1].name == "blosc" else differ & False
    for place in np.flatnonzero(may_be_cut)[:SUSPECTS].tolist():
        header = destination.get_part(wrong.key(indexes[place]), 0, 16)
        may_be_cut[place] = header is not None and int.from_bytes(header[12:16], "little") == sizes[place]
    differ &= ~may_be_cut
    wrong.add(indexes[differ], message, sizes[differ], source.sizes[at][differ])
    return nothing


def _one_size(chain: Chain, items: int, itemsize: int | None) -> int | None:
    """The size of every object of a number of items, if the codecs give them all the same."""
    size = items * (itemsize or 0)
    for codec in chain.codecs:
        facts = facts_of(codec.name)
        if not size or facts is None or facts.bound is None:
            return None
        size = facts.bound(size)
    return size


def _outside(result: Inventory, layout: Layout, storage: Storage, path: str) -> Iterator[str]:
    """The first objects with keys of chunks outside the grid; other names are not ours to judge."""
    for name in result.unclaimed:
        below = join(path, name)
        if layout.keys.coordinates(name, len(layout.shape)) is not None:
            yield below
        elif name.removeprefix("c/").replace("/", "").isdigit():  # a directory, which was not entered
            yield from islice(storage.list_prefix(below + "/"), 1)


def _text(side: str | Indexes, place: int) -> str:
    return side if isinstance(side, str) else f"{int(side[place]):,} bytes"
