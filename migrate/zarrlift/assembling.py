"""Tasks whose objects are not those of the source: shards made, split or regrouped, leaves of another shape.

Work goes by *blocks*, chunks of a grid of their own that hold whole destination objects. Where both
sides have the same leaves, payloads are handed on one by one (`_Payloads`), and none is decoded unless
its codecs change. Otherwise the values of a block are put together and cut anew (`_Values`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from zarrstack.core.codecs.base import Buffer, memory
from zarrstack.core.dtypes import fill_from_json
from zarrstack.core.errors import ZarrstackError
from zarrstack.core.frames import Shards
from zarrstack.core.grid import Grid
from zarrstack.core.overlap import cutting_order, touching, within

from .canvas import Array, Canvas
from .changing import LeafChange, convert, inside_shard, leaf_change_for
from .leaves import MissingShard, ShardReader, among, object_keys, read_objects
from .new_objects import NewObject, new_object
from .storage import Storage
from .stored import object_decoder
from .writing import Writer

if TYPE_CHECKING:
    from .counting import Counts
    from .inventory import Indexes
    from .move import Task
    from .plans import Move

    Place = tuple[int, ...]


class Assembler(ABC):
    """Makes the destination objects of one array, block by block; shared between threads."""

    def __init__(self, move: Move, source: Storage, writer: Writer, *, recheck: bool) -> None:
        assert move.block_shape is not None
        self.move = move
        self.writer = writer
        self.source = source
        self.blocks = Grid(move.source.shape, move.block_shape)
        self.targets = move.destination.objects
        self.leaf = LeafChange(move, recheck=recheck)
        self.change = leaf_change_for(move, self.leaf)
        self.sharded = isinstance(move.source.frame, Shards)
        self.shards = ShardReader(source, move.path, move.source) if self.sharded else None
        # What an object holds decoded.
        self.each = prod(move.source.object_shape) * (move.source.data_type.itemsize or 1)

    def __call__(self, task: Task, counts: Counts) -> None:
        """Make every object of the task's blocks; problems go to `counts`. DestinationError."""
        assert task.sources is not None
        for number in task.indexes.tolist():
            place = self.blocks.coordinates(number)
            present = among(touching(place, self.blocks, self.move.source.objects), task.sources)
            self.block(place, present, counts)

    @abstractmethod
    def block(self, place: Place, present: Indexes, counts: Counts) -> None:
        """Make the objects of one block from the source's objects that are there."""

    def open(self, place: Place) -> NewObject:
        """An object of the destination, to be filled leaf by leaf."""
        return new_object(self.move, self.writer, place)

    def leaves_of(
        self, shards: ShardReader, number: int, wanted: Indexes, counts: Counts
    ) -> Iterator[tuple[int, Buffer]]:
        """(leaf, payload) of one shard; that it is gone, or damaged, is told to `counts`."""
        try:
            yield from shards.leaves(number, wanted)
        except MissingShard:
            counts.missing(shards.key(number))
        except (ZarrstackError, MemoryError) as error:
            counts.failed(error, shards.key(number))
        else:
            counts.chunks += 1

    def objects_of(self, place: Place) -> Iterator[Place]:
        """Places of the destination's objects within a block."""
        for number in touching(place, self.blocks, self.targets).tolist():
            yield self.targets.coordinates(number)


class Payloads(Assembler):
    """The same leaves on both sides."""

    def block(self, place: Place, present: Indexes, counts: Counts) -> None:
        """Hand on the payloads of one block."""
        whole = self.targets.chunk_shape == self.blocks.chunk_shape
        target = _One(self.open(place)) if whole else _Many(self)
        start = counts.failures
        try:
            for leaf, payload, key in self._leaves(place, present, counts):
                try:
                    changed = self._changed(leaf, payload, counts)
                except (ZarrstackError, MemoryError) as error:
                    counts.failed(error, key)
                    continue
                counts.leaf(memory(payload).nbytes, 0 if changed is None else memory(changed).nbytes)
                if changed is None:
                    counts.dropped += 1
                    continue
                target.put(self.move.destination.grid.coordinates(leaf), changed)
        except BaseException:
            target.discard()
            raise
        if counts.failures > start:
            target.discard()
        else:
            target.finish()

    def _leaves(self, place: Place, present: Indexes, counts: Counts) -> Iterator[tuple[int, Buffer, str]]:
        """(leaf, payload, key of the object it came from); what cannot be read is told to `counts`."""
        if self.shards is None:
            keys = object_keys(self.move.source, self.move.path, present)
            objects = read_objects(self.source, keys, counts, each=self.each)
            for number, key, data in zip(present.tolist(), keys, objects, strict=True):
                if data is None:
                    counts.missing(key)
                    continue
                counts.chunks += 1
                yield number, data, key
            return
        wanted = touching(place, self.blocks, self.move.source.grid)
        for number in self.shards.in_turn(present.tolist()):
            key = self.shards.key(number)
            for leaf, payload in self.leaves_of(self.shards, number, wanted, counts):
                yield leaf, payload, key

    def _changed(self, leaf: int, payload: Buffer, counts: Counts) -> Buffer | None:
        if self.shards is None:
            assert isinstance(payload, bytes)
            return self.change(leaf, payload, counts.tally)
        try:
            return self.leaf(leaf, payload)
        except ZarrstackError as error:
            raise inside_shard(error, self.shards.inner(leaf)) from error


class Values(Assembler):
    """Leaves of another shape: values are put together and cut anew."""

    def __init__(self, move: Move, source: Storage, writer: Writer, *, recheck: bool) -> None:
        super().__init__(move, source, writer, recheck=recheck)
        self._decoder = object_decoder(move.source, allow_pickle=move.allow_pickle)
        self._type = move.destination.data_type.numpy
        self._fill = fill_from_json(move.destination.fill_value, move.destination.data_type)
        self._order = cutting_order(move.source.chunk_shape, move.destination.chunk_shape)
        self._pieces = None if move.piece_shape is None else Grid(move.source.shape, move.piece_shape)

    def block(self, place: Place, present: Indexes, counts: Counts) -> None:
        """Put the values of one block together, and cut them."""
        if self._pieces is None:
            canvas = self._canvas(self.blocks.region(place), present, counts)
            if canvas is None:
                return
            for target in self.objects_of(place):
                region = self.targets.region(target)
                self._make(target, iter([(region, canvas)]), counts)
            return
        # One object, a shard, that is larger than the memory for it: made piece by piece.
        self._make(place, self._piecewise(place, self._pieces, present, counts), counts)

    def _piecewise(
        self, place: Place, pieces: Grid, present: Indexes, counts: Counts
    ) -> Iterator[tuple[tuple[slice, ...], Canvas | None]]:
        for piece in self._in_order(touching(place, self.blocks, pieces), pieces):
            near = among(touching(piece, pieces, self.move.source.objects), present)
            region = pieces.region(piece)
            if len(near):
                yield region, self._canvas(region, near, counts)

    def _make(
        self, place: Place, parts: Iterator[tuple[tuple[slice, ...], Canvas | None]], counts: Counts
    ) -> None:
        """One object, out of the canvases of its parts; none appears if some value of it failed."""
        start = counts.failures
        made = self.open(place)
        try:
            for region, canvas in parts:
                if canvas is not None:
                    self._cut(canvas, region, made, counts)
                del canvas  # before the next one
        except BaseException:
            made.discard()
            raise
        if counts.failures > start:
            made.discard()
        else:
            made.finish()

    def _canvas(self, region: tuple[slice, ...], present: Indexes, counts: Counts) -> Canvas | None:
        """The values of a region; None where some of them could not be read, which `counts` is told."""
        start = counts.failures
        canvas = Canvas(region, self._type, self._fill, self.move.destination.chunk_shape)
        keys = object_keys(self.move.source, self.move.path, present)
        grid = self.move.source.objects
        if self.shards is not None:
            self._paste_shards(canvas, self.shards, present, keys, counts)
        else:
            objects = read_objects(self.source, keys, counts, each=self.each)
            for number, key, data in zip(present.tolist(), keys, objects, strict=True):
                if data is None:
                    counts.missing(key)
                    continue
                try:
                    values = self._decoder.decode(data)
                    if self.move.source.frame is None:
                        self.leaf.again(number, data, values)
                    values = self._convert(values, number, grid)
                except (ZarrstackError, MemoryError) as error:
                    counts.failed(error, key)
                    continue
                counts.add(len(data), 0)
                canvas.paste(values, grid.region(grid.coordinates(number)))
        return None if counts.failures > start else canvas

    def _convert(self, values: Array, number: int, grid: Grid) -> Array:
        """A chunk's values as the destination holds them; what lies beyond the array is left out."""
        if self.move.source.data_type == self.move.destination.data_type:
            return values
        inside: tuple[Any, ...] = (*grid.valid(grid.coordinates(number)), ...)
        return np.asarray(convert(self.move, values[inside]))

    def _paste_shards(
        self, canvas: Canvas, shards: ShardReader, present: Indexes, keys: list[str], counts: Counts
    ) -> None:
        grid = self.move.source.grid
        wanted = within(canvas.region, grid)
        for number, key in zip(shards.in_turn(present.tolist()), keys, strict=True):
            for leaf, payload in self.leaves_of(shards, number, wanted, counts):
                try:
                    values = self._convert(self.leaf.reader.decode(payload), leaf, grid)
                except ZarrstackError as error:
                    counts.failed(inside_shard(error, shards.inner(leaf)), key)
                    continue
                except MemoryError as error:
                    counts.failed(error, key)
                    continue
                counts.leaf(memory(payload).nbytes, 0)
                canvas.paste(values, grid.region(grid.coordinates(leaf)))

    def _in_order(self, numbers: Indexes, grid: Grid) -> list[Place]:
        """Places in the order in which a shard holds its leaves."""
        places = [grid.coordinates(number) for number in numbers.tolist()]
        if self._order != tuple(range(len(self._order))):
            places.sort(key=lambda place: tuple(place[axis] for axis in self._order))
        return places

    def _cut(self, canvas: Canvas, region: tuple[slice, ...], made: NewObject, counts: Counts) -> None:
        grid = self.move.destination.grid
        for place in self._in_order(counts.wanted(within(region, grid)), grid):
            if not canvas.holds(grid.region(place)):
                continue
            try:
                payload = self.leaf.store(grid.index(place) or 0, canvas.leaf(grid.region(place)))
            except (ZarrstackError, MemoryError) as error:
                counts.failed(error, self.move.destination.key(self.move.path, place))
                continue
            if payload is None:
                counts.dropped += 1
                continue
            counts.bytes_out += memory(payload).nbytes
            made.put(place, payload)


class _One:
    """The block is one object."""

    def __init__(self, made: NewObject) -> None:
        self.put = made.put
        self.finish = made.finish
        self.discard = made.discard


class _Many:
    """The block is many objects of one leaf each."""

    def __init__(self, assembler: Assembler) -> None:
        self._assembler = assembler

    def put(self, place: Place, payload: Buffer) -> None:
        self._assembler.open(place).put(place, payload)

    def finish(self) -> None:
        """They are there already."""

    def discard(self) -> None:
        """They are whole, each of them; the array does not appear all the same."""


def assembler_for(move: Move, source: Storage, writer: Writer, *, recheck: bool) -> Assembler | None:
    """What makes a move's objects; None where each comes from the source's object of the same place."""
    if move.block_shape is None:
        return None
    kind = Payloads if move.source.chunk_shape == move.destination.chunk_shape else Values
    return kind(move, source, writer, recheck=recheck)
