"""Blocks, the unit of work if the destination's objects do not correspond to the source's.

A block is a chunk of a separate grid with whole destination objects, which are written inner chunk by inner
chunk.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from zarrstack.core.codecs.base import Buffer, memory
from zarrstack.core.errors import ZarrstackError
from zarrstack.core.grid.frames import Shards
from zarrstack.core.grid.grid import Grid
from zarrstack.core.grid.overlap import touching
from zarrstack.core.grid.shard_index import ShardIndex

from ..storage.base import Storage
from ..storage.listed_versions import holding
from ..storage.writer import Writer
from .object_keys import ObjectKeys
from .objects import ObjectReader
from .recode import InnerChunkConversion
from .shard_reader import MissingShard, ShardReader, present_candidates

if TYPE_CHECKING:
    from ..archive.chunk_inventory import Indexes
    from ..planning.move import Move
    from ..storage.object_stream import ObjectStream
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
        self.source = source
        self.blocks = Grid(move.source.shape, move.block_shape)
        self.origins = move.source.objects
        self.targets = move.destination.objects
        self._origin_keys = ObjectKeys(move.source, move.path)
        self.target_keys = ObjectKeys(move.destination, move.path)
        self.inner_chunk = InnerChunkConversion(move, recheck=recheck)
        self.reader = ObjectReader(source, move.source, self.inner_chunk.reader)
        """Reads the objects of a source without shards."""
        self.shards: ShardReader | None = None
        if isinstance(move.source.frame, Shards):
            self.shards = ShardReader(source, move.path, move.source)

    def __call__(self, task: Task, counts: MoveCounts) -> None:
        """Make every object of the task's blocks; problems are recorded in `counts`. DestinationError."""
        assert task.sources is not None
        with holding(self.source, task.held(partial(self.keys, task.sources))):
            for number in task.indexes.tolist():
                place = self.blocks.coordinates(number)
                present = present_candidates(touching(place, self.blocks, self.origins), task.sources)
                self.block(place, present, counts)

    @abstractmethod
    def block(self, place: Place, present: Indexes, counts: MoveCounts) -> None:
        """Make the objects of one block from the existing source objects."""

    def keys(self, indexes: Indexes) -> list[str]:
        """The keys of source objects with these linear indexes."""
        return self._origin_keys(self.origins.coordinates_of(indexes))

    def open(self, place: Place, *, together: int = 1) -> ObjectBuilder:
        """A new, empty object at a position in the destination's grid; its inner chunks are added singly.

        It is one of `together` objects that are built at the same time, which share the memory of one.
        """
        key, frame = self.target_keys.at(place), self.move.destination.frame
        return (
            ShardBuilder(self.writer, key, frame, held=_HELD // together)
            if isinstance(frame, Shards)
            else InnerChunkBuilder(self.writer, key)
        )

    def inner_chunks_of(
        self, shards: ShardReader, number: int, wanted: Indexes, counts: MoveCounts, *, again: bool = False
    ) -> Iterator[tuple[int, Buffer]]:
        """Yield (inner chunk, payload) of one shard; a missing or damaged shard is recorded in `counts`.

        A shard that is opened `again` is not counted twice.
        """
        try:
            yield from shards.inner_chunks(number, wanted)
        except MissingShard:
            counts.missing(shards.key(number))
        except (ZarrstackError, MemoryError) as error:
            counts.failed(error, shards.key(number))
        else:
            counts.chunks += not again


class ObjectBuilder(ABC):
    """An object of the destination that is being written."""

    @abstractmethod
    def put(self, place: Place, payload: Buffer) -> None:
        """Add the payload of an inner chunk, by its position in their grid; DestinationError."""

    @abstractmethod
    def finish(self) -> None:
        """Publish the object, unless it is empty; DestinationError."""

    def discard(self) -> None:  # noqa: B027 - most have nothing to take back
        """Discard the object."""


class InnerChunkBuilder(ObjectBuilder):
    """An object that is the payload of one inner chunk."""

    def __init__(self, writer: Writer, key: str) -> None:
        self._writer = writer
        self._key = key

    def put(self, place: Place, payload: Buffer) -> None:
        """Write the payload of the inner chunk at `place`."""
        self._writer.write(self._key, payload)

    def finish(self) -> None:
        """Do nothing: the object is already written."""


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
        """Add the payload of the inner chunk at `place`."""
        inner = tuple(a % b for a, b in zip(place, self._frame.chunks_per_shard, strict=True))
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

    def finish(self) -> None:
        """Write the index, unless there is no inner chunk."""
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
