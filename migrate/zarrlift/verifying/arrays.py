"""One array of two archives, compared from what lies in both; no plan is believed."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from itertools import chain, islice
from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from zarrstack.core.chain import Chain
from zarrstack.core.dtypes import DataType
from zarrstack.core.errors import Problem, ZarrstackError
from zarrstack.core.frames import Shards
from zarrstack.core.grid import Grid
from zarrstack.core.keys import KeyEncoding
from zarrstack.core.overlap import touched

from ..archive import ArrayNode, Layout
from ..conventions import Change
from ..planning_candidates import Box, Candidates, item_bytes
from ..recipe import ArrayRecipe
from ..storage import Storage
from .blocks import Region, common, list_chunks, overlapping, parts, within
from .chunks import Expectation, SourceObjects
from .differences import Differences, compare_attributes
from .documents import VARIABLE, fill_difference, type_difference
from .parsing import (
    chunk_shape,
    data_type_name,
    native,
    open_array,
    read_regions,
    reading_store,
)
from .sample import a_missing_chunk, first_look
from .tree import FoundNode, key_below
from .values import Values, part_of

_BATCH_BYTES: Final = 16 << 20
"""Decoded bytes of one side that one thread holds at a time."""
_BASE: Final = 176 << 20
"""Bytes of the process itself, zarr-python loaded."""
_COPIES: Final = 3
"""How often the values of a region stand in memory: as they were found, as zarr-python cuts them out of
a shard, and what is compared at the moment."""
_BATCH_BLOCKS: Final = 64
"""Blocks read together; zarr-python's cost per block falls by half in such a gather."""
_SAMPLED: Final = 5
"""Random chunks of an array that a sample looks at besides the first, the last and an edge."""
Count = Callable[[int, int], None]


class ArrayComparison:
    """Everything of one array that `verify` compares.

    Metadata first; values only where shape and data type allow it.
    """

    def __init__(
        self,
        source: Storage,
        node: ArrayNode,
        destination: Storage,
        found: FoundNode,
        recipe: ArrayRecipe,
    ) -> None:
        assert node.layout is not None
        assert found.metadata is not None
        self.path = node.path
        self.layout: Layout = node.layout
        self.metadata = found.metadata
        self.node = node
        self.found = found
        self.recipe = recipe
        self.source = source
        self.destination = destination
        self.differences = Differences(node.path)
        self._grid = Grid(tuple(self.metadata.shape), chunk_shape(self.metadata))

    def compare_metadata(self, change: Change) -> bool:
        """Compare all but values; whether values can be compared."""
        say = self.differences.say
        compare_attributes(self.differences, self.node, self.found, change, self.recipe)
        names = self.layout.dimension_names if change.dimension_names is None else change.dimension_names
        mine = self.metadata.dimension_names
        if _named(mine) != _named(names):
            say("list of dimension names", _named(mine), _named(names))
        if tuple(self.metadata.shape) != self.layout.shape:
            say("shape", list(self.metadata.shape), list(self.layout.shape))
            return False
        wanted = self._wanted_type()
        if differs := type_difference(self.metadata, wanted):
            say("data type", *differs)
            return False
        if wanted == self.layout.data_type and (
            differs := fill_difference(self.metadata, wanted, self.layout.fill_value)
        ):
            say("fill value", *differs)
        return True

    def _wanted_type(self) -> DataType:
        """The data type that must be found: the source's, or what the recipe makes of it."""
        if self.recipe.dtype is not None:
            return DataType.from_json(self.recipe.dtype)
        source = self.layout.data_type
        if VARIABLE.get(source.name) == "object":
            # Values that are all str become `string`; the others are JSON texts on request.
            return DataType(data_type_name(self.metadata))
        return source

    def compare_values(self, *, full: bool, pool: ThreadPoolExecutor, budget: int, count: Count) -> None:
        """Compare values block by block; `count` is told (chunks, decoded bytes).

        `budget` is what the process may take, in bytes, where chunks were cut anew.
        """
        if self._grid.total == 0:
            return
        threads: int = pool._max_workers  # noqa: SLF001 - it has no public name for its size
        try:
            leaves = SourceObjects(self.source, self.path, self.layout, allow_pickle=self.recipe.allow_pickle)
            blocks, threads = self._blocks(full=full, budget=budget, threads=threads)
        except ZarrstackError as error:
            self.differences.add([error.problem])
            return
        array = open_array(self.metadata, reading_store(self.destination), self.path)
        expect = Expectation(
            self.layout.data_type,
            data_type_name(self.metadata),
            native(self.metadata),
            casting=self.recipe.casting,
            objects=self.recipe.objects,
        )

        def compare(batch: Sequence[Region]) -> tuple[list[Problem], int, int]:
            problems: list[Problem] = []
            read = 0
            for region, values in zip(batch, read_regions(array, batch), strict=True):
                read += 0 if isinstance(values, Exception) else values.nbytes
                problems += self._compare_block(leaves, expect, region, values)
            return problems, len(batch), read

        for problems, chunks, read in _in_order(pool, compare, self._batches(blocks), threads):
            self.differences.add(problems)
            count(chunks, read)

    def _compare_block(
        self, leaves: SourceObjects, expect: Expectation, region: Region, found: Values | Exception
    ) -> list[Problem]:
        """Compare one region, piece by piece of the source's chunks."""
        key = key_below(self.path, self._key_at(region))
        if isinstance(found, Exception):
            return expect.compare(found, np.empty(0), self.path, key, region)
        problems = []
        for place in overlapping(region, self.layout.object_shape):
            try:
                for whole, values in leaves.within(place, region):
                    part = common(whole, region)
                    if values is None and self.node.fill_is_null:
                        continue
                    if values is None:
                        shape = tuple(axis.stop - axis.start for axis in part)
                        expected = expect.missing(leaves.fill(shape))
                    else:
                        expected = part_of(values, within(part, whole))
                    inside = part_of(found, within(part, region))
                    problems += expect.compare(inside, expected, self.path, key, part)
            except ZarrstackError as error:
                problems.append(error.at(node=self.path, key=leaves.key(place)).problem)
        return problems

    def _key_at(self, region: Region) -> str:
        """The destination's chunk key for a region that begins in it."""
        encoding = self.metadata.chunk_key_encoding.to_dict()
        lengths = self._grid.chunk_shape
        place = tuple(axis.start // length for axis, length in zip(region, lengths, strict=True))
        return KeyEncoding.from_json(encoding).key(place)

    def _blocks(self, *, full: bool, budget: int, threads: int) -> tuple[Iterator[Region], int]:
        """Regions to compare, and how many at a time: whole chunks of the destination, or parts of them.

        All of an array that was cut anew is compared in regions of both sides' chunks, each of
        which would otherwise be decoded again for every chunk of the other side that it touches.
        """
        places = self._places(full=full)
        leaf = self._leaf_shape()
        grid: Grid | None = None
        if full and leaf != self.layout.chunk_shape:
            grid, threads = self._common_grid(leaf, budget, threads)
        if grid is not None:
            return self._over(grid, places), threads
        whole: Iterable[Region] = map(self._grid.region, places)
        if full and isinstance(self.layout.frame, Shards):  # a shard is opened once, not for each leaf
            whole = self._over(self.layout.objects, places)
        return (
            part for region in whole for part in parts(region, self._itemsize(), leaf, _BATCH_BYTES)
        ), threads

    def _over(self, grid: Grid, places: Iterator[tuple[int, ...]]) -> Iterator[Region]:
        """Regions of another grid that touch chunks of the destination."""
        wanted = np.array([self._grid.index(place) for place in places], dtype=np.int64)
        numbers = touched(wanted, self._grid, grid).tolist()
        return (grid.region(grid.coordinates(number)) for number in numbers)

    def _common_grid(self, leaf: tuple[int, ...], budget: int, threads: int) -> tuple[Grid | None, int]:
        """Regions that read few chunks of the source twice, and how many at a time are good.

        They are of whole leaves of the destination; None where none fits into memory.
        """
        target = replace(self.layout, chunk_shape=leaf, frame=None)
        candidates = Candidates.of(self.layout, target)
        chunk = 2 * prod(self.layout.chunk_shape) * item_bytes(self.layout)
        best: tuple[float, int, Box] | None = None
        for number in range(threads, 0, -1):
            room = ((budget - _BASE) // number - chunk) // _COPIES
            box = candidates.choose(room, number, whole=True)
            if box is not None and (best is None or candidates.cost(box, number) < best[0]):
                best = candidates.cost(box, number), number, box
        return (None, threads) if best is None else (Grid(self.layout.shape, best[2].shape), best[1])

    def _itemsize(self) -> int:
        """Bytes of one element in memory; a guess of 16 where their length varies."""
        name = data_type_name(self.metadata)
        return 16 if name in VARIABLE else max(native(self.metadata).itemsize, 1)

    def _leaf_shape(self) -> tuple[int, ...]:
        """The smallest piece the destination decodes at once."""
        for codec in Chain.from_json(self.found.document["codecs"]).codecs:
            if codec.name == "sharding_indexed":
                return tuple(codec.configuration["chunk_shape"])
        return self._grid.chunk_shape

    def _places(self, *, full: bool) -> Iterator[tuple[int, ...]]:
        """Destination chunks that are stored on either side; or some of them and one that is not."""
        aligned = self._grid.chunk_shape == self.layout.object_shape
        if not (self.source.can_list and self.destination.can_list):
            everything = range(self._grid.total)
            chosen: Iterable[int] = everything
            if not full:
                rng = random.Random(self.path)
                last = self._grid.total - 1
                chosen = sorted({0, last, *(rng.randint(0, last) for _ in range(_SAMPLED))})
            return map(self._grid.coordinates, chosen)
        encoding = KeyEncoding.from_json(self.metadata.chunk_key_encoding.to_dict())
        below = key_below(self.path, "")
        stored = list_chunks(self.destination, below, encoding, self._grid)
        prefix = self.layout.prefix(self.path)
        legacy = list_chunks(self.source, prefix, self.layout.keys, self.layout.objects)
        wanted = np.union1d(stored, legacy if aligned else self._covering(legacy))
        if full:
            return (self._grid.coordinates(int(index)) for index in wanted)
        rng = random.Random(self.path)
        some = first_look(self._grid, wanted, rng, random_leaves=_SAMPLED)
        if aligned:  # what is stored on one side only is the likeliest to be wrong
            some += [int(index) for index in np.setxor1d(stored, legacy)[:_SAMPLED]]
        some += a_missing_chunk(self._grid, wanted, rng)
        return map(self._grid.coordinates, sorted(set(some)))

    def _covering(self, legacy: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Destination chunks that the given source chunks lie in."""
        covering: set[int] = set()
        for index in legacy:
            region = self.layout.objects.region(self.layout.objects.coordinates(int(index)))
            for place in overlapping(region, self._grid.chunk_shape):
                inside = self._grid.index(place)
                if inside is not None:
                    covering.add(inside)
        return np.array(sorted(covering), dtype=np.int64)

    def _batches(self, blocks: Iterator[Region]) -> Iterator[list[Region]]:
        first = next(blocks, None)
        if first is None:
            return
        block = prod(axis.stop - axis.start for axis in first) * self._itemsize()
        step = min(max(_BATCH_BYTES // max(block, 1), 1), _BATCH_BLOCKS)
        blocks = chain((first,), blocks)
        while batch := list(islice(blocks, step)):
            yield batch


def _named(names: Any) -> tuple[str | None, ...] | None:
    """No names and only nulls say the same."""
    return None if names is None or all(name is None for name in names) else tuple(names)


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
        if len(waiting) >= at_once + (at_once == pool._max_workers):  # noqa: SLF001 - see above
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()
