"""The route `regrid`: the values of a block are assembled and divided by a new grid of inner chunks.

Decoded parts of source chunks that a later region needs are kept until then.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from zarrstack.core.errors import ZarrstackError

from ..archive.chunk_reader import Array, InnerChunk
from ..core.codecs.base import memory
from ..core.data_types.compare import part_of
from ..core.data_types.v3 import fill_from_json
from ..core.grid.grid import Grid
from ..core.grid.overlap import (
    Region,
    cutting_order,
    intersection,
    present_candidates,
    relative,
    touching,
    within,
)
from ..storage.base import Storage
from ..storage.giving_up import check
from ..storage.writer import Writer
from .blocks import Assembler, ObjectBuilder, Place
from .recode import convert

if TYPE_CHECKING:
    from ..archive.chunk_inventory import Indexes
    from ..planning.routes import Move
    from ..storage.versions import ListedVersions
    from .counts import MoveCounts


class ValueAssembler(Assembler):
    """Assembles the values of each block and divides them by the new grid."""

    def __init__(self, move: Move, source: Storage, writer: Writer, *, recheck: bool) -> None:
        super().__init__(move, source, writer, recheck=recheck)
        self._grid = move.destination.grid
        self._source_grid = move.source.grid
        self._type = move.destination.data_type.numpy
        self._fill = fill_from_json(move.destination.fill_value, move.destination.data_type)
        self._order = cutting_order(move.source.chunk_shape, move.destination.chunk_shape)
        self._pieces = None if move.piece_shape is None else Grid(move.source.shape, move.piece_shape)
        self._runs = None if move.run_shape is None else Grid(move.source.shape, move.run_shape)

    def block(
        self, place: Place, present: Indexes, counts: MoveCounts, versions: ListedVersions | None
    ) -> None:
        """Assemble the values of one block and divide them."""
        region = self.blocks.region(place)
        if self._pieces is None:
            self._objects(region, self._region_buffer(region, present, counts, versions), counts)
            return
        parts = self._piecewise(place, self._pieces, present, counts, versions)
        lengths = zip(self._pieces.chunk_shape, self.targets.chunk_shape, strict=True)
        if any(piece % whole for piece, whole in lengths):
            # Every piece is a part of each object, which are all shards.
            self._make(within(region, self.targets), parts, counts)
            return
        for part, buffer in parts:
            self._objects(part, buffer, counts)
            del buffer  # before the next one

    def _objects(self, region: Region, buffer: RegionBuffer | None, counts: MoveCounts) -> None:
        """Make the objects of a region from its values, one after the other."""
        if buffer is not None:
            targets = within(region, self.targets)
            for at in range(len(targets)):
                self._make(targets[at : at + 1], iter([(region, buffer)]), counts)

    def _piecewise(
        self,
        place: Place,
        pieces: Grid,
        present: Indexes,
        counts: MoveCounts,
        versions: ListedVersions | None,
    ) -> Iterator[tuple[Region, RegionBuffer | None]]:
        """Yield regions of a block with their values; None for the rest after a failed read."""
        lost = False
        run: Region | None = None
        carried: CarryOver | None = None
        for piece in self._in_order(touching(place, self.blocks, pieces), pieces):
            region = pieces.region(piece)
            if self._runs is not None:
                around = _run_of(region, self._runs)
                if around != run:
                    run, carried = around, CarryOver(around, _swept(pieces, self._runs))
            near = present_candidates(touching(piece, pieces, self.origins), present)
            if len(near):
                buffer = self._region_buffer(region, near, counts, versions, carried)
                lost = lost or buffer is None
                yield region, None if lost else buffer
                del buffer

    def _make(
        self,
        targets: Indexes,
        parts: Iterator[tuple[Region, RegionBuffer | None]],
        counts: MoveCounts,
    ) -> None:
        """Make objects together from the parts of their values; one of which a value failed is discarded."""
        places = [self.targets.coordinates(number) for number in targets.tolist()]
        builders = [self.open(place, together=len(places)) for place in places]
        lost: set[int] = set()
        try:
            for region, buffer in parts:
                for number, place in enumerate(places):
                    start = counts.failures
                    if buffer is not None:
                        self._cut(
                            buffer, intersection(region, self.targets.region(place)), builders[number], counts
                        )
                    if buffer is None or counts.failures > start:
                        lost.add(number)
                del buffer  # before the next one
            for number in sorted(set(range(len(builders))) - lost):
                counts.objects += builders[number].finish()
        except BaseException:
            for each in builders:
                each.discard()
            raise
        for number in lost:
            builders[number].discard()

    def _region_buffer(
        self,
        region: Region,
        present: Indexes,
        counts: MoveCounts,
        versions: ListedVersions | None,
        carried: CarryOver | None = None,
    ) -> RegionBuffer | None:
        """The values of a region; None if some of them could not be read, which is recorded in `counts`.

        `carried` contains what the run's earlier pieces left, and receives what later ones need.
        """
        start = counts.failures
        buffer = RegionBuffer(region, self._type, self._fill, self.move.destination.chunk_shape)
        grid = self._source_grid
        if carried is not None:
            carried.paste(buffer)
        wanted, opened, lost = within(region, grid), None, None
        if carried is not None:
            wanted, opened, lost = carried.new(wanted), carried.opened, carried.lost
            present = carried.readable(present)
        for key, chunk in self.chunks.read(
            present, counts, wanted=wanted, versions=versions, opened=opened, lost=lost
        ):
            where, values = grid.region(grid.coordinates(chunk.number)), None
            try:
                values = self._values(chunk, grid)
            except (ZarrstackError, MemoryError) as error:
                counts.failed(self.chunks.with_position(error, chunk.number), key)
            else:
                counts.inner_chunk(chunk.size, 0)
                buffer.paste(values, where)
            if carried is not None:
                carried.keep(chunk.number, where, values)
        return None if counts.failures > start else buffer

    def _values(self, chunk: InnerChunk, grid: Grid) -> Array:
        """A chunk's values in the destination's form; those beyond the array may be missing."""
        values = self.chunks.decode(chunk)
        if self.move.source.frame is None:
            self.inner_chunk.again(chunk.number, chunk.payload, values)
        if not self.inner_chunk.casts:
            return values
        inside: tuple[Any, ...] = (*grid.valid(grid.coordinates(chunk.number)), ...)
        return np.asarray(convert(self.move, values[inside]))

    def _in_order(self, numbers: Indexes, grid: Grid) -> list[Place]:
        """Positions in the order in which a shard stores its inner chunks."""
        places = [grid.coordinates(number) for number in numbers.tolist()]
        if self._order != tuple(range(len(self._order))):
            places.sort(key=lambda place: tuple(place[axis] for axis in self._order))
        return places

    def _cut(self, buffer: RegionBuffer, region: Region, builder: ObjectBuilder, counts: MoveCounts) -> None:
        grid = self._grid
        for place in self._in_order(counts.wanted(within(region, grid)), grid):
            if not buffer.holds(grid.region(place)):
                continue
            check()
            try:
                payload = self.inner_chunk.store(
                    grid.index(place) or 0, buffer.inner_chunk(grid.region(place))
                )
            except (ZarrstackError, MemoryError) as error:
                counts.failed(error, self.move.destination.key(self.move.path, place))
                continue
            if payload is None:
                counts.dropped += 1
                continue
            counts.bytes_out += memory(payload).nbytes
            builder.put(place, payload)


def _run_of(region: Region, runs: Grid) -> Region:
    """The run that contains a piece."""
    place = (axis.start // length for axis, length in zip(region, runs.chunk_shape, strict=True))
    return runs.region(tuple(place))


def _swept(pieces: Grid, runs: Grid) -> int:
    """The axis along which the pieces of a run follow each other."""
    lengths = zip(pieces.chunk_shape, runs.chunk_shape, strict=True)
    return next(axis for axis, (piece, run) in enumerate(lengths) if piece != run)


class RegionBuffer:
    """The values of one region during assembly."""

    def __init__(
        self, region: Region, dtype: np.dtype[Any], fill: Any, inner_chunk_shape: tuple[int, ...]
    ) -> None:
        self.region = region
        self._inner_chunk = inner_chunk_shape
        self._fill = fill
        self._values: Array = np.empty(tuple(axis.stop - axis.start for axis in region), dtype)
        self._values[...] = fill
        # Inner chunks of the destination that overlap stored values; the others remain missing.
        first = tuple(axis.start // length for axis, length in zip(region, inner_chunk_shape, strict=True))
        counts = tuple(
            -(-axis.stop // length) - start
            for axis, length, start in zip(region, inner_chunk_shape, first, strict=True)
        )
        self._first = first
        self._reached = np.zeros(counts, dtype=np.bool_)

    def paste(self, values: Array, region: Region) -> None:
        """Insert the values of a source object with this region, as far as they overlap."""
        common = intersection(self.region, region)
        here: tuple[Any, ...] = (*relative(common, self.region), ...)
        self._values[here] = part_of(values, relative(common, region))
        reached: tuple[Any, ...] = tuple(
            slice(axis.start // length - first, -(-axis.stop // length) - first)
            for axis, length, first in zip(common, self._inner_chunk, self._first, strict=True)
        )
        self._reached[(*reached, ...)] = True

    def holds(self, region: Region) -> bool:
        """Whether stored values overlap the inner chunk that begins at this region's corner."""
        place = tuple(
            axis.start // length - first
            for axis, length, first in zip(region, self._inner_chunk, self._first, strict=True)
        )
        return bool(self._reached[place])

    def inner_chunk(self, region: Region) -> Array:
        """A whole inner chunk; elements beyond the array's end have the fill value."""
        part = part_of(self._values, relative(region, self.region))
        if part.shape == self._inner_chunk:
            return part
        whole: Array = np.empty(self._inner_chunk, part.dtype)
        whole[...] = self._fill
        whole[tuple(map(slice, part.shape))] = part
        return whole


class CarryOver:
    """Parts of decoded chunks, by linear index, while the pieces of one run are processed in order.

    Pieces follow each other along one axis. Of a chunk that extends beyond a piece, only the part in the rest
    of the run is kept, so memory is limited by the two grids.
    """

    def __init__(self, run: Region, axis: int) -> None:
        self._run = run
        self._axis = axis
        self._piece: Region = run
        self._parts: dict[int, tuple[Array | None, Region]] = {}
        self._seen: frozenset[int] = frozenset()
        self.opened: set[int] = set()
        """Shards that were read for an earlier piece."""
        self.lost: set[int] = set()
        """Objects that are missing or could not be read."""

    def paste(self, buffer: RegionBuffer) -> None:
        """Start the next piece: insert the kept parts into its buffer, and drop those no longer needed."""
        self._piece = buffer.region
        self._seen = frozenset(self._parts)
        for number in self._seen:
            values, region = self._parts[number]
            if values is not None:
                buffer.paste(values, region)
            if region[self._axis].stop <= self._piece[self._axis].stop:
                del self._parts[number]

    def new(self, numbers: Indexes) -> Indexes:
        """The chunks that were not read for an earlier piece."""
        return numbers[[number not in self._seen for number in numbers.tolist()]]

    def readable(self, objects: Indexes) -> Indexes:
        """The objects that are not `lost`."""
        return objects[[number not in self.lost for number in objects.tolist()]] if self.lost else objects

    def keep(self, number: int, region: Region, values: Array | None) -> None:
        """Store a chunk for later pieces as far as they need it; None for a chunk without values."""
        axis = self._axis
        if region[axis].stop <= self._piece[axis].stop:
            return
        rest = [*intersection(region, self._run)]
        rest[axis] = slice(self._piece[axis].stop, rest[axis].stop)
        if rest[axis].start < rest[axis].stop:
            self._parts[number] = (
                None if values is None else part_of(values, relative(tuple(rest), region)).copy(),
                tuple(rest),
            )
