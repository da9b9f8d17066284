"""Combines many files of one leaf each into shards with the same payloads, at file system speed.

If anything in a block is unusual (a missing file, an invalid payload), the whole block is passed to
`Payloads`, which identifies and reports the cause.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import numpy as np

from zarrstack.core.codecs.base import Ends
from zarrstack.core.errors import ZarrstackError
from zarrstack.core.grid.frames import Shards
from zarrstack.core.grid.shard_index import ShardIndex

from ..storage.listed_versions import Version, held_each, require_version
from ..storage.local.file_copy import IN_ONE_READ, ends_of_file
from ..storage.local.files import READING, open_regular
from ..storage.local.storage import LocalStorage
from ..storage.local.writer import LocalWriter
from ..storage.writer import DestinationError, Writer
from .regrid import Payloads
from .shard_reader import object_keys

if TYPE_CHECKING:
    from ..archive.chunk_inventory import Indexes
    from ..planning.plans import Move
    from ..storage.base import Storage
    from ..storage.object_stream import ObjectStream
    from .counts import Counts

_AT_ONCE: Final = 512
"""Maximum number of files between two writes."""
_MOST_BYTES: Final = 4 << 20
"""Maximum number of bytes between two writes, unless one file is larger."""
_MORE: Final = 1024
"""Maximum expected growth from one file to the next in bytes; a single read then suffices."""


def gathers(move: Move, source: Storage, writer: Writer) -> bool:
    """Whether payloads move unchanged from files into shards."""
    return (
        move.block_shape is not None
        and move.source.chunk_shape != ()
        and isinstance(source, LocalStorage)
        and isinstance(writer, LocalWriter)
        and move.source.frame is None
        and isinstance(move.destination.frame, Shards)
        and move.route.name == "reframe"
    )


class Gathered(Payloads):
    """`Payloads` for the moves that `gathers` accepts."""

    def block(self, place: tuple[int, ...], present: Indexes, counts: Counts) -> None:
        """Make one shard."""
        frame = self.move.destination.frame
        assert isinstance(frame, Shards)
        assert isinstance(self.source, LocalStorage)
        if not len(present):
            return
        root = self.source.path("") + os.sep
        keys = object_keys(self.move.source, self.move.path, present)
        versions = held_each(self.source, present)
        files = [(root + key, version) for key, version in zip(keys, versions, strict=True)]
        start = frame.index.size(frame.chunks_per_shard) if frame.index.location == "start" else 0
        key = self.move.destination.key(self.move.path, place)
        stream = self.writer.stream(key, reserve=start)
        lengths: list[int] = []
        try:
            while len(lengths) < len(files):
                if lengths and lengths[-1] > IN_ONE_READ:
                    lengths.append(self._carry(*files[len(lengths)], stream))
                    continue
                parts = self._read(files, len(lengths))
                lengths += map(len, parts)
                stream.append(parts)
            index = self._index(frame, place, present, lengths, start).to_bytes(frame.index)
            if not start:
                stream.append([index])
        except DestinationError:
            raise
        except (ZarrstackError, OSError, MemoryError):
            stream.discard()
            super().block(place, present, counts)
            return
        except BaseException:
            stream.discard()
            raise
        stream.finish(index if start else b"")
        counts.add_many(len(lengths), sum(lengths))

    def _read(self, files: list[tuple[str, Version | None]], at: int) -> list[bytes]:
        """Read some files from `at` on; OSError and ChunkError for the first invalid one."""
        look = self.leaf.reader
        check, check_whole, bound = look.check, look.check_whole, self.bound
        open_, read, close, ends = os.open, os.read, os.close, Ends.of
        parts: list[bytes] = []
        size, hint = 0, _MORE
        for path, version in files[at : at + _AT_ONCE]:
            descriptor = open_(path, READING)
            try:
                data = read(descriptor, hint)
                while len(data) >= hint:
                    bound.check(hint)
                    hint *= 4
                    data += read(descriptor, hint - len(data))
                require_version(descriptor, version)
            finally:
                close(descriptor)
            if not check(ends(data)):
                check_whole(data)
            parts.append(data)
            size += len(data)
            if size >= _MOST_BYTES:
                break
            hint = len(data) + _MORE
        return parts

    def _carry(self, path: str, version: Version | None, stream: ObjectStream) -> int:
        """Copy one large file without holding it in memory; returns its size, raises as `_read` does."""
        look = self.leaf.reader
        descriptor, facts = open_regular(path)
        try:
            size = facts.st_size
            self.bound.check(size)
            if not look.check(ends_of_file(descriptor, size)) or not stream.take(descriptor, size):
                data = os.read(descriptor, size)
                look.check_whole(data)
                stream.append([data])
                size = len(data)
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
        inner = self.move.source.objects.coordinates_of(present) - first
        spots = tuple(inner.T)
        index.lengths[spots] = sizes
        index.offsets[spots] = np.cumsum(sizes) - sizes + np.uint64(start)
        return index
