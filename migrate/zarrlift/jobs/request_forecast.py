"""Foretells the requests of a migration to the stores at its ends.

Those of planning are counted: a plan has just made them. The others follow from the plan; a test compares
them with what a server was asked (tests/zarrlift/jobs/test_request_forecast.py).
"""

from __future__ import annotations

from collections import Counter
from math import prod
from typing import TYPE_CHECKING, Final

from zarrstack.core.paths import join

from ..core.codecs.base import TAIL_BYTES
from ..core.grid.frames import Shards
from ..formats.registry import attributes_document
from ..planning.estimates import PAGE, listing_requests, plan_totals
from ..planning.requests import RequestCounts, RequestForecast
from ..storage.base import Storage
from ..storage.limits import PART, SPOOLED
from ..storage.remote.zarr_store import StoreStorage
from ..transfer.relink_server_side import IN_ONE_READ, server_copy
from ..verification.sampling import Sampler

if TYPE_CHECKING:
    from ..archive.nodes import Layout
    from ..planning.inventories import Inventories
    from ..planning.plans import ArrayPlan, Plan
    from ..recipe.options import Request, VerifyLevel

_PART: Final = 5 << 20
"""Larger objects are written in parts of this size, in bytes (obstore 0.12, `put`)."""
_SPAN: Final = 4 << 20
"""Bytes of a shard that are read together."""


def forecast(
    plan: Plan, source: Storage, destination: Storage, inventories: Inventories, request: Request
) -> RequestForecast | None:
    """The requests of a plan just made of `source` with these inventories; None if neither end is a store."""
    charged = [isinstance(end, StoreStorage) and end.native is not None for end in (source, destination)]
    if not any(charged):
        return None
    files = sum(len(group.files) for group in plan.groups)
    moving = [array for array in plan.arrays if array.route.name != "stay"]
    # Documents and chunks are looked at again before an array is published.
    reads = Counter(get=_documents(plan) + files, head=files)
    if source.can_list:
        reads["list"] = listing_requests(moving, plan.groups)
    if isinstance(source, StoreStorage):
        reads.update({"get": source.sent["cannot read"], "list": source.sent["cannot list"]})
        if request.inventory is None and source.can_list:
            reads["list"] += listing_requests(plan.arrays, ()) - len(plan.arrays)  # further pages
    # A claim is made twice, to see whether the store refuses the second one, and read three times.
    objects = plan_totals(plan)["objects_out"] + files + request.ro_crate
    writes = Counter(get=3, list=1, put=2 + objects - sum(array.objects_out for array in moving), delete=1)
    if plan.in_place:
        writes.update({"list": -1, "get": len(plan.published)})  # to see that there is no `zarr.json` yet
    sampler = Sampler("")
    for array in plan.arrays:
        if array.route.name != "stay":
            copies = not plan.in_place and server_copy(source, destination) is not None
            _move(array, inventories, reads, writes, copies=copies)
        _verify(array, inventories, request.verify, sampler, reads, writes)
    if plan.in_place:
        return RequestForecast(source=RequestCounts(**(reads + writes)), objects=objects)
    ends = [
        RequestCounts(**counts) if is_charged else None
        for counts, is_charged in zip((reads, writes), charged, strict=True)
    ]
    return RequestForecast(source=ends[0], destination=ends[1], objects=objects)


def _documents(plan: Plan) -> int:
    """Number of documents read before publishing; that of attributes too where there was none."""
    name = attributes_document(plan.format)
    keys = {join(node.path, name) for node in plan.published} if name is not None else set()
    return len(keys.union(key for node in plan.published for key, _ in node.source_digests))


def _move(
    array: ArrayPlan,
    inventories: Inventories,
    reads: Counter[str],
    writes: Counter[str],
    *,
    copies: bool,
) -> None:
    """Add the requests that move an array's chunks; `copies`: both ends are in one store."""
    inventory = inventories.get(array.path)
    sizes = None if inventory is None else inventory.sizes
    sharded = isinstance(array.source.frame, Shards)
    reads.update(get=array.reads, bytes_read=array.bytes_read)
    written, size = array.objects_out, array.bytes_out // max(array.objects_out, 1)
    if copies and array.route.name == "relink" and sizes is not None and not sharded:
        large = sizes[sizes > IN_ONE_READ]
        count, stored = len(large), int(large.sum())
        # The beginning and the end are read, and at last the state.
        reads.update(get=count, head=count, bytes_read=count * (IN_ONE_READ + TAIL_BYTES) - stored)
        writes.update(copy=count, bytes_written=-stored)
        written -= count
        size = (array.bytes_out - stored) // max(written, 1)
    elif sharded and array.move.block_shape is not None:
        # Size and index are read first, and then parts; without blocks, shards are read whole.
        spans = -(-array.bytes_in // max(array.chunks, 1) // _SPAN)
        reads.update(get=array.reads * spans, head=array.reads)
    if array.between is not None:
        cells = array.between.layout.objects.total
        reads.update(get=array.chunks - array.reads)
        writes.update(put=cells, get=array.reads, delete=cells)
    part = PART if array.move.block_shape is not None and size > SPOOLED else _PART
    puts = 1 if size <= _PART else 2 + -(-size // part)
    writes.update(put=written * puts, bytes_written=array.bytes_out)


def _verify(
    array: ArrayPlan,
    inventories: Inventories,
    level: VerifyLevel,
    sampler: Sampler,
    reads: Counter[str],
    writes: Counter[str],
) -> None:
    """Add the reads that compare an array with its source; those of blocks and shards are estimates."""
    inventory = inventories.get(array.path)
    if level == "none" or inventory is None:
        return
    source, result, objects = array.source, array.destination, array.objects_out or array.chunks
    compared = array.chunks
    if level == "sample":
        compared = len(sampler.choose(array, inventory.indexes))
    else:
        reads["list"] += _directories(source, array.chunks)
        writes["list"] += _directories(result, objects)
    share = compared / max(array.chunks, 1)
    reads.update(get=compared, bytes_read=round(array.bytes_in * share))
    if isinstance(source.frame, Shards):
        reads.update(get=compared, head=compared)
    # A shard is read whole, or its index first if only a part is compared.
    indexes = compared if isinstance(result.frame, Shards) and level == "sample" else 0
    writes.update(
        get=max(round(objects * share), indexes) + indexes, bytes_read=round(array.bytes_out * share)
    )


def _directories(layout: Layout, objects: int) -> int:
    """Number of requests that list the objects of an array directory by directory."""
    counts = layout.objects.counts
    depth = layout.keys.depth(len(counts))
    above = max(depth - len(counts), 0)
    return objects // PAGE + sum(prod(counts[: max(level - above, 0)]) for level in range(depth))
