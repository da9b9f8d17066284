"""The route `reframe` (and `recode`, `rewrite`) if shards are made, split or regrouped.

Both sides have the same inner chunks, so payloads are passed on one by one, and decoded only if their codecs
change.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import numpy as np

from zarrstack.core.errors import ZarrstackError
from zarrstack.core.shard_index import ShardIndex

from ..core.codecs.base import Buffer, memory
from ..core.grid.frames import Shards
from ..storage.giving_up import check
from ..storage.local.file_copy import IN_ONE_READ, ends_of_file, read_small
from ..storage.local.files import open_regular
from ..storage.local.storage import LocalStorage
from ..storage.local.writer import LocalWriter
from ..storage.versions import ListedVersions, Version, require_version
from ..storage.writer import DestinationError, Writer
from .blocks import Assembler, Place
from .relink import MORE
from .stored_chunks import versions_of

if TYPE_CHECKING:
    from ..archive.chunk_inventory import Indexes
    from ..planning.routes import Move
    from ..storage.base import Storage
    from ..storage.writer import ObjectStream
    from .counts import MoveCounts

_AT_ONCE: Final = 512
"""Maximum number of files between two writes."""
_MAX_BYTES: Final = 4 << 20
"""Maximum number of bytes between two writes, unless one file is larger."""


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
            region = self.blocks.region(place)
            for key, chunk in self.chunks.read(present, counts, region=region, versions=versions):
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
