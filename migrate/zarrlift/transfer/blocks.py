"""Blocks, the unit of work if the destination's objects do not correspond to the source's.

A block is a chunk of a separate grid with whole destination objects, which are written inner chunk by inner
chunk. If both sides have the same inner chunks, payloads are passed on one by one, and decoded only if their
codecs change: into shards, out of them, or between them. `regrid` assembles values instead.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from zarrstack.core.errors import ZarrstackError
from zarrstack.core.shard_index import ShardIndex

from ..archive.chunk_reader import versions_of
from ..archive.shard_reader import chunk_reader
from ..core.codecs.base import Buffer, memory
from ..core.grid.frames import Shards
from ..core.grid.grid import Grid
from ..core.grid.overlap import present_candidates, touching, within
from ..storage.base import Storage
from ..storage.giving_up import check
from ..storage.local.file_copy import IN_ONE_READ, ends_of_file, read_small
from ..storage.local.files import open_regular
from ..storage.local.storage import LocalStorage
from ..storage.local.writer import LocalWriter
from ..storage.versions import ListedVersions, Version, require_version
from ..storage.writer import DestinationError, Writer
from .recode import InnerChunkConversion
from .relink import MORE

if TYPE_CHECKING:
    from ..archive.chunk_inventory import Indexes
    from ..planning.routes import Move
    from ..storage.writer import ObjectStream
    from .counts import MoveCounts
    from .tasks import Task

Place: TypeAlias = tuple[int, ...]

_HELD: Final = 4 << 20
"""Bytes buffered before they are written, of a shard or of those that are built together."""
_MAX_HELD: Final = 1000
"""Number of payloads buffered; about the number that the kernel accepts in one call."""
_AT_ONCE: Final = 512
"""Maximum number of files between two writes."""
_MAX_BYTES: Final = 4 << 20
"""Maximum number of bytes between two writes, unless one file is larger."""


class Assembler(ABC):
    """Makes the destination objects of one array, block by block; shared between threads."""

    def __init__(self, move: Move, source: Storage, writer: Writer, *, recheck: bool) -> None:
        assert move.block_shape is not None
        self.move = move
        self.writer = writer
        self.chunks = chunk_reader(source, move.path, move.source, allow_pickle=move.values.allow_pickle)
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


def reshard(move: Move, source: Storage, writer: Writer, *, recheck: bool) -> PayloadAssembler:
    """Moves payloads into or out of shards, or from shards to other shards."""
    gathers = (
        move.route.name == "reframe"
        and move.source.chunk_shape != ()
        and move.source.frame is None
        and isinstance(move.destination.frame, Shards)
        and isinstance(source, LocalStorage)
        and isinstance(writer, LocalWriter)
    )
    return (FileGatherer if gathers else PayloadAssembler)(move, source, writer, recheck=recheck)


class PayloadAssembler(Assembler):
    """Passes on payloads one by one."""

    def __init__(self, move: Move, source: Storage, writer: Writer, *, recheck: bool) -> None:
        super().__init__(move, source, writer, recheck=recheck)
        self._grid = move.destination.grid

    def block(
        self, place: Place, present: Indexes, counts: MoveCounts, versions: ListedVersions | None
    ) -> None:
        target = self.open(place)
        start = counts.failures
        try:
            wanted = within(self.blocks.region(place), self.chunks.layout.grid)
            for key, chunk in self.chunks.read(present, counts, wanted=wanted, versions=versions):
                try:
                    changed = self.inner_chunk(chunk, counts)
                except (ZarrstackError, MemoryError) as error:
                    counts.failed(self.chunks.with_position(error, chunk.number), key)
                    continue
                counts.inner_chunk(chunk.size, 0 if changed is None else memory(changed).nbytes)
                if changed is None:
                    counts.dropped += 1
                    continue
                target.put(self._grid.coordinates(chunk.number), changed)
        except BaseException:
            target.discard()
            raise
        if counts.failures > start:
            target.discard()
        else:
            counts.objects += target.finish()


class FileGatherer(PayloadAssembler):
    """Combines files into shards at file system speed.

    If anything in a block is unusual (a missing file, an invalid payload), the whole block is passed to
    `PayloadAssembler`, which identifies and reports the cause.
    """

    def block(
        self, place: Place, present: Indexes, counts: MoveCounts, versions: ListedVersions | None
    ) -> None:
        frame = self.move.destination.frame
        assert isinstance(frame, Shards)
        source = self.chunks.storage
        assert isinstance(source, LocalStorage)
        if not len(present):
            return
        root = source.path("") + os.sep
        start = frame.index.size(frame.chunks_per_shard) if frame.index.location == "start" else 0
        stream = self.writer.stream(self.move.destination.key(self.move.path, place), reserve=start)
        payload_check = self.chunks.pipeline
        lengths: list[int] = []
        parts: list[Buffer] = []
        size = held = 0
        try:
            listed = versions_of(versions, present)
            for key, version in zip(self.chunks.keys(present), listed, strict=True):
                check()
                data = None
                # After a large file, the next one is probably large too.
                if size + MORE <= IN_ONE_READ:
                    data = read_small(root + key, size + MORE, version, payload_check)
                if data is None:
                    stream.append(parts)
                    parts, held = [], 0
                    size = self._append_file(root + key, version, stream)
                else:
                    size = memory(data).nbytes
                    self.chunks.bound.check(size)
                    parts.append(data)
                    held += size
                    if held >= _MAX_BYTES or len(parts) >= _AT_ONCE:
                        stream.append(parts)
                        parts, held = [], 0
                lengths.append(size)
            index = self._index(frame, place, present, lengths, start).to_bytes(frame.index)
            stream.append(parts if start else [*parts, index])
        except DestinationError:
            raise
        except (ZarrstackError, OSError, MemoryError):
            stream.discard()
            super().block(place, present, counts, versions)
            return
        except BaseException:
            stream.discard()
            raise
        stream.finish(index if start else b"")
        total = sum(lengths)
        counts.add(total, total, chunks=len(lengths))
        counts.objects += 1

    def _append_file(self, path: str, version: Version | None, stream: ObjectStream) -> int:
        """Append one large file without holding it in memory; returns its length there.

        OSError, ChunkError.
        """
        payload_check = self.chunks.pipeline
        descriptor, facts = open_regular(path)
        try:
            size = facts.st_size
            self.chunks.bound.check(size)
            if not payload_check.check(ends_of_file(descriptor, size)) or not stream.take(descriptor, size):
                data = payload_check.check_whole(os.read(descriptor, size))
                stream.append([data])
                size = memory(data).nbytes
            require_version(descriptor, version)
        finally:
            os.close(descriptor)
        return size

    def _index(
        self, frame: Shards, place: tuple[int, ...], present: Indexes, lengths: list[int], start: int
    ) -> ShardIndex:
        index = ShardIndex.empty(frame.chunks_per_shard)
        sizes = np.array(lengths, dtype=np.uint64)
        first = np.array(place, dtype=np.int64) * np.array(frame.chunks_per_shard, dtype=np.int64)
        inner = self.origins.coordinates_of(present) - first
        spots = tuple(inner.T)
        index.lengths[spots] = sizes
        index.offsets[spots] = np.cumsum(sizes) - sizes + np.uint64(start)
        return index
