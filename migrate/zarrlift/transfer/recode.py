"""Converts one stored object, changing only what differs between the two layouts.

A `Change` is a function of an object's bytes and position. In it, a `LeafChange` converts the payload of one
leaf; frames (N5's headers, shards) are removed and added separately, so unchanged payloads are never decoded.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from zarrstack.core.codecs.base import Buffer, Ends, memory
from zarrstack.core.codecs.pipeline import Pipeline
from zarrstack.core.data_types.cast import cast
from zarrstack.core.data_types.object_values import to_strings
from zarrstack.core.data_types.v3 import fill_from_json, same_bits
from zarrstack.core.errors import ChunkError, ZarrstackError
from zarrstack.core.grid.frames import N5Blocks, Shards
from zarrstack.core.grid.grid import Grid
from zarrstack.core.grid.shard_index import ShardIndex
from zarrstack.core.n5.block_pipeline import BlockPipeline

from ..planning.plans import Move
from ..storage.writer import Look

RECHECK_EVERY: Final = 100
"""For routes that decode, one leaf out of this number is decoded again by an independent library."""


@dataclass(slots=True)
class Tally:
    """Counters of changes, for one task."""

    filled: int = 0
    """N5 blocks smaller than their grid cell that were decoded and padded."""


class Change(ABC):
    """Converts stored objects of one array; shared between the threads of a process."""

    @abstractmethod
    def __call__(self, index: int, data: bytes, tally: Tally) -> Buffer | None:
        """The object for the destination, or None if it is to be omitted.

        `index` is its linear index in the source's grid of objects. Raises ChunkError, CastError.
        """


def change_for(move: Move, *, recheck: bool = True) -> Change | None:
    """The conversion for the route, or None if objects are unchanged."""
    route, source, target = move.route, move.source, move.destination
    if route.name in ("stay", "relink"):
        return None
    assert move.block_shape is None  # `regrid` makes objects that do not correspond to the source's
    leaf = LeafChange(move, recheck=recheck)
    if isinstance(source.frame, Shards) and isinstance(target.frame, Shards):
        return _Reshard(move, leaf, source.frame, target.frame)
    return leaf_change_for(move, leaf)


def leaf_change_for(move: Move, leaf: LeafChange) -> Change:
    """The conversion of objects with one leaf each, whose frame is removed."""
    if isinstance(move.source.frame, N5Blocks):
        return _Unblock(move, leaf, move.source.frame)
    return _Bare(leaf)


def look_at(move: Move) -> Look:
    """The check of source objects that move unchanged."""
    source = move.source
    leaf = Pipeline(source.chain, source.chunk_shape, source.data_type, allow_pickle=move.allow_pickle)
    return _ShardLook(source.frame, leaf) if isinstance(source.frame, Shards) else leaf


class LeafChange:
    """Converts the payload of a whole leaf."""

    def __init__(self, move: Move, *, recheck: bool) -> None:
        self.move = move
        self.recheck = recheck
        source, target = move.source, move.destination
        self.reader = Pipeline(
            source.chain, source.chunk_shape, source.data_type, allow_pickle=move.allow_pickle
        )
        self.writer = Pipeline(target.chain, target.chunk_shape, target.data_type)
        self._judged = self._judged_by_undoing()
        self._change = self._chosen()

    def __call__(self, index: int, payload: Buffer) -> Buffer | None:
        """The payload of leaf `index` (in the grid of leaves), or None if it is to be omitted."""
        return self._change(index, payload)

    def _chosen(self) -> Callable[[int, Buffer], Buffer | None]:
        route = self.move.route
        if route.name == "reframe":
            return self._keep
        if route.name == "rewrite":
            return self._rewrite
        undone = self.move.source.chain.codecs[route.shared :]
        applied = self.move.destination.chain.codecs[route.shared :]
        names = [codec.name for codec in (*undone, *applied)]
        return self._rewrap if names == ["numcodecs.zlib", "gzip"] else self._recode

    def _judged_by_undoing(self) -> bool:
        """Whether decoding down to the shared codecs, and the length of the result, suffice as a check.

        They do not if nothing is decoded, for data of variable length, or behind a checksum; a further check
        is then needed.
        """
        chain, shared = self.move.source.chain, self.move.route.shared
        return chain.middle + 1 == shared < len(chain.codecs) and self.reader.sizes[shared].exact

    def _keep(self, index: int, payload: Buffer) -> Buffer:
        self.reader.check_whole(payload)
        return payload

    def _rewrap(self, index: int, payload: Buffer) -> Buffer:
        from zarrstack.core.codecs.deflate import rewrap_zlib_to_gzip

        size = self.reader.sizes_for(memory(payload).nbytes)[self.move.route.shared]
        result = rewrap_zlib_to_gzip(payload, size)
        self.again(index, payload, None)
        return result

    def _recode(self, index: int, payload: Buffer) -> Buffer:
        shared = self.move.route.shared
        inner = self.reader.undo(payload, shared)
        if not self._judged:
            self.reader.check_whole(inner, shared)
        self.again(index, payload, None)
        return self.writer.apply(inner, shared)

    def _rewrite(self, index: int, payload: Buffer) -> Buffer | None:
        array = self.reader.decode(payload)
        self.again(index, payload, array)
        return self.encode(index, array)

    def encode(self, index: int, array: npt.NDArray[Any]) -> Buffer | None:
        """The payload of a leaf with these source values, or None if it is to be omitted."""
        move = self.move
        target = move.destination
        if move.source.data_type != target.data_type:
            inside = _inside(target.grid, index)
            part = np.asarray(convert(move, array[inside]))
            if part.shape == array.shape:
                array = part
            else:
                fill = fill_from_json(target.fill_value, target.data_type)
                array = np.full(array.shape, fill, dtype=target.data_type.numpy)
                array[inside] = part
        return self.store(index, array)

    def store(self, index: int, array: npt.NDArray[Any]) -> Buffer | None:
        """The payload of a leaf with these destination values; None as in `encode`."""
        target = self.move.destination
        if self.move.drop_empty:
            part = np.asarray(array[_inside(target.grid, index)])
            fill = fill_from_json(target.fill_value, target.data_type)
            if same_bits(part, np.full(part.shape, fill, dtype=part.dtype)):
                return None
        return self.writer.encode(array)

    def again(
        self,
        index: int,
        payload: Buffer,
        array: npt.NDArray[Any] | None,
        shape: tuple[int, ...] | None = None,
    ) -> None:
        """Decode one leaf in a hundred a second time, with other code.

        `array` is the result of our code, if known; `shape` its shape if it is not a whole leaf.
        """
        if not self.recheck or index % RECHECK_EVERY:
            return
        from .recheck import recheck_decoded

        move = self.move
        if shape is not None:
            move = replace(move, source=replace(move.source, chunk_shape=shape))
        decoded = self.reader.decode(payload) if array is None else array
        problems = recheck_decoded(move, bytes(payload), decoded)
        if problems:
            raise ChunkError(problems[0].message, found=problems[0].found, expected=problems[0].expected)


def _inside(grid: Grid, index: int) -> tuple[Any, ...]:
    """The part of a chunk inside the array: padding of an edge chunk is neither checked nor cast.

    The ellipsis keeps a 0-d array an array: numpy's scalars have no byte order.
    """
    return (*grid.valid(grid.coordinates(index)), ...)


def convert(move: Move, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Source values in the destination's form; raises CastError."""
    source, target = move.source.data_type, move.destination.data_type
    if source == target:
        return array
    if target.name == "string" and source.name != "string":
        return to_strings(array, move.objects)
    return cast(array, target.numpy, move.casting)


class _Bare(Change):
    """For objects that are the payload of a leaf on both sides."""

    def __init__(self, leaf: LeafChange) -> None:
        self._leaf = leaf

    def __call__(self, index: int, data: bytes, tally: Tally) -> Buffer | None:
        return self._leaf(index, data)


class _Unblock(Change):
    """For N5: removes the header; blocks smaller than their grid cell are decoded and padded."""

    def __init__(self, move: Move, leaf: LeafChange, frame: N5Blocks) -> None:
        source = move.source
        self._leaf = leaf
        self._blocks = BlockPipeline(source.chain, source.chunk_shape, source.data_type, frame.axes)

    def __call__(self, index: int, data: bytes, tally: Tally) -> Buffer | None:
        payload = self._blocks.whole_payload(data)
        if payload is not None:
            return self._leaf(index, payload)
        shape, payload = self._blocks.part(data)
        part = self._blocks.decode_part(shape, payload)
        tally.filled += 1
        if part.size:
            self._leaf.again(index, payload, part, shape)
        return self._leaf.encode(index, self._blocks.filled(part))


class _Reshard(Change):
    """For shards of the same leaves on both sides: converts each payload and rewrites the index."""

    def __init__(self, move: Move, leaf: LeafChange, before: Shards, after: Shards) -> None:
        self._leaf = leaf
        self._before = before
        self._after = after
        self._leaves = move.source.grid
        self._objects = move.source.objects

    def __call__(self, index: int, data: bytes, tally: Tally) -> Buffer | None:
        old = read_index(data, self._before)
        form, counts = self._after.index, self._after.chunks_per_shard
        new = ShardIndex.empty(counts)
        view = memory(data)
        first = tuple(
            place * count for place, count in zip(self._objects.coordinates(index), counts, strict=True)
        )
        offset = form.size(counts) if form.location == "start" else 0
        parts: list[memoryview] = []
        for inner, place in in_stored_order(old):
            leaf = self._leaves.index(tuple(a + b for a, b in zip(first, inner, strict=True)))
            if leaf is None:
                continue  # entirely beyond the array's end
            try:
                payload = self._leaf(leaf, view[place])
            except ZarrstackError as error:
                raise inside_shard(error, inner) from error
            if payload is None:
                continue
            part = memory(payload).cast("B")
            new.offsets[inner], new.lengths[inner] = offset, part.nbytes
            offset += part.nbytes
            parts.append(part)
        if not parts and len(leaves_there(old)):
            return None
        encoded = memory(new.to_bytes(form))
        return b"".join((encoded, *parts) if form.location == "start" else (*parts, encoded))


class _ShardLook:
    """Checks shards that move unchanged: the index, and the ends of every payload."""

    def __init__(self, frame: Shards, leaf: Pipeline) -> None:
        self._frame = frame
        self._leaf = leaf

    @property
    def most_stored(self) -> int:
        """Maximum size of a shard in bytes."""
        frame = self._frame
        return self._leaf.most_stored * frame.leaves + frame.index.size(frame.chunks_per_shard)

    def check(self, ends: Ends) -> bool:
        self._frame.index.place(self._frame.chunks_per_shard, ends.length)
        return False

    def check_whole(self, data: Buffer) -> None:
        view = memory(data)
        for inner, place in in_stored_order(read_index(data, self._frame)):
            try:
                self._leaf.check_whole(view[place])
            except ZarrstackError as error:
                raise inside_shard(error, inner) from error


def read_index(data: Buffer, frame: Shards) -> ShardIndex:
    """The index of a shard, checked against its length; ChunkError."""
    view = memory(data)
    place = frame.index.place(frame.chunks_per_shard, view.nbytes)
    index = ShardIndex.from_bytes(view[place], frame.chunks_per_shard, frame.index)
    index.check(view.nbytes, frame.index)
    return index


def leaves_there(index: ShardIndex) -> npt.NDArray[np.intp]:
    """Flat positions of the existing leaves in a shard."""
    return np.flatnonzero(index.present)


def in_stored_order(index: ShardIndex) -> list[tuple[tuple[int, ...], slice]]:
    """(position in the shard, bytes) of every existing leaf, in stored order."""
    there = leaves_there(index)
    order = there[np.argsort(index.offsets.ravel()[there], kind="stable")]
    result = []
    for flat in order.tolist():
        inner = tuple(map(int, np.unravel_index(flat, index.offsets.shape)))
        place = index.get(inner)
        assert place is not None
        result.append((inner, place))
    return result


def inside_shard(error: ZarrstackError, inner: tuple[int, ...]) -> ZarrstackError:
    """An error of one leaf, with its position in the shard."""
    problem = error.problem
    return type(error)(
        f"inner chunk {inner} of a shard: {problem.message}",
        found=problem.found,
        expected=problem.expected,
        advice=problem.advice,
    )
