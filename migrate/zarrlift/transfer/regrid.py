"""The route `regrid`: the values of a block are assembled and divided by a new grid of inner chunks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from zarrstack.core.errors import ZarrstackError

from ..core.codecs.base import memory
from ..core.data_types.v3 import fill_from_json
from ..core.grid.grid import Grid
from ..core.grid.overlap import cutting_order, touching, within
from ..storage.base import Storage
from ..storage.giving_up import check
from ..storage.writer import Writer
from .blocks import Assembler, ObjectBuilder, Place
from .recode import convert
from .region_buffer import Array, CarryOver, Region, RegionBuffer
from .shard_reader import present_candidates
from .stored_chunks import InnerChunk

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
        self._pieces = None if move.buffer_shape is None else Grid(move.source.shape, move.buffer_shape)
        self._runs = None if move.sweep_shape is None else Grid(move.source.shape, move.sweep_shape)

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
                            buffer, _overlap(region, self.targets.region(place)), builders[number], counts
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
        chunks = self.chunks.read(present, counts, region=region, carried=carried, versions=versions)
        for key, chunk in chunks:
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


def _overlap(region: Region, other: Region) -> Region:
    """The common part of two regions that overlap."""
    pairs = zip(region, other, strict=True)
    return tuple(slice(max(a.start, b.start), min(a.stop, b.stop)) for a, b in pairs)


def _run_of(region: Region, runs: Grid) -> Region:
    """The run that contains a piece."""
    place = (axis.start // length for axis, length in zip(region, runs.chunk_shape, strict=True))
    return runs.region(tuple(place))


def _swept(pieces: Grid, runs: Grid) -> int:
    """The axis along which the pieces of a run follow each other."""
    lengths = zip(pieces.chunk_shape, runs.chunk_shape, strict=True)
    return next(axis for axis, (piece, run) in enumerate(lengths) if piece != run)
