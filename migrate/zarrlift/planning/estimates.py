"""The work that a plan takes: what is read and written, how often, and the division into tasks."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from ..archive.chunk_inventory import Inventory, task_bounds
from ..archive.nodes import Layout
from ..core.grid.frames import N5Blocks, Shards
from ..core.grid.grid import Grid
from ..core.grid.overlap import touched, touches
from ..core.n5.blocks import head_bytes
from .blocks import Blocks, block_bounds
from .routes import IntermediateArray, Move, Route

if TYPE_CHECKING:
    from .plans import Plan

DENSE: Final = 4
"""Typical ratio of decoded to encoded bytes, where no chunk was sampled."""


class Ratio(NamedTuple):
    """What the sampled payloads of an array become."""

    per_byte: float | None
    """Bytes for each stored byte of the source; None if the payloads do not correspond."""
    per_value: float


Samples: TypeAlias = Callable[[Move, Inventory], Ratio | None]
"""Samples chunks of an array: the ratio of it, or of its kind; None if that is not known."""


class Work(NamedTuple):
    """The work of moving an array's chunks; the members are those of an `ArrayPlan`."""

    bytes_in: int
    bytes_out: int
    bytes_out_known: bool
    bounds: tuple[int, ...]
    times_read: float
    reads: int
    objects_out: int
    memory: int | None
    between: IntermediateArray | None = None


def work_of(
    source: Layout,
    destination: Layout,
    route: Route,
    inventory: Inventory,
    blocks: Blocks | None,
    *,
    memory: int | None,
    decoded: bool = False,
    ratio: Ratio | None = None,
) -> Work:
    """The work of one pass over an array's chunks.

    `memory` is that of one worker. `decoded`: what is read is an intermediate array, which is hardly
    compressed. `ratio` is that of a sample of the whole conversion.
    """
    indexes, bytes_in = inventory.indexes, inventory.total_bytes
    if bytes_in is None:
        bytes_in = len(indexes) * prod(source.chunk_shape) * (source.data_type.itemsize or 32) // DENSE
    if route.name == "stay":
        return Work(
            bytes_in=bytes_in,
            bytes_out=0,
            bytes_out_known=inventory.sizes is not None,
            bounds=(),
            times_read=1.0,
            reads=len(indexes),
            objects_out=0,
            memory=memory,
        )
    reads, times, objects = len(indexes), 1.0, len(indexes)
    written = 0
    if decoded or (not (route.copies or route.name == "reframe") and not _compresses(destination)):
        written = prod(destination.object_shape if blocks is None else blocks.shape) * destination.item_bytes
    if blocks is None:
        implied = 0 if inventory.sizes is not None else prod(source.object_shape) * source.item_bytes
        bounds = task_bounds(inventory, implied, written)
    else:
        held = Grid(source.shape, blocks.decoded_once)
        reads, times = int(touches(indexes, source.objects, held).sum()), blocks.times_read
        if reads and times > 1 and source.frame is None:
            times = reads / len(indexes)  # of the existing chunks, which may be few
        objects = len(touched(indexes, source.objects, destination.objects))
        bounds = block_bounds(inventory, source, blocks, bytes_in, written)
    return Work(
        bytes_in=bytes_in,
        bytes_out=_bytes_out(source, destination, route, bytes_in, inventory, objects, ratio),
        bytes_out_known=inventory.sizes is not None and route.copies,
        bounds=bounds,
        times_read=times,
        reads=reads,
        objects_out=objects,
        memory=memory,
    )


def plan_totals(plan: Plan) -> dict[str, Any]:
    """Amounts of a plan; bytes in and out are estimates unless known."""
    to_move = [array for array in plan.arrays if array.route.name != "stay"]
    return {
        "arrays": len(plan.arrays),
        "groups": len(plan.groups),
        "refused": len(plan.refusals),
        "chunks": sum(array.chunks for array in plan.arrays),
        "reads": sum(array.reads for array in to_move),
        "objects_out": sum(array.objects_out for array in to_move) + len(plan.arrays) + len(plan.groups),
        "bytes_in": sum(array.bytes_in for array in to_move),
        "bytes_read": sum(array.bytes_read for array in to_move),
        "bytes_in_known": all(array.bytes_in_known for array in to_move),
        "bytes_out": sum(array.bytes_out for array in to_move),
        "bytes_out_known": all(array.bytes_out_known for array in to_move),
    }


def _bytes_out(
    source: Layout,
    destination: Layout,
    route: Route,
    bytes_in: int,
    inventory: Inventory,
    objects: int,
    ratio: Ratio | None,
) -> int:
    """Bytes to write; an estimate unless payloads are unchanged."""
    if route.copies or not inventory.certain:
        return bytes_in
    payloads = max(bytes_in - len(inventory.indexes) * _index(source), 0)
    if ratio is not None:
        if ratio.per_byte is not None and inventory.total_bytes is not None:
            payloads = round(payloads * ratio.per_byte)
        else:
            payloads = round(_values(source, destination, inventory) * ratio.per_value)
        return payloads + objects * _index(destination)
    compresses, compressed_before = _compresses(destination), _compresses(source)
    if route.name != "reframe" and not (compresses and compressed_before):
        decoded = _decoded(source, destination, payloads * (DENSE if compressed_before else 1), inventory)
        payloads = decoded // DENSE if compresses else decoded
    elif isinstance(source.frame, N5Blocks):
        payloads = max(payloads - len(inventory.indexes) * head_bytes(len(source.shape) - 1), 0)
    return payloads + objects * _index(destination)


def _compresses(layout: Layout) -> bool:
    return len(layout.chain.codecs) > layout.chain.middle + 1


def _decoded(source: Layout, destination: Layout, stored: int, inventory: Inventory) -> int:
    """Decoded bytes; for types without a fixed size, `stored` is the only measure."""
    size = destination.data_type.itemsize
    if size is None and source.data_type.itemsize is None:
        return stored
    return _values(source, destination, inventory) * (size or 32)


def _index(layout: Layout) -> int:
    frame = layout.frame
    return frame.index.size(frame.chunks_per_shard) if isinstance(frame, Shards) else 0


def _values(source: Layout, destination: Layout, inventory: Inventory) -> int:
    """Number of values in the existing chunks; if the chunk shape is unchanged, including padding."""
    if source.chunk_shape == destination.chunk_shape:
        return len(inventory.indexes) * prod(source.object_shape)
    grid = source.objects
    if not grid.shape:
        return len(inventory.indexes)
    lengths = np.array(grid.chunk_shape, dtype=object)
    last = np.array(grid.shape, dtype=object) - (np.array(grid.counts, dtype=object) - 1) * lengths
    places = grid.coordinates_of(inventory.indexes)
    at_end = places == np.array(grid.counts) - 1
    # There are few kinds of chunks: inner ones, and those at the end along some axes.
    kinds, counts = np.unique(at_end, axis=0, return_counts=True)
    return sum(
        int(count) * prod(int(a if end else b) for end, a, b in zip(kind, last, lengths, strict=True))
        for kind, count in zip(kinds, counts, strict=True)
    )
