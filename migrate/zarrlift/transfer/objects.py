"""Objects that are read whole, and moved one by one through memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from zarrstack.core.errors import ZarrstackError

from ..core.codecs.base import Buffer, memory
from ..storage.writer import Writer
from .stored_chunks import InnerChunks, versions_of

if TYPE_CHECKING:
    from ..planning.routes import Move
    from .counts import MoveCounts
    from .tasks import Task


Mover: TypeAlias = "Callable[[Task, MoveCounts], None]"
"""Moves the chunks of a task and counts them; raises DestinationError, other errors are counted."""

Change: TypeAlias = "Callable[[int, bytes, MoveCounts], Buffer | None]"
"""Checks or converts an object by its linear index and content; None if it is to be omitted."""


class Objects:
    """Moves each object of a task to the same position in the destination's grid of objects."""

    def __init__(self, move: Move, source: InnerChunks, writer: Writer, change: Change) -> None:
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
