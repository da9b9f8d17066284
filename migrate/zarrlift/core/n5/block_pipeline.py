"""A codec chain compiled for the blocks of one N5 dataset, including headers and short blocks.

The rest of the cell of a short block is zero, for every reader (`blocks.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ..codecs.base import memory
from ..codecs.pipeline import Pipeline
from ..grid.chunk_keys import Axes, reverse_axes
from .blocks import BlockHeader, pad_block, require_end, split

if TYPE_CHECKING:
    from ..chain.chain import Chain
    from ..codecs.base import Buffer
    from ..data_types.v3 import DataType

    Array = np.ndarray[Any, Any]

_MAX_SHAPES: Final = 64
"""Maximum number of compiled chains for short blocks: edges have few shapes, damaged data has many."""


class BlockPipeline:
    """A compiled chain for blocks whose cell has one shape; thread-safe."""

    def __init__(self, chain: Chain, cell: tuple[int, ...], data_type: DataType, axes: Axes) -> None:
        """`cell` is the shape of a whole block in the displayed order, `chain` that of its payload."""
        self.whole = Pipeline(chain, cell, data_type)
        self._chain = chain
        self._cell = cell
        self._data_type = data_type
        self._axes = axes
        self._block_size = reverse_axes(cell, axes)
        self._header = BlockHeader.of(self._block_size).to_bytes()
        self._shorter: dict[tuple[int, ...], Pipeline] = {}

    def whole_payload(self, data: bytes) -> memoryview | None:
        """The payload of a block that fills its cell; None for any other block. ChunkError as for `part`."""
        if not data.startswith(self._header):
            return None
        payload = memory(data)[len(self._header) :]
        self._require_end(payload)
        return payload

    def part(self, data: Buffer) -> tuple[tuple[int, ...], memoryview]:
        """Shape, in the displayed order, and payload of any block of values; ChunkError for other data."""
        header, payload = split(data, self._block_size)
        self._require_end(payload)
        return reverse_axes(header.shape, self._axes), payload

    def _require_end(self, payload: memoryview) -> None:
        if self._chain.states_lengths:  # other codecs do not accept such bytes
            require_end(self.whole.trailing_bytes(payload))

    def decode_part(self, shape: tuple[int, ...], payload: Buffer) -> Array:
        """Decode a block of this shape, without padding; ChunkError if it is invalid."""
        if not len(payload) and 0 in shape:
            return np.zeros(shape, self._data_type.numpy)
        return self._pipeline(shape).decode(payload)

    def filled(self, part: Array) -> Array:
        """Pad a block's values to a whole cell."""
        return pad_block(part, self._cell)

    def _pipeline(self, shape: tuple[int, ...]) -> Pipeline:
        if shape == self._cell:
            return self.whole
        pipeline = self._shorter.get(shape)
        if pipeline is None:
            if len(self._shorter) >= _MAX_SHAPES:
                self._shorter.clear()
            pipeline = self._shorter[shape] = Pipeline(self._chain, shape, self._data_type)
        return pipeline
