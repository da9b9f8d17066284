"""What is worked on at a time, where the destination's objects are not those of the source.

Shards of the same leaves need no choice: payloads are handed on one by one. Where leaves change their
shape, the values of a *block* of whole destination objects are in memory at once, and the block is
chosen so that source chunks are decoded as few times as the memory allows.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Final

import numpy as np

from zarrstack.core.errors import Problem, UsageError
from zarrstack.core.grid.frames import Shards
from zarrstack.core.grid.grid import Grid
from zarrstack.core.grid.overlap import touched
from zarrstack.core.grid.shard_index import PAIR_BYTES

from ...archive.chunk_inventory import Inventory, task_bytes
from ...archive.nodes import Layout
from ...storage.base import Storage
from ...storage.limits import STORE_READ, STORE_WRITTEN
from ...storage.local.storage import LocalStorage
from ..chunk_checks import machine_memory

if TYPE_CHECKING:
    from .boxes import Box

Shape = tuple[int, ...]

BASE: Final = 104 << 20
"""Bytes of the process itself: interpreter, numpy, metadata of a large archive, what libraries keep."""
SMALLEST_MEMORY: Final = 128_000_000
_SHARE: Final = 4
"""One part in so many of what the machine, or its control group, has: the default of `--memory`."""
_BUFFERS: Final = 8 << 20
"""Bytes of one worker besides values: payloads read, and payloads on their way into a shard."""
_INDEX_COPIES: Final = 5
"""How often a shard's index stands in memory while it is encoded: pairs, halves, bytes, with the checksum."""
_MOST_BLOCKS: Final = 256
"""Blocks of a task at most, however little they read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """The blocks of one array."""

    shape: Shape
    piece: Shape | None = None
    """Where one block is too much: what of it is in memory at a time."""
    run: Shape | None = None
    """With pieces: what is gone through along one axis, with no source chunk decoded twice."""
    times_read: float = 1.0
    memory: int | None = None
    """Bytes that one worker needs for them; None for a leaf or two."""

    @property
    def decoded_once(self) -> Shape:
        """The largest part within which no source chunk is decoded twice."""
        return self.run or self.piece or self.shape


def memory_budget(asked: int | None) -> int:
    """Bytes that the whole process may take; UsageError below what it needs to run at all."""
    if asked is None:
        return max(machine_memory() // _SHARE, 2 * SMALLEST_MEMORY)
    if asked < SMALLEST_MEMORY:
        raise UsageError(
            "--memory is too small",
            found=f"{asked:,} bytes",
            expected=f"at least {SMALLEST_MEMORY // 10**6}MB",
        )
    return asked


def workers_within(budget: int, memory: int, *, processes: bool = False) -> int:
    """How many workers that need `memory` bytes each fit into a budget; at least one."""
    if processes:
        return max((budget - BASE) // (BASE + memory), 1)
    return max((budget - BASE) // max(memory, 1), 1)


def cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def store_buffers(source: Storage, destination: str | None) -> int:
    """Bytes that a worker holds for requests under way; none where both ends are directories.

    `destination` is its URL; None in place, "" where it is not named yet.
    """
    read = 0 if isinstance(source, LocalStorage) else STORE_READ
    return read if not destination or os.path.isabs(destination) else read + STORE_WRITTEN


def memory_of_pairs(source: Layout, destination: Layout, buffers: int) -> int | None:
    """Bytes that a worker needs where objects correspond one to one; None for a chunk or two."""
    return _overhead(source, destination, buffers) if buffers else None


def choose_blocks(
    source: Layout, destination: Layout, budget: int, buffers: int = 0
) -> Blocks | Problem | None:
    """The blocks of an array, or why there are none that fit; None where objects correspond one to one.

    `buffers` are bytes that each worker holds besides (`store_buffers`).
    """
    sharded = isinstance(destination.frame, Shards)
    if source.chunk_shape == destination.chunk_shape:
        # A shard of a single chunk is as large as that chunk, and yet another object.
        if source.object_shape == destination.object_shape and isinstance(source.frame, Shards) == sharded:
            return None
        return _gathered(source, destination, budget, buffers)
    if not source.grid.total:
        return Blocks(shape=destination.object_shape)
    from .boxes import Candidates, within  # most archives keep their chunks

    overhead = _overhead(source, destination, buffers)
    candidates = Candidates.of(source, destination)
    best: tuple[float, float, Box] | None = None
    for workers in range(cores(), 0, -1):
        box = candidates.choose((budget - BASE) // workers - overhead, workers)
        if box is None:
            continue
        # Of equals the one that reads less.
        key = (candidates.cost(box, workers), box.times_read, box)
        if best is None or key[:2] < best[:2]:
            best = key
    if best is not None:
        box = best[2]
        return Blocks(
            shape=box.shape,
            piece=box.piece,
            run=box.run,
            times_read=box.times_read,
            memory=box.items * candidates.item + overhead,
        )
    least = overhead + prod(within(destination.chunk_shape, source.shape)) * candidates.item + BASE
    return Problem(
        kind="memory",
        message="a chunk of either side does not fit into the memory that is allowed",
        found=f"--memory {budget}",
        expected=f"at least {least} bytes",
        advice="Allow more with --memory, or ask for smaller --chunks.",
    )


def _gathered(source: Layout, destination: Layout, budget: int, buffers: int) -> Blocks | Problem:
    """The blocks where payloads are handed on: one object of the side that has the larger ones."""
    sharded = isinstance(destination.frame, Shards)
    memory = _BUFFERS + buffers + 4 * prod(source.chunk_shape) * source.item_bytes
    for frame in (source.frame, destination.frame):
        if isinstance(frame, Shards):
            index = _INDEX_COPIES * frame.index.size(frame.chunks_per_shard)
            memory += index
            if index > budget - BASE:
                return Problem(
                    kind="memory",
                    message="the index of a shard does not fit into the memory that is allowed",
                    found=f"{frame.leaves} chunks in a shard",
                    expected=f"at most {(budget - BASE) // (_INDEX_COPIES * PAIR_BYTES)}",
                    advice="Ask for fewer chunks per shard, or allow more with --memory.",
                )
    return Blocks(shape=destination.object_shape if sharded else source.object_shape, memory=memory)


def _overhead(source: Layout, destination: Layout, buffers: int) -> int:
    """What a worker holds besides the values of its block: a source chunk, an encoded leaf, an index."""
    leaf = prod(source.chunk_shape) * source.item_bytes
    new = prod(destination.chunk_shape) * destination.item_bytes
    indexes = [
        _INDEX_COPIES * frame.index.size(frame.chunks_per_shard)
        for frame in (source.frame, destination.frame)
        if isinstance(frame, Shards)
    ]
    return 2 * leaf + 2 * new + sum(indexes) + _BUFFERS + buffers


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
    step = int(min(max(task_bytes(bytes_in) // each, 1), _MOST_BLOCKS, max(len(there) // 8, 1)))
    starts = np.arange(0, len(there), step)
    return (*map(int, there[starts]), int(there[-1]) + 1)
