"""The route `reframe`: the frame around payloads changes, an N5 header or a shard.

Here, each object is made from one object of the source; `blocks` combines and divides objects. Codecs that
differ too are changed in each payload by an `InnerChunkConversion`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from zarrstack.core.errors import ZarrstackError

from ..archive.chunk_reader import ChunkReader, versions_of
from ..core.codecs.base import Buffer, memory
from ..core.grid.frames import Shards
from ..planning.routes import Move
from ..storage.writer import Writer
from .recode import InnerChunkConversion

if TYPE_CHECKING:
    from .counts import MoveCounts
    from .tasks import Task


Mover: TypeAlias = "Callable[[Task, MoveCounts], None]"
"""Moves the chunks of a task and counts them; raises DestinationError, other errors are counted."""
Change: TypeAlias = "Callable[[int, bytes, MoveCounts], Buffer | None]"
"""Checks or converts an object by its linear index and content; None if it is to be omitted."""


class ObjectConversion:
    """Converts objects in memory that have the same inner chunks on both sides; shared between threads."""

    def __init__(self, move: Move, source: ChunkReader, *, recheck: bool) -> None:
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


class Objects:
    """Moves each object of a task to the same position in the destination's grid of objects."""

    def __init__(self, move: Move, source: ChunkReader, writer: Writer, change: Change) -> None:
        self._source = source
        self._move = move
        self._writer = writer
        self._change = change

    def __call__(self, task: Task, counts: MoveCounts) -> None:
        """Move the objects; raises DestinationError, other errors are recorded in `counts`."""
        source, move = self._source, self._move
        places = move.source.objects.coordinates_of(task.indexes)
        keys = source.layout.object_keys(move.path, places)
        targets = move.destination.object_keys(move.path, places)
        contents = source.contents(keys, counts, versions_of(task.versions, task.indexes))
        for number, key, target, data in zip(task.indexes.tolist(), keys, targets, contents, strict=True):
            if data is None:
                continue
            try:
                result = self._change(number, data, counts)
            except (ZarrstackError, MemoryError) as error:
                counts.failed(error, key)
                continue
            if result is None:
                counts.drop(len(data))
                continue
            self._writer.write(target, result)
            counts.add(len(data), memory(result).nbytes)
