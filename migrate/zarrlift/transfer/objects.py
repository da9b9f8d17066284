"""Objects that are read whole, and moved one by one through memory.

An `ObjectConversion`, a function of an object's bytes and position, checks or converts the bytes.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import prod
from typing import TYPE_CHECKING, TypeAlias

from zarrstack.core.codecs.base import Buffer, memory
from zarrstack.core.errors import ZarrstackError

from ..archive.decoder import object_bound
from ..storage.base import Storage
from ..storage.limits import READ_AHEAD
from ..storage.listed_versions import holding
from ..storage.writer import Writer
from .object_keys import ObjectKeys

if TYPE_CHECKING:
    from zarrstack.core.codecs.pipeline import Pipeline

    from ..archive.nodes import Layout
    from ..planning.move import Move
    from .counts import MoveCounts
    from .tasks import Task


Mover: TypeAlias = "Callable[[Task, MoveCounts], None]"
"""Moves the chunks of a task and counts them; raises DestinationError, other errors are counted."""


class ObjectConversion(ABC):
    """Checks or converts stored objects of one array; shared between the threads of a process."""

    reader: Pipeline
    """The compiled chain of the source's payloads."""

    @abstractmethod
    def __call__(self, index: int, data: bytes, counts: MoveCounts) -> Buffer | None:
        """The object for the destination, or None if it is to be omitted.

        `index` is its linear index in the source's grid of objects. Raises ChunkError, CastError.
        """


class Objects:
    """Moves each object of a task to the same position in the destination's grid of objects."""

    def __init__(self, move: Move, source: Storage, writer: Writer, change: ObjectConversion) -> None:
        self._objects = move.source.objects
        self._keys = ObjectKeys(move.source, move.path)
        self._targets = ObjectKeys(move.destination, move.path)
        self._writer = writer
        self._change = change
        self._reader = ObjectReader(source, move.source, change.reader)

    def __call__(self, task: Task, counts: MoveCounts) -> None:
        """Move the objects; raises DestinationError, other errors are recorded in `counts`."""
        reader = self._reader
        places = self._objects.coordinates_of(task.indexes)
        keys, targets = self._keys(places), self._targets(places)
        with holding(reader.storage, task.held(lambda: keys)):
            payloads = reader.read(keys, counts)
            for index, key, target, payload in zip(
                task.indexes.tolist(), keys, targets, payloads, strict=True
            ):
                if payload is None:
                    counts.missing(key)
                    continue
                try:
                    result = self._change(index, payload, counts)
                except (ZarrstackError, MemoryError) as error:
                    counts.failed(error, key)
                    continue
                if result is None:
                    counts.drop(len(payload))
                    continue
                self._writer.write(target, result)
                counts.add(len(payload), memory(result).nbytes)


class ObjectReader:
    """Reads whole objects of one array."""

    def __init__(self, storage: Storage, layout: Layout, inner_chunk: Pipeline) -> None:
        self.storage = storage
        self.bound = object_bound(layout, inner_chunk)
        self._decoded = prod(layout.object_shape) * (layout.data_type.itemsize or 1)

    def read(self, keys: Sequence[str], counts: MoveCounts) -> Iterator[bytes | None]:
        """Yield objects in order, with read-ahead in a store; None for a missing one.

        An unreadable object is recorded in `counts` and yields None too.
        """
        if self.storage.requests is None:
            for key in keys:
                yield _read(partial(self.storage.get, key, self.bound), key, counts)
            return
        from ..storage.remote.async_requests import read_ahead  # files do not need asyncio

        ask = partial(self.storage.requests.get, bound=self.bound)
        coming = read_ahead(keys, lambda _: self._decoded, ask, most=READ_AHEAD)
        with contextlib.closing(coming):
            for key, future in zip(keys, coming, strict=True):
                yield _read(future.result, key, counts)


def _read(read: Callable[[], bytes | None], key: str, counts: MoveCounts) -> bytes | None:
    try:
        return read()
    except (ZarrstackError, MemoryError) as error:
        # One unreadable object must not affect the others.
        counts.failed(error, key)
        return None
