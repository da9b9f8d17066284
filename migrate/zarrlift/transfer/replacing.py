"""Moves over an earlier result: objects that a task does not make any more are deleted."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from zarrstack.core.errors import StorageError

from ..core.codecs.base import Buffer
from ..core.grid.frames import Shards
from ..core.grid.grid import Grid
from ..core.grid.overlap import touched
from ..storage.writer import DestinationError, Writer

if TYPE_CHECKING:
    from ..planning.move import Move
    from ..storage.object_stream import ObjectStream
    from .counts import MoveCounts
    from .objects import Mover
    from .tasks import Task


def leaves_out(move: Move) -> bool:
    """Whether a task may make fewer objects than its units have."""
    if move.route.name == "relink":
        return False
    return move.drop_empty or move.route.name == "regrid" or isinstance(move.source.frame, Shards)


class RecordingWriter(Writer):
    """A writer that knows what each thread has written since it was asked to begin."""

    def __init__(self, writer: Writer) -> None:
        self.storage = writer.storage
        self._writer = writer
        self._local = threading.local()

    def begin(self) -> set[str]:
        """A set that receives the keys of this thread's objects from now on."""
        keys: set[str] = set()
        self._local.keys = keys
        return keys

    def write(self, key: str, data: Buffer) -> None:
        """Write one object."""
        self._local.keys.add(key)
        self._writer.write(key, data)

    def write_many(self, items: Sequence[tuple[str, Buffer]]) -> None:
        """Write several objects."""
        self._local.keys.update(key for key, _ in items)
        self._writer.write_many(items)

    def stream(self, key: str, *, reserve: int = 0) -> ObjectStream:
        """An object in pieces; one that is discarded fails its task."""
        self._local.keys.add(key)
        return self._writer.stream(key, reserve=reserve)

    def behind(self) -> AbstractContextManager[None]:
        """As the writer below."""
        return self._writer.behind()


class Replacing:
    """A mover that deletes what remains of an earlier result in the units of a task."""

    def __init__(self, move: Move, writer: RecordingWriter, mover: Mover) -> None:
        """`mover` writes to `writer`."""
        self._writer = writer
        self._mover = mover
        self._move = move
        self._objects = move.destination.objects
        self._blocks = None if move.block_shape is None else Grid(move.source.shape, move.block_shape)

    def __call__(self, task: Task, counts: MoveCounts) -> None:
        """Move the units of a task, then delete; raises DestinationError, other errors are counted."""
        written = self._writer.begin()
        self._mover(task, counts)
        if counts.failures or not len(task.indexes):
            return
        objects = task.indexes
        if self._blocks is not None:
            objects = touched(objects, self._blocks, self._objects)
        try:
            places = self._objects.coordinates_of(objects)
            for key in self._move.destination.object_keys(self._move.path, places):
                if key not in written:
                    self._writer.storage.delete(key)
        except StorageError as error:
            problem = error.problem
            raise DestinationError(problem.message, key=problem.key, found=problem.found) from error
