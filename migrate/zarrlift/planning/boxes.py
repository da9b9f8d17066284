"""Candidate boxes of whole destination objects, and the selection of the best one that fits the memory.

The cost of a box in memory is that of its values. A box may also be longer than the memory: it is then
processed in pieces along one axis, and decoded source chunks are kept as far as later pieces need them. If
the chunk lengths of the two sides are not multiples of each other, fewer chunks are read twice than with any
box that fits completely: for lengths 100 and 64, a piece of 64 and the kept part of 100 suffice for a box of
any length.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from math import gcd, isqrt, lcm, prod
from typing import Final, Self

from zarrstack.core.errors import Problem

from ..archive.nodes import Layout
from ..core.grid.frames import Shards
from ..core.grid.overlap import cutting_order, times_read
from ..core.problems import refusal
from .blocks import BASE, Blocks, available_cores, payload_blocks, worker_overhead

Shape = tuple[int, ...]

_LONGEST: Final = 4
_LONG_BYTES: Final = 1 << 30
"""Maximum size of a box as a multiple of the memory, unless this number of bytes is larger: after a kill, one
box is repeated from its start.
"""
_TOGETHER: Final = 8
"""Maximum number of shards that a worker builds at the same time, each an open file: a process may have about
a thousand of them, and a hundred workers.
"""
_SMALL: Final = 64 << 20
"""Size of an array in bytes up to which a second worker does not justify repeated reads."""


def choose_blocks(
    source: Layout, destination: Layout, budget: int, buffers: int = 0, *, sharing: int | None = None
) -> Blocks | Problem | None:
    """The blocks of an array, or why none fit; None if objects correspond one to one.

    `buffers` is further memory of each worker in bytes (`store_buffers`). `sharing` is the number of workers
    that may share the budget; None for one per processor.
    """
    if source.chunk_shape == destination.chunk_shape:
        return payload_blocks(source, destination, budget, buffers)
    if not source.grid.total:
        return Blocks(shape=destination.object_shape)
    overhead = worker_overhead(source, destination, buffers)
    # For a store, each shard would take its own buffer, and each layer would wait for its first chunks.
    candidates = Candidates.of(source, destination, together=0 if buffers else _TOGETHER)
    best: tuple[float, float, Blocks] | None = None
    for workers in range(sharing or available_cores(), 0, -1):
        box = candidates.choose((budget - BASE) // workers - overhead, workers)
        if box is None:
            continue
        # On a tie, prefer fewer reads.
        key = (candidates.cost(box, workers), box.times_read, box)
        if best is None or key[:2] < best[:2]:
            best = key
    if best is not None:
        return replace(best[2], memory=best[2].items * candidates.item + overhead)
    least = overhead + prod(within(destination.chunk_shape, source.shape)) * candidates.item + BASE
    return refusal(
        "memory",
        "a chunk of the source or the result does not fit into the permitted memory",
        found=f"--memory {budget}",
        expected=f"at least {least} bytes",
        advice="Increase --memory, or request smaller --chunks.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """Boxes worth considering for any amount of memory."""

    shape: Shape
    chunk: Shape
    """Chunk shape of the source, its unit of decoding."""
    objects: list[list[int]]
    """Candidate lengths along each axis, in whole objects of the destination."""
    parts: tuple[tuple[Shape, int, Shape], ...]
    """Parts of one shard that are consecutive inner chunks in its order, the axis along which they are split,
    and the axes that come after it in that order: along these, parts are as long as the shard.
    """
    together: int
    """Maximum number of shards that a worker may build at the same time."""
    index: int
    """Bytes of a shard's index."""
    whole: Shape
    item: int
    """Bytes of a value."""

    @classmethod
    def of(cls, source: Layout, destination: Layout, *, together: int = 0) -> Self:
        """The candidates for an array's two layouts."""
        shape, chunk, frame = source.shape, source.chunk_shape, destination.frame
        objects = [
            _front(n, c, _multiples(n, d, c))
            for n, d, c in zip(shape, destination.object_shape, chunk, strict=True)
        ]
        parts: tuple[tuple[Shape, int, Shape], ...] = ()
        index = 0
        if isinstance(frame, Shards):
            index = frame.index.size(frame.chunks_per_shard)
            parts = (*_parts(chunk, destination.chunk_shape, frame.chunks_per_shard),)
        return cls(
            shape=shape,
            chunk=chunk,
            objects=objects,
            parts=parts,
            together=together,
            index=index,
            whole=destination.object_shape,
            item=max(source.item_bytes, destination.item_bytes),
        )

    def choose(self, room: int, workers: int, *, whole: bool = False) -> Blocks | None:
        """The best box whose values take at most `room` bytes; None if there is none.

        The best box repeats the fewest reads, counted per busy worker, and is the smallest of equal ones; in
        a small array, boxes without pieces are preferred. `whole` excludes boxes with pieces.
        """
        most = room // self.item
        boxes = list(self._boxes(most))
        if not whole:
            boxes += self._long(most)
            boxes = boxes or list(self._within_a_shard(most))
            boxes += self._layers(most)
        return min(
            boxes,
            key=lambda box: (
                self.cost(box, workers),
                self._small and box.piece is not None,
                box.items,
                box.shape,
            ),
            default=None,
        )

    def cost(self, box: Blocks, workers: int) -> float:
        """The work per worker, in units of decoding the whole array.

        Encoding, which takes at least as long as decoding, counts as one unit. A small array is not divided
        for the sake of more workers.
        """
        if self._small:
            return box.times_read
        boxes = prod(-(-n // b) for n, b in zip(self.shape, box.shape, strict=True)) or 1
        return (box.times_read + 1) * -(-boxes // workers) / boxes

    @property
    def _small(self) -> bool:
        return prod(self.shape) * self.item < _SMALL

    def _box(self, shape: Shape, items: int, piece: Shape | None = None, run: Shape | None = None) -> Blocks:
        times = times_read(self.shape, self.chunk, run or piece or shape)
        return Blocks(shape=shape, piece=piece, run=run, items=items, times_read=times)

    def _boxes(self, most: int) -> Iterator[Blocks]:
        """Boxes that fit completely."""
        for shape in product(*self.objects):
            items = self._items(shape)
            if items <= most:
                yield self._box(shape, items)

    def _long(self, most: int) -> Iterator[Blocks]:
        """Boxes longer than the memory."""
        longest = max(_LONGEST * most, _LONG_BYTES // self.item)
        for axis, (step, chunk) in enumerate(zip(self.whole, self.chunk, strict=True)):
            overlap = _overlap(chunk, step)
            if not overlap or chunk % step == 0:
                continue  # a box with a multiple of both lengths takes no more memory
            others = [lengths if other != axis else [step] for other, lengths in enumerate(self.objects)]
            for piece in product(*others):
                items = self._items(_stretched(piece, axis, step + overlap))
                if items > most:
                    continue
                for length in self.objects[axis]:
                    shape = _stretched(piece, axis, length)
                    if length > step and self._items(shape) <= longest:
                        yield self._box(shape, items, piece, shape)

    def _layers(self, most: int) -> Iterator[Blocks]:
        """Boxes of shards that are built together, in pieces that are a layer of each."""
        for part, axis, others in self.parts:
            if part[axis] == self.whole[axis]:
                continue  # a whole shard, or one layer of a part along the axis before
            lengths = [
                [length for length in self.objects[at] if -(-length // n) <= self.together]
                if at in others
                else [part[at]]
                for at, n in enumerate(self.whole)
            ]
            for piece in product(*lengths):
                shape = tuple(piece[at] if at in others else n for at, n in enumerate(self.whole))
                shards = prod(-(-n // whole) for n, whole in zip(shape, self.whole, strict=True))
                items = self._items(piece) + (shards - 1) * self.index // self.item
                if shards <= self.together and items <= most:
                    yield self._box(shape, items, piece)

    def _within_a_shard(self, most: int) -> Iterator[Blocks]:
        """Parts of a shard larger than the memory."""
        for piece, axis, _ in self.parts:
            items = self._items(piece)
            if items > most:
                continue
            yield self._box(self.whole, items, piece)
            overlap = _overlap(self.chunk[axis], piece[axis])
            items = self._items(_stretched(piece, axis, piece[axis] + overlap))
            if overlap and piece[axis] < self.whole[axis] and items <= most:
                yield self._box(self.whole, items, piece, _stretched(piece, axis, self.whole[axis]))

    def _items(self, shape: Shape) -> int:
        return prod(within(shape, self.shape))


def within(block: Shape, shape: Shape) -> Shape:
    """Lengths of a box, limited to those of the array."""
    return tuple(min(a, max(b, 1)) for a, b in zip(block, shape, strict=True))


def _overlap(chunk: int, piece: int) -> int:
    """Maximum extent of a source chunk beyond a piece that starts at a multiple of its length."""
    return chunk - gcd(chunk, piece)


def _stretched(shape: Shape, axis: int, length: int) -> Shape:
    return (*shape[:axis], length, *shape[axis + 1 :])


def _front(length: int, chunk: int, candidates: Iterator[int]) -> list[int]:
    """The candidate lengths along one axis, each of which repeats fewer reads than all shorter ones."""
    lengths: list[int] = []
    least = float("inf")
    for candidate in sorted(candidates):
        again = times_read((length,), (chunk,), (candidate,))
        if again < least:
            lengths.append(candidate)
            least = again
    return lengths


def _parts(chunk: Shape, inner_chunk: Shape, counts: Shape) -> Iterator[tuple[Shape, int, Shape]]:
    """Parts of a shard, in elements: one inner chunk along some axes, all along others, split along one."""
    order = cutting_order(chunk, inner_chunk)
    for position, axis in enumerate(order):
        before = order[:position]
        for count in _divisors(counts[axis]):
            parts = [1 if other in before else counts[other] for other in range(len(counts))]
            parts[axis] = count
            part = tuple(a * b for a, b in zip(inner_chunk, parts, strict=True))
            yield part, axis, order[position + 1 :]


def _divisors(count: int) -> Iterator[int]:
    for low in range(1, isqrt(count) + 1):
        if count % low == 0:
            yield low
            yield count // low


def _multiples(length: int, step: int, chunk: int) -> Iterator[int]:
    """Candidate lengths along one axis: one object, three, doubled, aligned with chunks, the whole axis."""
    most = -(-max(length, 1) // step) * step
    tried = {most, step}
    for first in (step, 3 * step, lcm(step, chunk)):
        size = first
        while size < most:
            tried.add(size)
            size *= 2
    yield from sorted(tried)
