"""The routes `recode` and `rewrite`: only the codecs that differ are decoded and encoded.

`recode` exchanges the last codecs of a payload. `rewrite` decodes it to an array, casts that and encodes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from ..archive.chunk_reader import ChunkReader, InnerChunk
from ..core.codecs.base import Buffer, memory
from ..core.codecs.blosc import framed
from ..core.codecs.pipeline import Pipeline
from ..core.data_types.cast import cast
from ..core.data_types.compare import same_bits
from ..core.data_types.object_values import may_be_anything, to_strings
from ..core.data_types.v3 import fill_from_json
from ..core.grid.grid import Grid
from ..planning.portable_codecs import framed_form
from ..planning.routes import Move

if TYPE_CHECKING:
    from .counts import MoveCounts

RECHECK_EVERY: Final = 100
"""For routes that decode, one inner chunk out of this number is decoded again by an independent library."""


class InnerChunkConversion:
    """Converts inner chunks; if their codecs stay, it only checks them. Shared between threads."""

    def __init__(self, move: Move, source: ChunkReader, *, recheck: bool) -> None:
        self.move = move
        self.source = source
        self.recheck = recheck
        self.reader = source.pipeline
        self.casts = move.source.data_type != move.destination.data_type
        self._is_checked_by_undoing = self._undoing_checks_payload()
        self._frame: Mapping[str, Any] | None = None
        """The blosc that only frames streams of the source."""
        self._change = self._chosen()

    @cached_property
    def writer(self) -> Pipeline:
        """The compiled chain of the destination; not needed for payloads that are only checked."""
        target = self.move.destination
        return Pipeline(target.chain, target.chunk_shape, target.data_type)

    def __call__(self, chunk: InnerChunk, counts: MoveCounts | None = None) -> Buffer | None:
        """The payload of an inner chunk for the destination, or None if it is to be omitted.

        Blocks that were padded are counted. Raises ChunkError, CastError.
        """
        index, payload, _, shape = chunk
        if shape is not None:
            return self._pad(chunk, shape, counts)
        return self._change(index, payload)

    def _pad(self, chunk: InnerChunk, shape: tuple[int, ...], counts: MoveCounts | None) -> Buffer | None:
        """The payload of a whole inner chunk, for a block that does not fill its cell."""
        array = self.source.decode(chunk)
        if counts is not None:
            counts.filled += 1
        if 0 not in shape:
            self.again(chunk.number, chunk.payload, array[tuple(map(slice, shape))], shape)
        return self.encode(chunk.number, array)

    def _chosen(self) -> Callable[[int, Buffer], Buffer | None]:
        route = self.move.route
        if not route.decodes:
            return self._keep
        if route.name == "rewrite":
            return self._rewrite
        undone = self.move.source.chain.codecs[route.shared :]
        applied = self.move.destination.chain.codecs[route.shared :]
        if (frame := framed_form(undone)) is not None and applied == (frame,):
            self._frame = frame.configuration
        names = [codec.name for codec in (*undone, *applied)]
        return self._rewrap if names == ["numcodecs.zlib", "gzip"] else self._recode

    def _undoing_checks_payload(self) -> bool:
        """Whether decoding down to the shared codecs, and the length of the result, suffice as a check.

        They do not if nothing is decoded, for data of variable length, or behind a checksum; a further check
        is then needed.
        """
        chain, shared = self.move.source.chain, self.move.route.shared
        return chain.middle + 1 == shared < len(chain.codecs) and self.reader.sizes[shared].exact

    def _keep(self, index: int, payload: Buffer) -> Buffer:
        return self.reader.check_whole(payload)

    def _rewrap(self, index: int, payload: Buffer) -> Buffer:
        from ..core.codecs.deflate import rewrap_zlib_to_gzip

        size = self.reader.sizes_for(memory(payload).nbytes)[self.move.route.shared]
        result = rewrap_zlib_to_gzip(payload, size)
        self.again(index, payload, None)
        return result

    def _recode(self, index: int, payload: Buffer) -> Buffer:
        shared = self.move.route.shared
        inner = self.reader.undo(payload, shared)
        if not self._is_checked_by_undoing:
            inner = self.reader.check_whole(inner, shared)
        self.again(index, payload, None)
        if self._frame is not None:
            # The stream is checked by now. Before that of numcodecs' LZ4 is its size.
            stream = memory(payload)[4 if self._frame["cname"] == "lz4" else 0 :]
            size = memory(inner).nbytes
            container = framed(stream, self._frame["cname"], self._frame["typesize"], size)
            if container is not None:
                return container
        return self.writer.apply(inner, shared)

    def _rewrite(self, index: int, payload: Buffer) -> Buffer | None:
        array = self.reader.decode(payload)
        self.again(index, payload, array)
        return self.encode(index, array)

    def encode(self, index: int, array: npt.NDArray[Any]) -> Buffer | None:
        """The payload of an inner chunk with these source values, or None if it is to be omitted."""
        move = self.move
        target = move.destination
        if self.casts:
            inside = _inside(target.grid, index)
            part = np.asarray(convert(move, array[inside]))
            if part.shape == array.shape:
                array = part
            else:
                fill = fill_from_json(target.fill_value, target.data_type)
                array = np.full(array.shape, fill, dtype=target.data_type.numpy)
                array[inside] = part
        return self.store(index, array)

    def store(self, index: int, array: npt.NDArray[Any]) -> Buffer | None:
        """The payload of an inner chunk with these destination values; None as in `encode`."""
        target = self.move.destination
        if self.move.values.drop_empty:
            part = np.asarray(array[_inside(target.grid, index)])
            fill = fill_from_json(target.fill_value, target.data_type)
            if same_bits(part, np.full(part.shape, fill, dtype=part.dtype)):
                return None
        return self.writer.encode(array)

    def again(
        self,
        index: int,
        payload: Buffer,
        array: npt.NDArray[Any] | None,
        shape: tuple[int, ...] | None = None,
    ) -> None:
        """Decode one inner chunk in a hundred a second time, with other code.

        `array` is the result of our code, if known; `shape` its shape if it is not a whole inner chunk.
        """
        if not self.recheck or index % RECHECK_EVERY:
            return
        from .recheck import recheck

        layout = self.move.source if shape is None else replace(self.move.source, chunk_shape=shape)
        recheck(layout, bytes(payload), self.reader.decode(payload) if array is None else array)


def _inside(grid: Grid, index: int) -> tuple[Any, ...]:
    """The part of a chunk inside the array: padding of an edge chunk is neither checked nor cast.

    The ellipsis keeps a 0-d array an array: numpy's scalars have no byte order.
    """
    return (*grid.valid(grid.coordinates(index)), ...)


def convert(move: Move, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Source values in the destination's data type, which is another one; raises CastError."""
    source, target = move.source.data_type, move.destination.data_type
    if target.name == "string" and source.name != "string":
        chain = move.source.chain
        return to_strings(array, move.values.objects, tagged=may_be_anything(chain.codecs[chain.middle].name))
    return cast(array, target.numpy, move.values.casting)
