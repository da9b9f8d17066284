"""Decoders and size limits for an array's stored objects, including any frame around the payloads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zarrstack.core.errors import ZarrstackError

from ..core.codecs.base import OBJECT_LIMIT
from ..core.codecs.pipeline import Pipeline
from ..core.grid.frames import N5Blocks, Shards
from ..core.n5.block_pipeline import BlockPipeline
from ..core.n5.blocks import head_bytes
from ..storage.local.files import ReadLimit

if TYPE_CHECKING:
    from .nodes import Layout


def object_decoder(layout: Layout) -> BlockPipeline | Pipeline:
    """The decoder of a layout's objects, which are no shards; the codecs' MetadataError, UnsupportedError.

    Its `decode` makes an array of a chunk's shape; ChunkError for an invalid object.
    """
    if isinstance(layout.frame, N5Blocks):
        return BlockPipeline(layout.chain, layout.chunk_shape, layout.data_type, layout.frame.axes)
    return Pipeline(layout.chain, layout.chunk_shape, layout.data_type)


def object_bound(layout: Layout, inner_chunk: Pipeline | None = None) -> ReadLimit:
    """The maximum size of a stored object of an array; `inner_chunk` is its compiled chain, if made."""
    most = most_in_inner_chunk(layout) if inner_chunk is None else inner_chunk.most_stored
    if isinstance(layout.frame, N5Blocks):
        most += head_bytes(len(layout.chunk_shape))
    elif isinstance(layout.frame, Shards):
        most = most * layout.frame.inner_chunks + layout.frame.index.size(layout.frame.chunks_per_shard)
    return ReadLimit(most)


def most_in_inner_chunk(layout: Layout) -> int:
    """Maximum size of an inner chunk's payload in bytes."""
    try:
        return Pipeline(layout.chain, layout.chunk_shape, layout.data_type, allow_pickle=True).most_stored
    except ZarrstackError:  # a chain that cannot decode, which is reported when it is compiled
        return OBJECT_LIMIT
