"""Objects of a destination that are written leaf by leaf."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final

from zarrstack.core.codecs.base import Buffer, memory
from zarrstack.core.grid.frames import Shards
from zarrstack.core.grid.shard_index import ShardIndex

from ..storage.writer import Writer

if TYPE_CHECKING:
    from ..planning.plans import Move
    from ..storage.object_stream import ObjectStream

    Place = tuple[int, ...]

_HELD: Final = 4 << 20
"""Bytes of a shard buffered before they are written."""
_MOST_HELD: Final = 1000
"""Number of payloads buffered; about the number that the kernel accepts in one call."""


def new_object(move: Move, writer: Writer, place: Place) -> NewObject:
    """A new, empty object at a position in the destination's grid of objects."""
    key = move.destination.key(move.path, place)
    frame = move.destination.frame
    return NewShard(writer, key, frame) if isinstance(frame, Shards) else NewLeaf(writer, key)


class NewObject(ABC):
    """An object of the destination that is being written."""

    @abstractmethod
    def put(self, place: Place, payload: Buffer) -> None:
        """Add the payload of a leaf, by its position in the grid of leaves; DestinationError."""

    @abstractmethod
    def finish(self) -> None:
        """Publish the object, unless it is empty; DestinationError."""

    def discard(self) -> None:  # noqa: B027 - most have nothing to take back
        """Discard the object."""


class NewLeaf(NewObject):
    """An object that is the payload of one leaf."""

    def __init__(self, writer: Writer, key: str) -> None:
        self._writer = writer
        self._key = key

    def put(self, place: Place, payload: Buffer) -> None:
        """Write the payload of the leaf at `place`."""
        self._writer.write(self._key, payload)

    def finish(self) -> None:
        """Do nothing: the object is already written."""


class NewShard(NewObject):
    """A shard: payloads in order of arrival, the index last (or in space reserved for it)."""

    def __init__(self, writer: Writer, key: str, frame: Shards) -> None:
        self._writer = writer
        self._key = key
        self._frame = frame
        self._index = ShardIndex.empty(frame.chunks_per_shard)
        self._stream: ObjectStream | None = None
        self._parts: list[Buffer] = []
        self._held = 0
        at_start = frame.index.location == "start"
        self._reserve = frame.index.size(frame.chunks_per_shard) if at_start else 0
        self._offset = self._reserve

    def put(self, place: Place, payload: Buffer) -> None:
        """Add the payload of the leaf at `place`."""
        inner = tuple(a % b for a, b in zip(place, self._frame.chunks_per_shard, strict=True))
        size = len(payload) if isinstance(payload, bytes) else memory(payload).nbytes
        self._index.offsets[inner] = self._offset
        self._index.lengths[inner] = size
        self._offset += size
        self._parts.append(payload)
        self._held += size
        if self._held >= _HELD or len(self._parts) >= _MOST_HELD:
            self._write()

    def _write(self) -> None:
        if self._stream is None:
            self._stream = self._writer.stream(self._key, reserve=self._reserve)
        self._stream.append(self._parts)
        self._parts, self._held = [], 0

    def finish(self) -> None:
        """Write the index, unless there is no leaf."""
        if self._stream is None and not self._parts:
            return
        encoded = self._index.to_bytes(self._frame.index)
        if self._stream is None:
            parts = [encoded, *self._parts] if self._reserve else [*self._parts, encoded]
            self._writer.write(self._key, b"".join(map(memory, parts)))
            return
        if not self._reserve:
            self._parts.append(encoded)
        self._write()
        self._stream.finish(encoded if self._reserve else b"")

    def discard(self) -> None:
        """Discard what was written."""
        if self._stream is not None:
            self._stream.discard()
