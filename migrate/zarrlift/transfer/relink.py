"""The routes `relink` and `pass`: objects keep their bytes, and get other keys or another location.

On `pass`, nothing is known of the objects: they are not checked, and copied in pieces.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from zarrstack.core.errors import ZarrstackError
from zarrstack.core.shard_index import ShardIndex

from ..archive.chunk_reader import ChunkReader, versions_of
from ..archive.shard_reader import chunk_reader, inside_shard
from ..core.codecs.base import OBJECT_LIMIT, Buffer, HeadAndTail, memory
from ..core.grid.frames import Shards
from ..storage.local.file_copy import IN_ONE_READ, read_small
from ..storage.local.new_directories import writing
from ..storage.local.storage import LocalStorage
from ..storage.local.writer import LocalWriter
from ..storage.writer import DestinationError, PayloadCheck, Writer
from .extra_files import copy_file
from .reframe import Objects

if TYPE_CHECKING:
    from ..planning.routes import Move
    from ..storage.base import Storage
    from .counts import MoveCounts
    from .reframe import Mover
    from .relink_server_side import ServerCopy
    from .tasks import Task

Keys: TypeAlias = "Callable[[Task], Iterator[tuple[str, str]]]"
"""The keys of a task's objects in the source and in the destination."""

MORE: Final = 1024
"""Maximum expected growth from one file to the next in bytes; a single read then suffices."""


def relink(move: Move, source: Storage, writer: Writer, *, hard_links: bool) -> Mover:
    """Moves unchanged objects: from file to file, within one store, or through memory."""
    chunks = chunk_reader(source, move.path, move.source, allow_pickle=move.values.allow_pickle)
    check: PayloadCheck = Unchecked() if move.source.opaque else payload_check(chunks)
    objects = move.source.objects

    def keys(task: Task) -> Iterator[tuple[str, str]]:
        places = objects.coordinates_of(task.indexes)
        return zip(
            move.source.object_keys(move.path, places),
            move.destination.object_keys(move.path, places),
            strict=True,
        )

    if isinstance(source, LocalStorage) and isinstance(writer, LocalWriter):
        return partial(_files, keys, source, writer, check, hard_links)
    if not isinstance(writer, LocalWriter):
        from .relink_server_side import server_copy  # files do not need asyncio

        copy = server_copy(source, writer.storage)
        if copy is not None:
            return partial(_within_store, keys, copy, check)
    if move.source.opaque:
        return partial(_in_pieces, keys, source, writer)
    return Objects(move, chunks, writer, lambda _, data, __: check.check_whole(data))


def _files(
    keys: Keys,
    source: LocalStorage,
    writer: LocalWriter,
    payload_check: PayloadCheck,
    hard_links: bool,
    task: Task,
    counts: MoveCounts,
) -> None:
    """Copy or link files after `payload_check` has checked each."""
    root = source.path("") + os.sep  # Windows accepts both separators
    versions = versions_of(task.versions, task.indexes)
    size: int | None = 0
    with writing(writer) as write:
        for (key, target), version in zip(keys(task), versions, strict=True):
            path = root + key
            try:
                # After a large file, the next one is probably large too.
                expected = (size or 0) + MORE
                data = None
                if not hard_links and expected <= IN_ONE_READ:
                    data = read_small(path, expected, version, payload_check)
                if data is not None:
                    size = memory(data).nbytes
                    write(target, data)
                else:
                    carry = writer.link if hard_links else writer.copy
                    size = carry(path, target, payload_check, version)
            except DestinationError:
                raise
            except (ZarrstackError, OSError, MemoryError) as error:
                counts.failed(error, key)
                continue
            counts.copied(key, size)


def _within_store(
    keys: Keys, copy: ServerCopy, payload_check: PayloadCheck, task: Task, counts: MoveCounts
) -> None:
    """Have a store copy its objects."""
    from .relink_server_side import AT_ONCE

    pairs = list(keys(task))
    versions = versions_of(task.versions, task.indexes)
    for start in range(0, len(pairs), AT_ONCE):
        part = pairs[start : start + AT_ONCE]
        results = copy(part, payload_check, versions[start : start + AT_ONCE])
        for (key, _), carried in zip(part, results, strict=True):
            if carried is None or isinstance(carried, int):
                counts.copied(key, carried)
            else:
                counts.failed(carried, key)


def _in_pieces(keys: Keys, source: Storage, writer: Writer, task: Task, counts: MoveCounts) -> None:
    """Copy objects of any size through memory."""
    for (key, _), version in zip(keys(task), versions_of(task.versions, task.indexes), strict=True):
        try:
            size = copy_file(source, writer, key, version=version)
        except DestinationError:
            raise
        except (ZarrstackError, MemoryError) as error:
            counts.failed(error, key)
            continue
        counts.copied(key, size)


class Unchecked:
    """The check of objects of which nothing is known."""

    most_stored = OBJECT_LIMIT

    def check(self, ends: HeadAndTail) -> bool:
        """Accept any object."""
        return True

    def check_whole(self, data: Buffer) -> Buffer:
        """Accept any object."""
        return data


def payload_check(source: ChunkReader) -> PayloadCheck:
    """The check of objects that move unchanged, up to the end that headers of their payloads state."""
    return _ShardCheck(source) if isinstance(source.layout.frame, Shards) else source.pipeline


class _ShardCheck:
    """Checks shards that move unchanged: the index, and the ends of every payload."""

    def __init__(self, source: ChunkReader) -> None:
        assert isinstance(source.layout.frame, Shards)
        self._frame = source.layout.frame
        self._inner_chunk = source.pipeline
        self.most_stored = source.bound.most

    def check(self, ends: HeadAndTail) -> bool:
        self._frame.index.place(self._frame.chunks_per_shard, ends.length)
        return False

    def check_whole(self, data: Buffer) -> Buffer:
        view = memory(data)
        surplus = 0
        payloads: list[tuple[tuple[int, ...], Buffer]] = []
        for inner, place in _in_stored_order(self._frame.index_of(view)):
            try:
                payload = self._inner_chunk.check_whole(view[place])
            except ZarrstackError as error:
                if (positioned := inside_shard(error, inner)) is error:
                    raise
                raise positioned from error
            surplus += place.stop - place.start - memory(payload).nbytes
            payloads.append((inner, payload))
        return self._frame.packed(payloads) if surplus else data


def _in_stored_order(index: ShardIndex) -> list[tuple[tuple[int, ...], slice]]:
    """(position in the shard, bytes) of every existing inner chunk, in stored order."""
    stored = np.flatnonzero(index.present)
    order = stored[np.argsort(index.offsets.ravel()[stored], kind="stable")]
    result = []
    for flat in order.tolist():
        inner = tuple(map(int, np.unravel_index(flat, index.offsets.shape)))
        place = index.get(inner)
        assert place is not None
        result.append((inner, place))
    return result
