"""Rechunking in two passes, if one pass would read the source many times.

An intermediate array has chunks that are short along the axes in which either side is short, so that each
pass reads its source about once. The method is rechunker's
(https://rechunker.readthedocs.io/en/latest/algorithm.html): blocks of source chunks and blocks of destination
objects are as large as the memory allows, and the intermediate chunks are their intersections.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Final

from zarrstack.core.chunk_keys_v3 import KeyEncoding
from zarrstack.core.errors import Problem

from ..archive.chunk_inventory import Inventory
from ..archive.nodes import Layout
from ..core.chain.chain import Chain
from ..core.codec_spec import CodecSpec
from ..core.problems import note
from ..storage.base import STORE_READ, STORE_WRITTEN
from ..storage.local.own_names import PASSES
from .blocks import BASE, Blocks, available_cores, block_bounds
from .boxes import choose_blocks
from .estimates import Ratio, Work, work_of
from .routes import IntermediateArray, Route

Shape = tuple[int, ...]

_WORTH: Final = 3.0
"""Minimum number of reads per source chunk in one pass for two passes to be considered."""
_COST: Final = 1.0
"""Cost of writing the intermediate array, in units of reading the source; it is hardly compressed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoPasses:
    """Two passes and the array between them."""

    between: Layout
    first: Blocks
    second: Blocks

    @property
    def times_read(self) -> float:
        """Number of reads of the whole array in both passes."""
        return self.first.times_read + self.second.times_read


def two_passes(
    source: Layout,
    destination: Layout,
    one: Blocks,
    budget: int,
    path: str,
    *,
    buffers: int = 0,
    sharing: int | None = None,
) -> TwoPasses | None:
    """Two passes, if they take less work than one; None if not, or if impossible.

    `budget`, `buffers` and `sharing` as for `choose_blocks`.
    """
    if buffers:
        buffers = STORE_READ + STORE_WRITTEN  # the intermediate array may be written to and read from a store
    if one.times_read < _WORTH or source.data_type.itemsize is None:
        return None
    best: TwoPasses | None = None
    for shape in _between(source, destination, budget, sharing or available_cores()):
        if shape in (source.chunk_shape, destination.object_shape):
            continue
        between = replace(
            source,
            chunk_shape=shape,
            chain=_plain(source),
            keys=KeyEncoding("v2", "/"),
            frame=None,
            root=f"{PASSES}/{path}" if path else PASSES,
        )
        first = choose_blocks(source, between, budget, buffers, sharing=sharing)
        second = choose_blocks(between, destination, budget, buffers, sharing=sharing)
        if not isinstance(first, Blocks) or not isinstance(second, Blocks):
            continue
        candidate = TwoPasses(between=between, first=first, second=second)
        if best is None or candidate.times_read < best.times_read:
            best = candidate
    if best is None or best.times_read + _COST >= one.times_read:
        return None
    return best


def work_of_passes(
    passes: TwoPasses,
    source: Layout,
    destination: Layout,
    route: Route,
    inventory: Inventory,
    ratio: Ratio | None,
) -> Work:
    """The work of both passes; its bounds are those of the second."""
    first, second = passes.first, passes.second
    memory = max(first.memory or 0, second.memory or 0)
    work = work_of(source, destination, route, inventory, second, memory=memory, decoded=True, ratio=ratio)
    between = IntermediateArray(
        layout=passes.between,
        block_shape=first.shape,
        piece_shape=first.piece,
        run_shape=first.run,
        bounds=block_bounds(inventory, source, first, work.bytes_in),
    )
    return work._replace(between=between, times_read=passes.times_read)


def passes_note(passes: TwoPasses, one: Blocks) -> Problem:
    """The plan's note about two passes."""
    lengths = " x ".join(map(str, passes.between.chunk_shape))
    return note(
        "grid",
        f"rechunked in two passes, with intermediate chunks of {lengths} that are removed at the end",
        found=f"{passes.times_read:.1f} reads in total",
        expected=f"{one.times_read:.1f} in one pass, with this memory",
    )


def _plain(source: Layout) -> Chain:
    """A chain with little processor load that removes some of the zeros."""
    size = source.data_type.numpy.itemsize
    packing = CodecSpec("bytes", {"endian": "little"}) if size > 1 else CodecSpec("bytes")
    configuration = {
        "cname": "lz4",
        "clevel": 1,
        "shuffle": "shuffle",
        "typesize": min(size, 255),
        "blocksize": 0,
    }
    return Chain((packing, CodecSpec("blosc", configuration)))


def _between(source: Layout, destination: Layout, budget: int, sharing: int) -> Iterator[Shape]:
    """Candidate chunk shapes: intersections of blocks of both sides."""
    item = source.data_type.numpy.itemsize
    for workers in dict.fromkeys((sharing, 1)):
        most = (budget - BASE) // workers // 4 // item
        reads, writes = (
            {_grown(source.shape, block, order, most) for order in _orders(source.shape)}
            for block in (source.chunk_shape, destination.object_shape)
        )
        for read, write in product(sorted(reads), sorted(writes)):
            yield tuple(map(min, read, write))


def _orders(shape: Shape) -> Iterator[Sequence[int]]:
    axes = range(len(shape))
    yield tuple(axes)
    yield tuple(reversed(axes))


def _grown(shape: Shape, block: Shape, order: Sequence[int], most: int) -> Shape:
    """A block doubled along one axis after the other, up to `most` elements."""
    grown = [min(b, max(n, 1)) for b, n in zip(block, shape, strict=True)]
    for axis in order:
        while grown[axis] < shape[axis]:
            longer = min(grown[axis] * 2, shape[axis])
            if prod(grown) // grown[axis] * longer > most:
                break
            grown[axis] = longer
    return tuple(grown)
