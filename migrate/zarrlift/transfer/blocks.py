"""Blocks, the unit of work if the destination's objects do not correspond to the source's.

A block is a chunk of a separate grid with whole destination objects, which are written inner chunk by inner
chunk.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final, TypeAlias

from zarrstack.core.shard_index import ShardIndex

from ..core.codecs.base import Buffer, memory
from ..core.grid.frames import Shards
from ..core.grid.grid import Grid
from ..core.grid.overlap import touching
from ..storage.base import Storage
from ..storage.writer import Writer
from .inner_chunks import inner_chunks
from .recode import InnerChunkConversion
from .shard_reader import present_candidates

if TYPE_CHECKING:
    from ..archive.chunk_inventory import Indexes
    from ..planning.routes import Move
    from ..storage.versions import ListedVersions
    from ..storage.writer import ObjectStream
    from .counts import MoveCounts
    from .tasks import Task

Place: TypeAlias = tuple[int, ...]

_HELD: Final = 4 << 20
"""Bytes buffered before they are written, of a shard or of those that are built together."""
_MAX_HELD: Final = 1000
"""Number of payloads buffered; about the number that the kernel accepts in one call."""


class Assembler(ABC):
    """Makes the destination objects of one array, block by block; shared between threads."""

    def __init__(self, move: Move, source: Storage, writer: Writer, *, recheck: bool) -> None:
        assert move.block_shape is not None
        self.move = move
        self.writer = writer
        self.chunks = inner_chunks(source, move.path, move.source, allow_pickle=move.allow_pickle)
        self.inner_chunk = InnerChunkConversion(move, self.chunks, recheck=recheck)
        self.blocks = Grid(move.source.shape, move.block_shape)
        self.origins = move.source.objects
        self.targets = move.destination.objects

    def __call__(self, task: Task, counts: MoveCounts) -> None:
        """Make every object of the task's blocks; problems are recorded in `counts`. DestinationError."""
        assert task.sources is not None
        for number in task.indexes.tolist():
            place = self.blocks.coordinates(number)
            present = present_candidates(touching(place, self.blocks, self.origins), task.sources)
            self.block(place, present, counts, task.versions)

    @abstractmethod
    def block(
        self, place: Place, present: Indexes, counts: MoveCounts, versions: ListedVersions | None
    ) -> None:
        """Make the objects of one block from the existing source objects, of these versions."""

    def open(self, place: Place, *, together: int = 1) -> ObjectBuilder:
        """A new, empty shard at a position in the destination's grid, or objects of single inner chunks.

        It is one of `together` shards that are built at the same time, which share the memory of one.
        """
        target = self.move.destination
        if not isinstance(target.frame, Shards):
            return PayloadWriter(self.writer, self.move)
        key = target.key(self.move.path, place)
        return ShardBuilder(self.writer, key, target.frame, held=_HELD // together)


class ObjectBuilder(ABC):
    """A shard, or objects of single inner chunks, of the destination."""

    @abstractmethod
    def put(self, place: Place, payload: Buffer) -> None:
        """Add the payload of an inner chunk, by its position in their grid; DestinationError."""

    @abstractmethod
    def finish(self) -> int:
        """Publish the object, unless it is empty; the number of objects written. DestinationError."""

    def discard(self) -> None:  # noqa: B027 - most have nothing to take back
        """Discard the object."""


class PayloadWriter(ObjectBuilder):
    """Objects that are the payload of one inner chunk each."""

    def __init__(self, writer: Writer, move: Move) -> None:
        self._writer = writer
        self._move = move
        self._written = 0

    def put(self, place: Place, payload: Buffer) -> None:
        self._written += 1
        self._writer.write(self._move.destination.key(self._move.path, place), payload)

    def finish(self) -> int:
        """Their number: they are already written, and an array with failures is not published."""
        return self._written


class ShardBuilder(ObjectBuilder):
    """A shard: payloads in order of arrival, the index last (or in space reserved for it)."""

    def __init__(self, writer: Writer, key: str, frame: Shards, *, held: int = _HELD) -> None:
        """`held`: number of bytes from which payloads are written together."""
        self._writer = writer
        self._key = key
        self._frame = frame
        self._most = held
        self._index = ShardIndex.empty(frame.chunks_per_shard)
        self._stream: ObjectStream | None = None
        self._parts: list[Buffer] = []
        self._held = 0
        at_start = frame.index.location == "start"
        self._reserve = frame.index.size(frame.chunks_per_shard) if at_start else 0
        self._offset = self._reserve

    def put(self, place: Place, payload: Buffer) -> None:
        inner = self._frame.inner(place)
        size = len(payload) if isinstance(payload, bytes) else memory(payload).nbytes
        self._index.offsets[inner] = self._offset
        self._index.lengths[inner] = size
        self._offset += size
        self._parts.append(payload)
        self._held += size
        if self._held >= self._most or len(self._parts) >= _MAX_HELD:
            self._write()

    def _write(self) -> None:
        if self._stream is None:
            self._stream = self._writer.stream(self._key, reserve=self._reserve)
        self._stream.append(self._parts)
        self._parts, self._held = [], 0

    def finish(self) -> int:
        """Write the index, unless there is no inner chunk."""
        if self._stream is None and not self._parts:
            return 0
        encoded = self._index.to_bytes(self._frame.index)
        if self._stream is None:
            parts = [encoded, *self._parts] if self._reserve else [*self._parts, encoded]
            self._writer.write(self._key, b"".join(map(memory, parts)))
            return 1
        if not self._reserve:
            self._parts.append(encoded)
        self._write()
        self._stream.finish(encoded if self._reserve else b"")
        return 1

    def discard(self) -> None:
        if self._stream is not None:
            self._stream.discard()
