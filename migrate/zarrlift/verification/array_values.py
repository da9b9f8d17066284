"""The values of one array on both sides, compared region by region.

The source is decoded by our own code, the result by zarr-python. Where chunks were cut anew, regions are of
whole chunks of both sides, as far as memory allows, so that none is decoded more often than it must be.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain, islice
from math import prod
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import numpy as np

from zarrstack.core.chain.chain import Chain
from zarrstack.core.data_types.compare import Values, part_of
from zarrstack.core.errors import Problem, ZarrstackError
from zarrstack.core.grid.chunk_keys_v3 import KeyEncoding
from zarrstack.core.grid.frames import Shards
from zarrstack.core.grid.grid import Grid
from zarrstack.core.grid.overlap import touched
from zarrstack.core.json_text import JSONObject

from ..archive.nodes import Layout
from ..planning.regrid.boxes import Box, Candidates
from ..storage.base import Storage
from .documents import VARIABLE
from .regions import Region, common, corner, list_chunks, overlapping, parts, within
from .sampled_chunks import Expectation, SourceObjects, value_problem
from .v3_tree import key_below
from .zarr_python_reader import chunk_shape, data_type_name, native, open_array, read_regions, reading_store

if TYPE_CHECKING:
    from zarr.core.metadata.v3 import ArrayV3Metadata

    from zarrstack.core.data_types.cast import Casting

    from ..archive.chunk_inventory import Indexes

_BATCH_BYTES: Final = 16 << 20
_LEAST_BYTES: Final = 1 << 20
"""Decoded bytes of one side that one thread holds at a time, unless a single region is more: with enough
memory, and with hardly any."""
_BASE: Final = 176 << 20
"""Bytes of the process itself, zarr-python loaded."""
_COPIES: Final = 3
"""How often the values of a region stand in memory: as the source has them, as they were found, and as
zarr-python cuts them out of a shard or they are compared."""
_BATCH_BLOCKS: Final = 64
"""Blocks read together; zarr-python's cost per block falls by half in such a gather."""


class Compared(NamedTuple):
    """Some regions that were compared."""

    problems: list[Problem]
    regions: int
    bytes: int
    """Decoded bytes of the result."""


class Stored(NamedTuple):
    """Linear indexes of objects of the result, ascending."""

    there: Indexes
    """Those that are stored."""
    expected: Indexes
    """Those that some stored object of the source lies in."""


class _Work(NamedTuple):
    """What to compare, and how."""

    regions: Iterator[Region]
    threads: int
    most: int = _BATCH_BYTES
    """Bytes of regions that one thread takes at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """What one chunk of the source, or one leaf of a shard, says of a region."""

    part: Region
    values: Values | None
    """None where it is missing."""


class ArrayValues:
    """Both sides of one array; ZarrstackError where one of them cannot be decoded at all.

    `document` is the result's `zarr.json`, which need not be in its store, and `metadata` what zarr-python
    makes of it. `stays_missing` asks for more than equal values: what is no object in the source may be none
    in the result, which is looked at where both have the same objects and the source cannot list.
    """

    def __init__(
        self,
        source: Storage,
        layout: Layout,
        destination: Storage,
        document: JSONObject,
        metadata: ArrayV3Metadata,
        path: str,
        *,
        casting: Casting,
        objects: Literal["refuse", "json"],
        allow_pickle: bool,
        fill_is_null: bool,
        stays_missing: bool = False,
    ) -> None:
        self.path = path
        self.layout = layout
        self.grid = Grid(tuple(metadata.shape), chunk_shape(metadata))
        self._source = source
        self._destination = destination
        self._keys = KeyEncoding.from_json(metadata.chunk_key_encoding.to_dict())
        self._leaf = _leaf_shape(document, self.grid)
        self._item = _item_bytes(metadata)
        self._fill_is_null = fill_is_null
        self._asks_for_missing = stays_missing and not self.listed and self.aligned and layout.frame is None
        self._leaves = SourceObjects(source, path, layout, allow_pickle=allow_pickle)
        self._array = open_array(metadata, reading_store(destination), path)
        self._expect = Expectation(
            layout.data_type, data_type_name(metadata), native(metadata), casting=casting, objects=objects
        )

    @property
    def listed(self) -> bool:
        """Whether both sides can say which objects they have."""
        return self._source.can_list and self._destination.can_list

    @property
    def aligned(self) -> bool:
        """Whether each object of the source has one of its own in the result."""
        return self.grid.chunk_shape == self.layout.object_shape

    def stored(self) -> Stored:
        """What both sides have, listed anew; StorageError."""
        there = list_chunks(self._destination, key_below(self.path, ""), self._keys, self.grid)
        objects = self.layout.objects
        legacy = list_chunks(self._source, self.layout.prefix(self.path), self.layout.keys, objects)
        return Stored(there, legacy if self.aligned else touched(legacy, objects, self.grid))

    def whole(self, wanted: Indexes, *, budget: int, pool: ThreadPoolExecutor) -> Iterator[Compared]:
        """Compare all of the result's objects with these linear indexes, and what regions take along.

        `budget` is what the process may take, in bytes; a single leaf of either side fits into any.
        """
        return self._compare(self._work(wanted, budget - _BASE, _size(pool)), pool)

    def objects(self, wanted: Iterable[int], pool: ThreadPoolExecutor) -> Iterator[Compared]:
        """Compare the result's objects with these linear indexes, one by one."""
        whole = (self.grid.region(self.grid.coordinates(index)) for index in wanted)
        return self._compare(_Work(self._parts(whole, _BATCH_BYTES), _size(pool)), pool)

    def key(self, place: tuple[int, ...]) -> str:
        """The key of the result's object that a value lies in."""
        lengths = self.grid.chunk_shape
        inside = tuple(at // length for at, length in zip(place, lengths, strict=True))
        return key_below(self.path, self._keys.key(inside))

    # What is compared at a time

    def _work(self, wanted: Indexes, memory: int, threads: int) -> _Work:
        """Regions over the wanted objects: of whole chunks of both sides, if they fit into so many bytes.

        Otherwise a chunk would be decoded again for every chunk of the other side that it touches.
        """
        if self._leaf != self.layout.chunk_shape and (best := self._common_grid(memory, threads)) is not None:
            grid, threads, room = best
            return _Work(_over(grid, touched(wanted, self.grid, grid)), threads, min(room, _BATCH_BYTES))
        room = max(memory // _COPIES, 1)
        least = max(prod(self._leaf) * self._item, self._chunk_bytes, _LEAST_BYTES)
        threads = max(min(threads, room // least), 1)
        most = min(max(room // threads, _LEAST_BYTES), _BATCH_BYTES)
        grid = self.grid
        if isinstance(self.layout.frame, Shards):  # a shard is opened once, not for each leaf
            grid = self.layout.objects
            wanted = touched(wanted, self.grid, grid)
        return _Work(self._parts(_over(grid, wanted), most), threads, most)

    def _parts(self, regions: Iterator[Region], most: int) -> Iterator[Region]:
        return (part for region in regions for part in parts(region, self._item, self._leaf, most))

    @property
    def _chunk_bytes(self) -> int:
        return prod(self.layout.chunk_shape) * self.layout.item_bytes

    def _common_grid(self, memory: int, threads: int) -> tuple[Grid, int, int] | None:
        """Regions that read few chunks of the source twice, how many at a time are good, and bytes for each.

        They are of whole leaves of the result; None where none fits into memory.
        """
        target = replace(self.layout, chunk_shape=self._leaf, frame=None)
        candidates = Candidates.of(self.layout, target)
        best: tuple[float, int, int, Box] | None = None
        for number in range(threads, 0, -1):
            room = (memory // number - 2 * self._chunk_bytes) // _COPIES
            box = candidates.choose(room, number, whole=True)
            if box is not None and (best is None or candidates.cost(box, number) < best[0]):
                best = candidates.cost(box, number), number, room, box
        return None if best is None else (Grid(self.layout.shape, best[3].shape), best[1], best[2])

    def _batches(self, work: _Work) -> Iterator[list[Region]]:
        first = next(work.regions, None)
        if first is None:
            return
        size = prod(axis.stop - axis.start for axis in first) * self._item
        step = min(max(work.most // max(size, 1), 1), _BATCH_BLOCKS)
        regions = chain((first,), work.regions)
        while batch := list(islice(regions, step)):
            yield batch

    # Comparing

    def _compare(self, work: _Work, pool: ThreadPoolExecutor) -> Iterator[Compared]:
        return _in_order(pool, self._compare_batch, self._batches(work), work.threads)

    def _compare_batch(self, batch: Sequence[Region]) -> Compared:
        """Ours come first: they are bounded, and a payload that we refuse is shown to nobody else."""
        problems: list[Problem] = []
        wanted: list[tuple[Region, list[_Piece]]] = []
        for region in batch:
            pieces, refused = self._pieces(region)
            problems += refused
            wanted += [(piece.part, [piece]) for piece in pieces] if refused else [(region, pieces)]
        read = 0
        for (region, pieces), found in zip(
            wanted, read_regions(self._array, [region for region, _ in wanted]), strict=True
        ):
            if isinstance(found, Exception):
                problems += self._expect.compare(found, np.empty(0), self.path, self.key, region)
                continue
            read += found.nbytes
            for piece in pieces:
                problems += self._judge(piece, part_of(found, within(piece.part, region)))
        return Compared(problems, len(batch), read)

    def _pieces(self, region: Region) -> tuple[list[_Piece], list[Problem]]:
        """What the source says of a region, and what is wrong with it."""
        pieces: list[_Piece] = []
        problems: list[Problem] = []
        for place in overlapping(region, self.layout.object_shape):
            try:
                for whole, values in self._leaves.within(place, region):
                    part = common(whole, region)
                    if values is not None:
                        pieces.append(_Piece(part=part, values=_cut(values, within(part, whole))))
                        continue
                    if self._asks_for_missing:
                        problems += self._must_be_missing(part)
                    if not self._fill_is_null:  # else what it reads as is undefined
                        pieces.append(_Piece(part=part, values=None))
            except ZarrstackError as error:
                problems.append(error.at(node=self.path, key=self._leaves.key(place)).problem)
        return pieces, problems

    def _judge(self, piece: _Piece, found: Values) -> list[Problem]:
        expected = piece.values
        if expected is None:
            shape = tuple(axis.stop - axis.start for axis in piece.part)
            expected = self._expect.missing(self._leaves.fill(shape))
        return self._expect.compare(found, expected, self.path, self.key, piece.part)

    def _must_be_missing(self, region: Region) -> list[Problem]:
        if self._destination.get(self.key(corner(region))) is None:
            return []
        return [self.surplus(region)]

    def surplus(self, region: Region) -> Problem:
        """An object of the result where the source has none."""
        key = self.key(corner(region))
        return value_problem(self.path, key, region, "a stored chunk", "none, as in the source")


def _leaf_shape(document: JSONObject, grid: Grid) -> tuple[int, ...]:
    """The smallest piece the result decodes at once."""
    for codec in Chain.from_json(document["codecs"]).codecs:
        if codec.name == "sharding_indexed":
            return tuple(codec.configuration["chunk_shape"])
    return grid.chunk_shape


def _item_bytes(metadata: ArrayV3Metadata) -> int:
    """Bytes of one element in memory; a guess of 16 where their length varies."""
    return 16 if data_type_name(metadata) in VARIABLE else max(native(metadata).itemsize, 1)


def _cut(values: Values, region: Region) -> Values:
    """A part of a decoded chunk that does not keep the rest of it in memory."""
    part = part_of(values, region)
    return part if part.size == values.size else part.copy()


def _over(grid: Grid, indexes: Indexes) -> Iterator[Region]:
    return (grid.region(grid.coordinates(index)) for index in map(int, indexes))


def _size(pool: ThreadPoolExecutor) -> int:
    size: int = pool._max_workers  # noqa: SLF001 - it has no public name for its size
    return size


def _in_order(
    pool: ThreadPoolExecutor,
    work: Callable[[Sequence[Region]], Any],
    batches: Iterator[list[Region]],
    at_once: int,
) -> Iterator[Any]:
    """The results of work on batches in their order, so many of them under way at a time."""
    waiting: deque[Future[Any]] = deque()
    for batch in batches:
        waiting.append(pool.submit(work, batch))
        if len(waiting) >= at_once + (at_once == _size(pool)):
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()
