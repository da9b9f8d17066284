"""Foretells the requests of a migration to the stores at its ends.

Those of planning are counted: a plan has just made them. The others follow from the plan; a test compares
them with what a server was asked (tests/zarrlift/jobs/test_request_forecast.py).
"""

from __future__ import annotations

from collections import Counter
from math import prod
from typing import TYPE_CHECKING, Final

from zarrstack.core.paths import join

from ..core.codecs.base import HEAD_BYTES, TAIL_BYTES
from ..core.grid.frames import Shards
from ..formats.registry import attributes_document
from ..planning.estimates import PAGE, listing_requests, plan_totals
from ..planning.requests import RequestCounts, RequestForecast
from ..storage.limits import PART, SPOOLED
from ..storage.remote.zarr_store import StoreStorage
from ..transfer.relink_server_side import IN_ONE_READ, ServerCopy, server_copy
from ..transfer.shard_reader import SPAN
from ..verification.sampling import Sampler

if TYPE_CHECKING:
    from ..archive.nodes import Layout
    from ..planning.inventories import Inventories
    from ..planning.plans import ArrayPlan, Plan
    from ..recipe.options import Request
    from .endpoints import Endpoints

_PART: Final = 5 << 20
"""Larger objects are written in parts of this size, in bytes (obstore 0.12, `put`)."""


def forecast(
    plan: Plan, ends: Endpoints, inventories: Inventories, request: Request
) -> RequestForecast | None:
    """The requests of a plan just made with these inventories; None if neither end is a store."""
    source = ends.source
    paid = [isinstance(end, StoreStorage) and end.native is not None for end in (source, ends.destination)]
    if not any(paid):
        return None
    moving = [array for array in plan.arrays if array.route.name != "stay"]
    files = sum(len(group.files) for group in plan.groups)
    objects = plan_totals(plan)["objects_out"] + files
    # Documents and chunks are looked at again before an array is published; attributes may be there then.
    name = attributes_document(plan.format)
    documents = {key for node in plan.published for key, _ in node.source_digests}
    documents |= {join(node.path, name) for node in plan.published} if name is not None else set()
    reads = Counter(get=len(documents) + files, head=files)
    reads["list"] = listing_requests(moving, plan.groups) if source.can_list else 0
    if isinstance(source, StoreStorage):
        reads.update(get=source.sent["cannot read"], list=source.sent["cannot list"])
        if source.can_list:
            reads["list"] += listing_requests(plan.arrays, ()) - len(plan.arrays)  # further pages
    # A claim is made twice, to see whether the store refuses the second one, and read three times. In place,
    # each `zarr.json` is looked for.
    writes = Counter(get=3, put=2 + objects - sum(array.objects_out for array in moving), delete=1)
    if plan.in_place:
        writes["get"] += len(plan.published)
    else:
        writes["list"] += 1
    copies = None if plan.in_place else server_copy(source, ends.destination)
    for array in moving:
        _move(array, inventories, reads, writes, copies=copies)
    sampler = Sampler("") if request.verify == "sample" else None
    for array in plan.arrays if request.verify != "none" else ():
        _verify(array, inventories, sampler, reads, writes)
    if plan.in_place:
        return RequestForecast(source=RequestCounts(**(reads + writes)), objects=objects)
    return RequestForecast(
        source=RequestCounts(**reads) if paid[0] else None,
        destination=RequestCounts(**writes) if paid[1] else None,
        objects=objects,
    )


def _move(
    array: ArrayPlan,
    inventories: Inventories,
    reads: Counter[str],
    writes: Counter[str],
    *,
    copies: ServerCopy | None,
) -> None:
    """Add what moves the chunks; `copies` where both ends are in one store."""
    inventory, written = inventories.get(array.path), array.objects_out
    sizes = None if inventory is None else inventory.sizes
    sharded = isinstance(array.source.frame, Shards)
    reads.update(get=array.reads, bytes_read=array.bytes_read)
    if array.tasks:
        writes["list"] += 1 + written // PAGE  # before it is published
    writes.update(bytes_written=array.bytes_out)
    size = array.bytes_out // max(written, 1)
    if copies and array.route.name == "relink" and sizes is not None and not sharded:
        large = sizes[sizes > IN_ONE_READ]
        count, stored = len(large), int(large.sum())
        # The beginning and the end are read, and at last the state; and the end of copies that are compared.
        reads.update(get=count, head=count, bytes_read=count * (HEAD_BYTES + TAIL_BYTES) - stored)
        compared = copies.compared(count)
        writes.update(copy=count, bytes_written=-stored, get=compared, bytes_read=compared * TAIL_BYTES)
        written -= count
        size = (array.bytes_out - stored) // max(written, 1)
    elif sharded and array.move.block_shape is not None:
        # Size and index are read first, and then parts; without blocks, shards are read whole.
        spans = -(-array.bytes_in // max(array.chunks, 1) // SPAN)
        reads.update(get=array.reads * spans, head=array.reads)
    if array.between is not None:
        cells = array.between.layout.objects.total
        reads.update(get=array.chunks - array.reads)
        writes.update(put=cells, get=cells, delete=cells)
    part = PART if array.move.block_shape is not None and size > SPOOLED else _PART
    writes.update(put=written * (1 if size <= _PART else 2 + -(-size // part)))


def _verify(
    array: ArrayPlan,
    inventories: Inventories,
    sampler: Sampler | None,
    reads: Counter[str],
    writes: Counter[str],
) -> None:
    """Add the reads that compare an array with its source; those of blocks and shards are estimates."""
    source, result, objects = array.source, array.destination, array.objects_out or array.chunks
    inventory, compared = inventories.get(array.path), array.chunks
    if sampler is not None:
        compared = 0 if inventory is None else len(sampler.choose(array, inventory.indexes))
    else:
        reads["list"] += _directories(source, array.chunks)
        writes["list"] += _directories(result, objects)
    share = compared / max(array.chunks, 1)
    reads.update(get=compared, bytes_read=round(array.bytes_in * share))
    if isinstance(source.frame, Shards):
        reads.update(get=compared, head=compared)
    # A shard is read whole, or its index first if only a part is compared.
    indexes = compared if isinstance(result.frame, Shards) and sampler is not None else 0
    size = array.bytes_out or array.bytes_in
    writes.update(get=max(round(objects * share), indexes) + indexes, bytes_read=round(size * share))


def _directories(layout: Layout, objects: int) -> int:
    """Number of requests that list the objects of an array directory by directory."""
    counts = layout.objects.counts
    depth = layout.keys.depth(len(counts))
    above = max(depth - len(counts), 0)
    return objects // PAGE + sum(prod(counts[: max(level - above, 0)]) for level in range(depth))
