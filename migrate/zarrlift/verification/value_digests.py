"""Computes the digests of stored arrays from their decoded values."""

from __future__ import annotations

import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from math import prod
from typing import TYPE_CHECKING, Final

import numpy as np

from zarrstack.core.errors import ChunkError, ZarrstackError

from ..archive.chunk_inventory import Inventory, take_inventory
from ..archive.nodes import Archive, ArrayNode, Layout
from ..core.digest.value_digest import ArrayDigest, BlockSums, ValueSums
from ..core.grid.frames import Shards
from ..core.node_paths import names_below
from ..planning.regrid.blocks import available_cores, memory_budget, workers_within
from ..storage.base import Storage
from ..transfer.events import Planned, Progress, TaskDone
from ..transfer.stored_chunks import MissingObject
from ..transfer.worker import both_ends, received
from .array_values import in_order
from .digest_report import ArchiveDigest
from .source_objects import SourceObjects

if TYPE_CHECKING:
    from zarrstack.core.errors import Problem

    from ..archive.chunk_inventory import Indexes
    from .elsewhere import Elsewhere

_MAX_THREADS: Final = 8
_BATCH: Final = 64
"""Most objects that are read as one piece of work."""
_SMALL: Final = 1 << 20
"""Bytes of an array that are read sooner than threads are started."""
_COPIES: Final = 3
"""Copies of an object's values in memory: compressed, decoded, and divided into words."""
Count = Callable[[int, int], None]


def digest_archive(
    archive: Archive, storage: Storage, *, follow_links: bool = False, progress: Progress | None = None
) -> ArchiveDigest:
    """The digests of all arrays of a described archive.

    Arrays that cannot be read have none; the reasons are in `problems`.
    """
    children = names_below(node.path for node in archive.nodes)
    arrays: dict[str, ArrayDigest] = {}
    problems: list[Problem] = [p for p in archive.all_problems() if p.severity == "refusal"]
    nodes = [node for node in archive.nodes if isinstance(node, ArrayNode)]
    if progress is not None:
        total = sum(_decoded(node.layout) for node in nodes if node.layout is not None)
        progress(Planned(bytes=total, chunks=None))
    for node in nodes:
        if node.refused or node.layout is None:
            continue
        done = 0

        def count(chunks: int, nbytes: int) -> None:
            nonlocal done
            done += nbytes
            if progress is not None:
                progress(TaskDone(chunks=chunks, bytes_in=nbytes))

        try:
            inventory = take_inventory(
                storage,
                node.path,
                node.layout,
                children=children.get(node.path, frozenset()),
                follow_links=follow_links,
            )
            arrays[node.path] = digest_array(storage, node.path, node.layout, inventory, count=count)
        except ZarrstackError as error:
            problems.append(error.at(node=node.path).problem)
        if progress is not None:  # missing chunks count as done
            progress(TaskDone(chunks=0, bytes_in=max(_decoded(node.layout) - done, 0)))
    return ArchiveDigest(url=archive.url, format=archive.format, arrays=arrays, problems=tuple(problems))


def digest_array(
    storage: Storage,
    path: str,
    layout: Layout,
    inventory: Inventory,
    *,
    allow_pickle: bool = False,
    count: Count | None = None,
    elsewhere: Elsewhere | None = None,
) -> ArrayDigest:
    """The digest of one array; ZarrstackError if any of its chunks cannot be read.

    Each thread holds one object in memory, or one inner chunk of a shard. `count` receives (objects, decoded
    bytes) after each piece of work. `elsewhere`: whose workers read the array as their destination, if not
    threads do.
    """
    adder = ValueSums(layout.shape, layout.data_type, layout.fill_value)
    total = BlockSums()
    indexes = inventory.indexes
    if not len(indexes):
        return adder.digest(total)
    reader = _Reader(storage, path, layout, adder, certain=inventory.certain, allow_pickle=allow_pickle)
    if len(indexes) * _object_bytes(layout) <= _SMALL:
        sums, chunks, nbytes = reader(indexes)
        if count is not None:
            count(chunks, nbytes)
        return adder.digest(sums)
    if elsewhere is not None:
        step = elsewhere.portion(len(indexes), _object_bytes(layout))
        portions = (indexes[start : start + step] for start in range(0, len(indexes), step))
        about = {"path": path, "layout": layout, "certain": inventory.certain, "allow_pickle": allow_pickle}
        for ended in elsewhere.ended(add_portion, about, portions):
            total.update(ended.result())
        return adder.digest(total)
    threads = _threads(layout)
    step = max(min(len(indexes) // (4 * threads), _BATCH), 1)
    with ThreadPoolExecutor(threads, thread_name_prefix="zarrlift-digest") as pool:
        portions = (indexes[start : start + step] for start in range(0, len(indexes), step))
        try:
            for sums, chunks, nbytes in in_order(pool, reader, portions, 2 * threads + 1):
                total.update(sums)
                if count is not None:
                    count(chunks, nbytes)
        finally:
            pool.shutdown(cancel_futures=True)
    return adder.digest(total)


def add_portion(version: str, described: bytes, portion: bytes) -> BlockSums:
    """The sums of some objects of a destination, in any process; ZarrstackError if one cannot be read."""
    (indexes,) = received(version, portion)
    sums, _, _ = _reader(version, described)(indexes)
    return sums


@functools.lru_cache(maxsize=8)
def _reader(version: str, described: bytes) -> _Reader:
    spec, about = received(version, described)
    _, destination = both_ends(spec, write=False)
    layout = about["layout"]
    adder = ValueSums(layout.shape, layout.data_type, layout.fill_value)
    return _Reader(destination, adder=adder, **about)


class _Reader:
    """Adds up the values of some objects of one array; shared between threads."""

    def __init__(
        self,
        storage: Storage,
        path: str,
        layout: Layout,
        adder: ValueSums,
        *,
        certain: bool,
        allow_pickle: bool,
    ) -> None:
        self._objects = SourceObjects(storage, path, layout, allow_pickle=allow_pickle)
        self._grid = layout.objects
        self._adder = adder
        self._certain = certain and not isinstance(layout.frame, Shards)

    def __call__(self, indexes: Indexes) -> tuple[BlockSums, int, int]:
        sums, nbytes = BlockSums(), 0
        for index in np.asarray(indexes).tolist():
            place = self._grid.coordinates(index)
            key = self._objects.key(place)
            try:
                for region, values in self._objects.overlapping(place, self._grid.region(place)):
                    if values is not None:
                        self._adder.add(sums, region, values)
                        nbytes += values.nbytes
            except MissingObject:
                if self._certain:
                    raise ChunkError("a listed chunk is gone: the archive changed", key=key) from None
            except ZarrstackError as error:
                raise error.at(key=key) from None
        return sums, len(indexes), nbytes


def _threads(layout: Layout) -> int:
    memory = _COPIES * prod(layout.chunk_shape) * layout.item_bytes
    return min(available_cores(), _MAX_THREADS, workers_within(memory_budget(None), memory))


def _object_bytes(layout: Layout) -> int:
    return prod(layout.object_shape) * layout.item_bytes


def _decoded(layout: Layout) -> int:
    return prod(layout.shape) * (layout.data_type.itemsize or 0)
