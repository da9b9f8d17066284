"""What is worked on at a time, where the destination's objects are not those of the source.

Shards of the same leaves need no choice: payloads are handed on one by one. Where leaves change their
shape, the values of a *block* of whole destination objects are in memory at once, and the block is
chosen so that source chunks are decoded as few times as the memory allows.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import lcm, prod
from typing import Final

import numpy as np

from zarrstack.core.errors import Problem, UsageError
from zarrstack.core.frames import Shards
from zarrstack.core.grid import Grid
from zarrstack.core.overlap import times_read, touched

from .archive import Layout
from .inventory import Inventory
from .planning_chunks import machine_memory

Shape = tuple[int, ...]

BASE: Final = 104 << 20
"""Bytes of the process itself: interpreter, numpy, metadata of a large archive, what libraries keep."""
SMALLEST_MEMORY: Final = 128 << 20
_SHARE: Final = 4
"""One part in so many of what the machine, or its control group, has: the default of `--memory`."""
_BUFFERS: Final = 8 << 20
"""Bytes of one worker besides values: payloads read, and payloads on their way into a shard."""
_ITEM: Final = 64
"""Bytes of an item of variable length, roughly."""
_MOST_BYTES: Final = 64 << 20
_MOST_BLOCKS: Final = 256
"""What a task does at most, in bytes read and in blocks, unless one block is more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """The blocks of one array."""

    shape: Shape
    piece: Shape | None = None
    """Where one block, then a single shard, is too much: what of it is in memory at a time."""
    times_read: float = 1.0
    memory: int | None = None
    """Bytes that one worker needs for them; None for a leaf or two."""


def memory_budget(asked: int | None) -> int:
    """Bytes that the whole process may take; UsageError below what it needs to run at all."""
    if asked is None:
        return max(machine_memory() // _SHARE, 2 * SMALLEST_MEMORY)
    if asked < SMALLEST_MEMORY:
        raise UsageError(
            "--memory is too small", found=f"{asked} bytes", expected=f"at least {SMALLEST_MEMORY}"
        )
    return asked


def workers_within(budget: int, memory: int) -> int:
    """How many workers that need `memory` bytes each fit into a budget; at least one."""
    return max((budget - BASE) // max(memory, 1), 1)


def choose_blocks(source: Layout, destination: Layout, budget: int) -> Blocks | Problem | None:
    """The blocks of an array, or why there are none that fit; None where objects correspond one to one."""
    if source.chunk_shape == destination.chunk_shape:
        if source.object_shape == destination.object_shape:
            return None
        frame = destination.frame
        return Blocks(shape=destination.object_shape if isinstance(frame, Shards) else source.object_shape)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    best: tuple[float, int, Blocks] | None = None
    for workers in range(cores, 0, -1):
        room = (budget - BASE) // workers - _overhead(source, destination)
        found = _blocks(source, destination, room)
        if found is None:
            continue
        # Decoding is most of the work, and is shared by the workers.
        key = (found.times_read / workers, -workers, found)
        if best is None or key[:2] < best[:2]:
            best = key
    if best is not None:
        return best[2]
    least = _overhead(source, destination) + prod(destination.chunk_shape) * _item(source) + BASE
    return Problem(
        kind="memory",
        message="a chunk of either side does not fit into the memory that is allowed",
        found=f"--memory {budget}",
        expected=f"at least {least} bytes",
        advice="Allow more with --memory, or ask for smaller --chunks.",
    )


def _item(layout: Layout) -> int:
    return layout.data_type.itemsize or _ITEM


def _overhead(source: Layout, destination: Layout) -> int:
    """What a worker holds besides the values of its block: a source chunk, and a leaf as it is encoded."""
    leaf = prod(source.chunk_shape) * _item(source)
    new = prod(destination.chunk_shape) * (destination.data_type.itemsize or _ITEM)
    return 2 * leaf + 2 * new + _BUFFERS


def _blocks(source: Layout, destination: Layout, room: int) -> Blocks | None:
    shape, item = source.shape, _item(source)
    overhead = _overhead(source, destination)
    objects = [
        list(_multiples(n, d, s))
        for n, d, s in zip(shape, destination.object_shape, source.chunk_shape, strict=True)
    ]
    block = _best(shape, source.chunk_shape, objects, room // item)
    if block is not None:
        return Blocks(
            shape=block,
            times_read=times_read(shape, source.chunk_shape, block),
            memory=prod(_within(block, shape)) * item + overhead,
        )
    if not isinstance(destination.frame, Shards):
        return None
    parts = [
        [leaf * count for count in range(1, counts + 1) if counts % count == 0]
        for leaf, counts in zip(destination.chunk_shape, destination.frame.chunks_per_shard, strict=True)
    ]
    piece = _best(shape, source.chunk_shape, parts, room // item)
    if piece is None:
        return None
    return Blocks(
        shape=destination.object_shape,
        piece=piece,
        times_read=times_read(shape, source.chunk_shape, piece),
        memory=prod(_within(piece, shape)) * item + overhead,
    )


def _multiples(length: int, step: int, chunk: int) -> Iterator[int]:
    """Block lengths worth trying along one axis: of one object, doubled, aligned with chunks, all of it."""
    most = -(-max(length, 1) // step) * step
    tried = {most, step}
    size = step
    while size < most:
        tried.add(size)
        size *= 2
    common = lcm(step, chunk)
    while common < most:
        tried.add(common)
        common *= 2
    yield from sorted(tried)


def _best(shape: Shape, chunk: Shape, lengths: list[list[int]], most_items: int) -> Shape | None:
    """The block within `most_items` that reads the fewest chunks again; the smallest among equals."""
    best: tuple[float, int, Shape] | None = None
    for block in product(*lengths):
        items = prod(_within(block, shape))
        if items > most_items:
            continue
        key = (times_read(shape, chunk, block), items, block)
        if best is None or key < best:
            best = key
    return None if best is None else best[2]


def _within(block: Shape, shape: Shape) -> Shape:
    return tuple(min(a, max(b, 1)) for a, b in zip(block, shape, strict=True))


def mean_leaf(source: Layout, inventory: Inventory) -> float | None:
    """Stored bytes of a leaf, on average; None where that cannot be told."""
    total, count = inventory.total_bytes, len(inventory.indexes)
    if total is None or not count:
        return None
    leaves = source.frame.leaves if isinstance(source.frame, Shards) else 1
    return total / (count * leaves)


def block_bounds(inventory: Inventory, source: Layout, blocks: Blocks, bytes_in: int) -> tuple[int, ...]:
    """Cut the blocks that hold something into tasks, as `inventory.task_bounds` does with chunks."""
    there = touched(inventory.indexes, source.objects, Grid(source.shape, blocks.shape))
    if not len(there):
        return ()
    each = max(bytes_in / len(there), 1)
    room = min(_MOST_BYTES, max(bytes_in // 64, 4 << 20))
    step = int(min(max(room // each, 1), _MOST_BLOCKS, max(len(there) // 8, 1)))
    starts = np.arange(0, len(there), step)
    return (*map(int, there[starts]), int(there[-1]) + 1)
