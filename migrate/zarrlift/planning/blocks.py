"""Selects the unit of work if the destination's objects do not correspond to the source's.

For shards of the same inner chunks there is no choice: payloads are passed on one by one. If the inner chunk
shape changes, the values of a *block* of whole destination objects are in memory at once, and the block is
chosen to decode source chunks as few times as the memory allows.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from math import prod
from typing import Final

import numpy as np

from zarrstack.core.errors import Problem, UsageError
from zarrstack.core.shard_index import PAIR_BYTES

from ..archive.chunk_inventory import Inventory, object_sizes, task_bytes, within_limit
from ..archive.nodes import Layout
from ..core.grid.frames import Shards
from ..core.grid.grid import Grid
from ..core.grid.overlap import gathered, touched
from ..core.problems import refusal
from ..storage.base import STORE_READ, STORE_WRITTEN, Storage
from ..storage.local.storage import LocalStorage
from .chunk_checks import machine_memory

Shape = tuple[int, ...]

BASE: Final = 104 << 20
"""Memory of the process itself in bytes: interpreter, numpy, metadata of a large archive, library caches."""
SMALLEST_MEMORY: Final = 128_000_000
_SHARE: Final = 4
"""Divisor of the machine's or control group's memory for the default of `--memory`."""
_OF_A_WORKER: Final = 1_000_000_000
"""Default of `--memory` for a worker on another machine."""
_BUFFERS: Final = 8 << 20
"""Memory of one worker in bytes in addition to values: payloads read, and payloads to be added to a shard."""
_INDEX_COPIES: Final = 5
"""Copies of a shard's index in memory while it is encoded: pairs, halves, bytes, with the checksum."""
_MAX_BLOCKS: Final = 256
"""Maximum number of blocks in a task, even if they read little."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """The blocks of one array."""

    shape: Shape
    piece: Shape | None = None
    """If one block exceeds the memory: the part in memory at a time."""
    run: Shape | None = None
    """With pieces: the region processed along one axis, in which no source chunk is decoded twice."""
    items: int = 0
    """Number of values in memory, including those kept for later pieces."""
    times_read: float = 1.0
    """Average number of times that a source chunk is decoded."""
    memory: int | None = None
    """Memory in bytes that one worker needs; None for an inner chunk or two."""

    @property
    def decoded_once(self) -> Shape:
        """The largest part in which no source chunk is decoded twice."""
        return self.run or self.piece or self.shape


def memory_budget(limit: int | None) -> int:
    """Memory limit of the whole process in bytes; UsageError below the minimum for any run."""
    if limit is None:
        return max(machine_memory() // _SHARE, 2 * SMALLEST_MEMORY)
    if limit < SMALLEST_MEMORY:
        raise UsageError(
            "--memory is too small",
            found=f"{limit:,} bytes",
            expected=f"at least {SMALLEST_MEMORY // 10**6}MB",
        )
    return limit


def worker_budget(limit: int | None) -> int:
    """Memory limit of one worker on another machine in bytes, whatever this machine has."""
    return _OF_A_WORKER if limit is None else memory_budget(limit)


def workers_within(budget: int, memory: int, *, processes: bool = False) -> int:
    """Number of workers with `memory` bytes each that fit a budget; at least one."""
    if processes:
        return max((budget - BASE) // (BASE + memory), 1)
    return max((budget - BASE) // max(memory, 1), 1)


def available_cores() -> int:
    """Number of processors available to this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def store_buffers(source: Storage, destination: str | None) -> int:
    """Memory in bytes that a worker uses for pending requests; 0 if both ends are directories.

    `destination` is its URL; None in place, "" if it is not specified yet.
    """
    read = 0 if isinstance(source, LocalStorage) else STORE_READ
    return read if not destination or os.path.isabs(destination) else read + STORE_WRITTEN


def memory_of_pairs(source: Layout, destination: Layout, buffers: int) -> int | None:
    """Memory in bytes that a worker needs if objects correspond one to one; None for a chunk or two."""
    return worker_overhead(source, destination, buffers) if buffers else None


def payload_blocks(source: Layout, destination: Layout, budget: int, buffers: int) -> Blocks | Problem | None:
    """The blocks of an array whose inner chunk shape stays; None if objects correspond one to one.

    A block is one object of the side with the larger objects. `buffers` as for `choose_blocks`.
    """
    sharded = isinstance(destination.frame, Shards)
    # A shard of a single chunk has the chunk's shape, but is a different object.
    if source.object_shape == destination.object_shape and isinstance(source.frame, Shards) == sharded:
        return None
    memory = _BUFFERS + buffers + 4 * prod(source.chunk_shape) * source.item_bytes
    for frame in (source.frame, destination.frame):
        if isinstance(frame, Shards):
            index = _INDEX_COPIES * frame.index.size(frame.chunks_per_shard)
            memory += index
            if index > budget - BASE:
                return refusal(
                    "memory",
                    "the index of a shard does not fit into the permitted memory",
                    found=f"{frame.inner_chunks} chunks in a shard",
                    expected=f"at most {(budget - BASE) // (_INDEX_COPIES * PAIR_BYTES)}",
                    advice="Request fewer chunks per shard, or increase --memory.",
                )
    return Blocks(shape=destination.object_shape if sharded else source.object_shape, memory=memory)


def worker_overhead(source: Layout, destination: Layout, buffers: int) -> int:
    """Memory of a worker besides its block's values: a source chunk, an encoded inner chunk, an index."""
    inner_chunk = prod(source.chunk_shape) * source.item_bytes
    new = prod(destination.chunk_shape) * destination.item_bytes
    indexes = [
        _INDEX_COPIES * frame.index.size(frame.chunks_per_shard)
        for frame in (source.frame, destination.frame)
        if isinstance(frame, Shards)
    ]
    return 2 * inner_chunk + 2 * new + sum(indexes) + _BUFFERS + buffers


def mean_inner_chunk(source: Layout, inventory: Inventory) -> float | None:
    """Average stored bytes of an inner chunk; None if unknown."""
    total, count = inventory.total_bytes, len(inventory.indexes)
    if total is None or not count:
        return None
    inner_chunks = source.frame.inner_chunks if isinstance(source.frame, Shards) else 1
    return total / (count * inner_chunks)


def block_bounds(
    inventory: Inventory, source: Layout, blocks: Blocks, bytes_in: int, written: int = 0
) -> tuple[int, ...]:
    """Divide the non-empty blocks into tasks, as `task_bounds` does for chunks.

    `written` is the number of bytes written for a block, if it may be larger than what is read.
    """
    grid = Grid(source.shape, blocks.shape)
    touched_blocks = touched(inventory.indexes, source.objects, grid)
    if not len(touched_blocks):
        return ()
    each = max(bytes_in / len(touched_blocks), 1)
    step = int(min(max(task_bytes(bytes_in) // each, 1), _MAX_BLOCKS, max(len(touched_blocks) // 8, 1)))
    starts = np.arange(0, len(touched_blocks), step)
    sizes = object_sizes(inventory, prod(source.object_shape) * source.item_bytes)
    if isinstance(source.frame, Shards):  # only the inner chunks that a block overlaps are read
        sizes = np.minimum(sizes, _inner_chunk_bytes(source, blocks.shape))
    reads = gathered(sizes, inventory.indexes, source.objects, grid, touched_blocks)
    starts = within_limit(starts, np.maximum(reads, written))
    return (*map(int, touched_blocks[starts]), int(touched_blocks[-1]) + 1)


def _inner_chunk_bytes(source: Layout, block: Shape) -> int:
    """The largest number of bytes of one shard's inner chunks that overlap a block."""
    sides = zip(block, source.chunk_shape, strict=True)
    counts = [-(-side // length) + bool(side % length and length % side) for side, length in sides]
    return prod(counts) * prod(source.chunk_shape) * source.item_bytes
