"""Compares the values of one array on both sides, region by region.

The source is decoded by zarrlift, the result by zarr-python (`sides`). If the chunk grids differ, regions
consist of whole chunks of both sides, as far as memory allows, to avoid decoding chunks repeatedly.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain, islice
from math import prod
from typing import TYPE_CHECKING, Final

import numpy as np

from zarrstack.core.errors import ChunkError, Problem, ZarrstackError
from zarrstack.core.json_text import JSONObject

from ..archive.chunk_reader import InnerChunk, MissingObject
from ..archive.nodes import Layout
from ..archive.shard_reader import chunk_reader
from ..core.codecs.base import HeadAndTail
from ..core.data_types.compare import Values, kind, matches_json_text, mismatch, part_of, region_text, shown
from ..core.data_types.object_values import may_be_anything
from ..core.grid.frames import Shards
from ..core.grid.grid import Grid
from ..core.grid.overlap import Region, intersection, relative, touched, within
from ..core.problems import refusal, warning
from ..recipe.recipe import ValueOptions
from ..storage.base import Storage
from ..storage.giving_up import result_of
from .documents import VARIABLE, fill_of
from .sides import (
    Compared,
    Division,
    Result,
    first_coordinates,
    list_chunks,
    parts,
)
from .zarr_python_reader import words

if TYPE_CHECKING:
    from zarrstack.system.zarr_internals import ArrayV3Metadata

    from ..archive.chunk_inventory import Indexes
    from ..core.data_types.cast import Casting
    from ..planning.blocks import Blocks

_BATCH_BYTES: Final = 16 << 20
_MIN_BYTES: Final = 1 << 20
"""Minimum of decoded bytes of one side that a thread holds at a time, unless a single region is larger."""
_BASE: Final = 176 << 20
"""Memory of the process itself in bytes, with zarr-python loaded."""
_COPIES: Final = 3
"""Copies of a region's values in memory: as decoded from the source, as found, and as extracted by
zarr-python from a shard or used in the comparison.
"""
_BATCH_BLOCKS: Final = 64
"""Blocks read together; this halves zarr-python's cost per block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """The part of a region that comes from one chunk of the source, or one inner chunk of a shard."""

    part: Region
    values: Values | None
    """None if it is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedArray:
    """An array whose values are compared: what another process needs to know of it."""

    path: str
    layout: Layout
    """In the source."""
    document: JSONObject
    """The `zarr.json` of the result."""
    values: ValueOptions
    fill_is_null: bool
    stays_missing: bool = False
    """Whether an object that is missing in the source must be missing in the result, whatever it reads as."""
    names_streams: bool = False
    """Whether copied chunks of several zstd frames or gzip members are named, which tensorstore refuses."""


class Expectation:
    """The values to be found for given source values, after the changes of the recipe."""

    def __init__(self, array: ComparedArray, result: Result) -> None:
        layout = array.layout
        source, target = layout.data_type, result.dtype
        self._path, self._key = array.path, result.key
        self._tagged = may_be_anything(layout.chain.codecs[layout.chain.middle].name)
        mine, theirs = VARIABLE.get(source.name), VARIABLE.get(result.type_name)
        to_text = theirs == "string" and mine != "string"
        self._texts = to_text and array.values.objects == "json"
        self._blank = to_text and array.values.objects != "json"
        self._casting: Casting | None = array.values.casting
        if to_text or (mine is not None and mine == theirs) or kind(source.numpy) == kind(target):
            self._casting = None
        self._target = target

    def missing(self, fill: Values) -> Values:
        """The expected values of a missing chunk with this fill value.

        Object arrays without a fill value have 0, which is not text and becomes the empty string.
        """
        if self._blank and fill.size and not isinstance(fill.flat[0], str):
            return np.broadcast_to(np.array("", dtype=object), fill.shape)
        return fill

    def compare(self, found: Values, values: Values, region: Region) -> Problem | None:
        """The problem if found values are not those expected for the source's."""
        if self._texts:
            return self._compare_texts(found, values, region)
        if self._casting is not None:
            from ..core.data_types.cast import cast

            try:
                values = cast(values, self._target, self._casting)
            except ZarrstackError as error:
                return error.at(node=self._path, key=self._key(first_coordinates(region))).problem
        differs = mismatch(found, values)
        if differs is None:
            return None
        if len(differs.index) != len(region):  # shapes or types differ
            return self.problem(region, differs.found, differs.expected)
        place = tuple(axis.start + offset for axis, offset in zip(region, differs.index, strict=True))
        where = f"at {list(place)}"
        if differs.count > 1:
            where = f"{differs.count} of them, first {where}"
        return self.problem(region, differs.found, differs.expected, where, place=place)

    def _compare_texts(self, found: Values, values: Values, region: Region) -> Problem | None:
        """Compare for `--set objects=json`, which stores every value as its JSON text."""
        texts = found.astype(object).reshape(-1)
        wrong = [
            (text, value)
            for text, value in zip(texts, values.reshape(-1), strict=True)
            if not matches_json_text(text, value, tagged=self._tagged)
        ]
        if not wrong:
            return None
        text, value = wrong[0]
        return self.problem(region, shown(text), f"JSON text of {shown(value)}", f"in {len(wrong)} places")

    def unreadable(self, error: Exception, region: Region) -> Problem:
        """The problem for a region that zarr-python cannot read."""
        return refusal(
            "verify-unreadable",
            f"zarr-python cannot read {region_text(region)}",
            node=self._path,
            key=self._key(first_coordinates(region)),
            found=words(error),
        )

    def problem(
        self,
        region: Region,
        found: str,
        expected: str,
        where: str = "",
        *,
        place: tuple[int, ...] | None = None,
    ) -> Problem:
        """The problem for a region whose values differ, first in the object that contains `place`."""
        message = f"values differ in {region_text(region)}{f' ({where})' if where else ''}"
        key = self._key(first_coordinates(region) if place is None else place)
        return refusal("verify-values", message, node=self._path, key=key, found=found, expected=expected)


class ArrayValues:
    """Both sides of one array; ZarrstackError if one of them cannot be decoded at all.

    Objects that have to stay missing are each asked for if both sides have the same objects and either cannot
    list, or if only some are compared (`sampled`).
    """

    def __init__(
        self,
        array: ComparedArray,
        source: Storage,
        destination: Storage,
        *,
        metadata: ArrayV3Metadata | None = None,
        sampled: bool = False,
    ) -> None:
        """`metadata` is that of the array's document, if it is parsed."""
        self.array = array
        self.path = array.path
        self.layout = layout = array.layout
        self.result = result = Result(destination, array.path, array.document, metadata)
        self.grid = result.grid
        self._source = source
        self._destination = destination
        self._inner_chunk = result.inner_chunk
        self._item = 16 if result.type_name in VARIABLE else max(result.dtype.itemsize, 1)
        self._names_streams = array.names_streams and self.aligned
        self._asks_for_missing = array.stays_missing and self.aligned and (sampled or not self.listed)
        self._reader = chunk_reader(source, array.path, layout, allow_pickle=array.values.allow_pickle)
        self._fill = fill_of(layout.data_type, layout.fill_value)
        self._expect = Expectation(array, result)

    @property
    def listed(self) -> bool:
        """Whether both sides can list their objects."""
        return self._source.can_list and self._destination.can_list

    @property
    def aligned(self) -> bool:
        """Whether the objects of source and result correspond one to one."""
        return self.grid.chunk_shape == self.layout.object_shape

    def stored(self) -> tuple[Indexes, Indexes]:
        """The objects of the result, and those that contain data of a stored object of the source.

        They are linear indexes in the result's grid, ascending, from new listings; StorageError.
        """
        existing = list_chunks(self._destination, self.result.prefix, self.result.keys, self.grid)
        objects = self.layout.objects
        legacy = list_chunks(self._source, self.layout.prefix(self.path), self.layout.keys, objects)
        return existing, legacy if self.aligned else touched(legacy, objects, self.grid)

    def whole(self, wanted: Indexes, *, budget: int, pool: ThreadPoolExecutor) -> Iterator[Compared]:
        """Compare all objects of the result with these linear indexes, and others in the same regions.

        `budget` is the process's memory limit in bytes; a single inner chunk of either side is always
        allowed.
        """
        return self.regions(self.divided(wanted, budget=budget, threads=_size(pool)), pool)

    def regions(self, division: Division, pool: ThreadPoolExecutor) -> Iterator[Compared]:
        """Compare the regions of a division or of a part of it."""
        grid = Grid(self.layout.shape, division.shape)
        regions: Iterator[Region] = (grid.region(grid.coordinates(int(index))) for index in division.indexes)
        if division.cut:
            regions = self._parts(regions, division.most)
        return self._compare(regions, pool, division.threads, division.most)

    def objects(self, wanted: Iterable[int], pool: ThreadPoolExecutor) -> Iterator[Compared]:
        """Compare the objects of the result with these linear indexes, one by one."""
        whole = (self.grid.region(self.grid.coordinates(index)) for index in wanted)
        return self._compare(self._parts(whole, _BATCH_BYTES), pool, _size(pool), _BATCH_BYTES)

    # Division of the work

    def divided(self, wanted: Indexes, *, budget: int, threads: int) -> Division:
        """Regions that cover the wanted objects: of whole chunks of both sides if these fit into memory.

        Otherwise a chunk would be decoded again for every chunk of the other side that it overlaps.
        """
        memory = budget - _BASE
        if (
            self._inner_chunk != self.layout.chunk_shape
            and (best := self._common_grid(memory, threads)) is not None
        ):
            grid, threads, room = best
            chosen = touched(wanted, self.grid, grid)
            return Division(grid.chunk_shape, chosen, threads, min(room, _BATCH_BYTES), cut=False)
        room = max(memory // _COPIES, 1)
        least = max(prod(self._inner_chunk) * self._item, self._chunk_bytes, _MIN_BYTES)
        threads = max(min(threads, room // least), 1)
        most = min(max(room // threads, _MIN_BYTES), _BATCH_BYTES)
        grid = self.grid
        if isinstance(self.layout.frame, Shards):  # opens a shard once, not for each inner chunk
            grid = self.layout.objects
            wanted = touched(wanted, self.grid, grid)
        return Division(grid.chunk_shape, wanted, threads, most, cut=True)

    def region_bytes(self, division: Division) -> int:
        """Decoded bytes of one region of a division."""
        sides = zip(division.shape, self.layout.shape, strict=True)
        return prod(min(length, whole) for length, whole in sides) * self._item

    def _parts(self, regions: Iterator[Region], most: int) -> Iterator[Region]:
        return (part for region in regions for part in parts(region, self._item, self._inner_chunk, most))

    @property
    def _chunk_bytes(self) -> int:
        return prod(self.layout.chunk_shape) * self.layout.item_bytes

    def _common_grid(self, memory: int, threads: int) -> tuple[Grid, int, int] | None:
        """(grid, number of regions at a time, bytes of each) such that few source chunks are read twice.

        The regions consist of whole inner chunks of the result; None if no such region fits into memory.
        """
        from ..planning.boxes import Candidates  # a sample does not need these

        target = replace(self.layout, chunk_shape=self._inner_chunk, frame=None)
        candidates = Candidates.of(self.layout, target)
        best: tuple[float, int, int, Blocks] | None = None
        for number in range(threads, 0, -1):
            room = (memory // number - 2 * self._chunk_bytes) // _COPIES
            box = candidates.choose(room, number, whole=True)
            if box is not None and (best is None or candidates.cost(box, number) < best[0]):
                best = candidates.cost(box, number), number, room, box
        return None if best is None else (Grid(self.layout.shape, best[3].shape), best[1], best[2])

    def _batches(self, regions: Iterator[Region], most: int) -> Iterator[list[Region]]:
        first = next(regions, None)
        if first is None:
            return
        size = prod(axis.stop - axis.start for axis in first) * self._item
        step = min(max(most // max(size, 1), 1), _BATCH_BLOCKS)
        regions = chain((first,), regions)
        while batch := list(islice(regions, step)):
            yield batch

    # Comparison

    def _compare(
        self, regions: Iterator[Region], pool: ThreadPoolExecutor, threads: int, most: int
    ) -> Iterator[Compared]:
        """Compare batches of regions, up to `threads` at a time; yields the results in order."""
        waiting: deque[Future[Compared]] = deque()
        for batch in self._batches(regions, most):
            waiting.append(pool.submit(self.compare, batch))
            if len(waiting) >= threads + (threads == _size(pool)):
                yield result_of(waiting.popleft())
        while waiting:
            yield result_of(waiting.popleft())

    def compare(self, batch: Sequence[Region]) -> Compared:
        """Compare a batch; our decoder comes first, because it is bounded and may refuse a payload."""
        problems: list[Problem] = []
        wanted: list[tuple[Region, list[_Piece]]] = []
        for region in batch:
            pieces, refused = self._pieces(region)
            problems += refused
            wanted += [(piece.part, [piece]) for piece in pieces] if refused else [(region, pieces)]
        read = 0
        for (region, pieces), values in zip(
            wanted, self.result.read([region for region, _ in wanted]), strict=True
        ):
            if isinstance(values, Exception):
                problems.append(self._expect.unreadable(values, region))
                continue
            read += values.nbytes
            compared = (
                self._difference(piece, part_of(values, relative(piece.part, region))) for piece in pieces
            )
            problems += filter(None, compared)
        return Compared(problems, len(batch), read)

    def _pieces(self, region: Region) -> tuple[list[_Piece], list[Problem]]:
        """The pieces of the source in a region, and their problems."""
        pieces: list[_Piece] = []
        problems: list[Problem] = []
        objects = self.layout.objects
        seen = (lambda chunk: problems.extend(self._streams(chunk))) if self._names_streams else None
        for number in within(region, objects).tolist():
            try:
                for whole, values in self._reader.decoded(number, region, seen):
                    part = intersection(whole, region)
                    if values is not None:
                        pieces.append(_Piece(part=part, values=_cut(values, relative(part, whole))))
                    elif not self.array.fill_is_null:  # otherwise its value is undefined
                        pieces.append(_Piece(part=part, values=None))
            except MissingObject:
                part = intersection(objects.region(objects.coordinates(number)), region)
                if (
                    self._asks_for_missing
                    and self._destination.size(self.result.key(first_coordinates(part))) is not None
                ):
                    problems.append(self.surplus(part))
                elif not self.array.fill_is_null:
                    pieces.append(_Piece(part=part, values=None))
            except ZarrstackError as error:
                error = error.at(node=self.path, key=self._reader.key(number))
                problems.append(error.problem)
        return pieces, problems

    def _streams(self, chunk: InnerChunk) -> Iterator[Problem]:
        """A warning if a chunk has several streams, and an object of the result has the same bytes."""
        payload, pipeline = chunk.payload, self._reader.pipeline
        try:
            certain = pipeline.check(HeadAndTail.of(payload))
        except ChunkError:  # a block of N5 that is cut at the array's edge
            certain = False
        if (several := pipeline.several_streams(payload, thorough=not certain)) is None:
            return
        grid = self.layout.grid
        key = self.result.key(first_coordinates(grid.region(grid.coordinates(chunk.number))))
        if bytes(payload) in (self._destination.get(key, self._reader.bound) or b""):
            name = self.layout.chain.codecs[several[0]].name
            message = f"a chunk has several streams of {name}, which tensorstore refuses"
            advice = "Migrate the array with --codecs, such as --codecs zstd:3, which encodes it again."
            found = str(several[1])
            yield warning("readers", message, node=self.path, key=key, found=found, advice=advice)

    def _difference(self, piece: _Piece, values: Values) -> Problem | None:
        expected = piece.values
        if expected is None:
            shape = tuple(axis.stop - axis.start for axis in piece.part)
            expected = self._expect.missing(np.broadcast_to(self._fill, shape))
        return self._expect.compare(values, expected, piece.part)

    def surplus(self, region: Region) -> Problem:
        """The problem for an object of the result that the source does not have."""
        return self._expect.problem(region, "a stored chunk", "none, as in the source")


def _cut(values: Values, region: Region) -> Values:
    """Copy a part of a decoded chunk, so the rest of the chunk can be freed."""
    part = part_of(values, region)
    return part if part.size == values.size else part.copy()


def _size(pool: ThreadPoolExecutor) -> int:
    size: int = pool._max_workers  # noqa: SLF001 - it has no public name for its size
    return size
