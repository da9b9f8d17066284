"""The inner chunks of an array, read by its frame: payloads, N5 blocks or shards."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING

from ..core.grid.frames import N5Blocks, Shards
from ..core.n5.block_pipeline import BlockPipeline
from .shard_reader import ShardReader
from .stored_chunks import Array, InnerChunk, InnerChunks

if TYPE_CHECKING:
    from ..archive.nodes import Layout
    from ..core.codecs.pipeline import Pipeline
    from ..storage.base import Storage


def inner_chunks(storage: Storage, path: str, layout: Layout, *, allow_pickle: bool = False) -> InnerChunks:
    """The inner chunks of the array at `path`, by the frame of its layout."""
    match layout.frame:
        case N5Blocks():
            kind: type[InnerChunks] = BlockReader
        case Shards():
            kind = ShardReader
        case None:
            kind = InnerChunks
    return kind(storage, path, layout, allow_pickle=allow_pickle)


class BlockReader(InnerChunks):
    """For N5: each object is a header and a payload, perhaps of fewer values than a whole inner chunk."""

    @cached_property
    def _blocks(self) -> BlockPipeline:
        layout, frame = self.layout, self.layout.frame
        assert isinstance(frame, N5Blocks)
        return BlockPipeline(layout.chain, layout.chunk_shape, layout.data_type, frame.axes)

    @cached_property
    def pipeline(self) -> Pipeline:
        return self._blocks.whole

    def split(self, number: int, data: bytes) -> Iterable[InnerChunk]:
        payload = self._blocks.whole_payload(data)
        if payload is not None:
            return (InnerChunk(number, payload, len(data)),)
        shape, payload = self._blocks.part(data)
        return (InnerChunk(number, payload, len(data), shape),)

    def decode(self, chunk: InnerChunk) -> Array:
        if chunk.shape is None:
            return super().decode(chunk)
        return self._blocks.filled(self._blocks.decode_part(chunk.shape, chunk.payload))
