"""The route `reframe`: the frame around payloads changes, an N5 header or a shard.

Here, each object is made from one object of the source; `reframe_shards` combines and divides objects. Codecs
that differ too are changed in each payload by a `InnerChunkConversion`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zarrstack.core.codecs.base import Buffer, memory
from zarrstack.core.errors import ZarrstackError
from zarrstack.core.grid.frames import N5Blocks, Shards
from zarrstack.core.n5.block_pipeline import BlockPipeline

from ..planning.move import Move
from .objects import ObjectConversion
from .recode import InnerChunkConversion
from .shard_reader import in_stored_order, inside_shard, packed, read_index

if TYPE_CHECKING:
    from .counts import MoveCounts


def change_for(move: Move, *, recheck: bool) -> ObjectConversion:
    """The conversion of objects on the routes `reframe`, `recode` and `rewrite`."""
    inner_chunk, source, target = InnerChunkConversion(move, recheck=recheck), move.source, move.destination
    if isinstance(source.frame, Shards) and isinstance(target.frame, Shards):
        return _Reshard(move, inner_chunk, source.frame, target.frame)
    return without_header(move, inner_chunk)


def without_header(move: Move, inner_chunk: InnerChunkConversion) -> ObjectConversion:
    """The conversion of objects that contain one inner chunk each to payloads."""
    frame = move.source.frame
    return _Unblock(move, inner_chunk, frame) if isinstance(frame, N5Blocks) else inner_chunk


class _Unblock(ObjectConversion):
    """For N5: removes the header; blocks smaller than their grid cell are decoded and padded."""

    def __init__(self, move: Move, inner_chunk: InnerChunkConversion, frame: N5Blocks) -> None:
        source = move.source
        self.reader = inner_chunk.reader
        self._inner_chunk = inner_chunk
        self._blocks = BlockPipeline(source.chain, source.chunk_shape, source.data_type, frame.axes)

    def __call__(self, index: int, data: bytes, counts: MoveCounts) -> Buffer | None:
        payload = self._blocks.whole_payload(data)
        if payload is not None:
            return self._inner_chunk(index, payload, counts)
        shape, payload = self._blocks.part(data)
        part = self._blocks.decode_part(shape, payload)
        counts.filled += 1
        if part.size:
            self._inner_chunk.again(index, payload, part, shape)
        return self._inner_chunk.encode(index, self._blocks.filled(part), counts)


class _Reshard(ObjectConversion):
    """For shards of the same inner chunks on both sides: converts each payload and rewrites the index."""

    def __init__(self, move: Move, inner_chunk: InnerChunkConversion, before: Shards, after: Shards) -> None:
        self.reader = inner_chunk.reader
        self._inner_chunk = inner_chunk
        self._before = before
        self._after = after
        self._inner_chunks = move.source.grid
        self._objects = move.source.objects

    def __call__(self, index: int, data: bytes, counts: MoveCounts) -> Buffer | None:
        old = read_index(data, self._before)
        shape = self._after.chunks_per_shard
        view = memory(data)
        first = tuple(
            place * length for place, length in zip(self._objects.coordinates(index), shape, strict=True)
        )
        payloads: list[tuple[tuple[int, ...], Buffer]] = []
        for inner, place in in_stored_order(old):
            inner_chunk = self._inner_chunks.index(tuple(a + b for a, b in zip(first, inner, strict=True)))
            if inner_chunk is None:
                continue  # entirely beyond the array's end
            try:
                payload = self._inner_chunk(inner_chunk, view[place], counts)
            except ZarrstackError as error:
                raise inside_shard(error, inner) from error
            if payload is not None:
                payloads.append((inner, payload))
        if not payloads and old.present.any():
            return None
        return packed(self._after, payloads)
