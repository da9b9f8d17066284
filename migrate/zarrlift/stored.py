"""Stored objects of an array, decoded whole: whatever frame stands around their payloads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from zarrstack.core.frames import N5Blocks, Shards
from zarrstack.core.n5_pipeline import BlockPipeline
from zarrstack.core.pipeline import Pipeline

if TYPE_CHECKING:
    import numpy as np

    from zarrstack.core.codecs.base import Buffer

    from .archive import Layout


class ObjectDecoder(Protocol):
    """What decodes stored objects of one array."""

    def decode(self, data: Buffer) -> np.ndarray[Any, Any]:
        """An array of the layout's `object_shape`; ChunkError for whatever is wrong with the object."""


def object_decoder(layout: Layout, *, allow_pickle: bool = False) -> ObjectDecoder:
    """The decoder of a layout's objects; MetadataError and UnsupportedError as codecs raise them."""
    frame = layout.frame
    if isinstance(frame, N5Blocks):
        return BlockPipeline(layout.chain, layout.chunk_shape, layout.data_type, frame.axes)
    chain = frame.chain(layout.chunk_shape, layout.chain) if isinstance(frame, Shards) else layout.chain
    return Pipeline(
        chain,
        layout.object_shape,
        layout.data_type,
        allow_pickle=allow_pickle,
        fill_value=layout.fill_value,
    )
