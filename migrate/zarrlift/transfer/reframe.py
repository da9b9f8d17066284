"""The route `reframe`: the frame around payloads changes, an N5 header or a shard.

Here, each object is made from one object of the source; `reframe_shards` combines and divides objects. Codecs
that differ too are changed in each payload by an `InnerChunkConversion`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zarrstack.core.errors import ZarrstackError

from ..core.codecs.base import Buffer
from ..core.grid.frames import Shards
from ..planning.routes import Move
from .recode import InnerChunkConversion
from .stored_chunks import InnerChunks

if TYPE_CHECKING:
    from .counts import MoveCounts


class ObjectConversion:
    """Converts objects in memory that have the same inner chunks on both sides; shared between threads."""

    def __init__(self, move: Move, source: InnerChunks, *, recheck: bool) -> None:
        self._source = source
        self._convert = InnerChunkConversion(move, source, recheck=recheck)
        self._frame = move.destination.frame
        self._grid = move.destination.grid

    def __call__(self, number: int, data: bytes, counts: MoveCounts) -> Buffer | None:
        """The object for the destination, or None if it is to be omitted.

        `number` is its linear index in the grid of objects. Raises ChunkError, CastError.
        """
        chunks, payloads = 0, []
        for chunk in self._source.split(number, data):
            chunks += 1
            if chunk.number < 0:
                continue  # entirely beyond the array's end
            try:
                payload = self._convert(chunk, counts)
            except ZarrstackError as error:
                if (positioned := self._source.with_position(error, chunk.number)) is error:
                    raise
                raise positioned from error
            if payload is not None:
                payloads.append((chunk.number, payload))
        if chunks and not payloads:
            return None
        frame = self._frame
        if not isinstance(frame, Shards):
            return payloads[0][1]
        return frame.packed((frame.inner(self._grid.coordinates(at)), payload) for at, payload in payloads)
