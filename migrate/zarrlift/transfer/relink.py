"""The route `relink`: objects keep their bytes, and get other keys or another location."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Final, TypeAlias

from zarrstack.core.codecs.base import Buffer, HeadAndTail, memory
from zarrstack.core.codecs.pipeline import Pipeline
from zarrstack.core.errors import ZarrstackError
from zarrstack.core.grid.frames import Shards

from ..storage.listed_versions import Version, holding
from ..storage.local.file_copy import IN_ONE_READ, read_small
from ..storage.local.new_directories import writing
from ..storage.local.storage import LocalStorage
from ..storage.local.writer import LocalWriter
from ..storage.writer import DestinationError, PayloadCheck, Writer
from .object_keys import ObjectKeys
from .objects import ObjectConversion, Objects
from .shard_reader import in_stored_order, inside_shard, packed, read_index

if TYPE_CHECKING:
    from ..planning.move import Move
    from ..storage.base import Storage
    from .counts import MoveCounts
    from .objects import Mover
    from .relink_server_side import ServerCopy
    from .tasks import Task

Keys: TypeAlias = "Callable[[Task], Iterator[tuple[str, str]]]"
"""The keys of a task's objects in the source and in the destination."""

MORE: Final = 1024
"""Maximum expected growth from one file to the next in bytes; a single read then suffices."""
_BATCH: Final = 64
"""Number of objects that a store is requested to copy together."""


def relink(move: Move, source: Storage, writer: Writer, *, hard_links: bool) -> Mover:
    """Moves unchanged objects: from file to file, within one store, or through memory."""
    unchanged = Unchanged(move)
    objects = move.source.objects
    source_keys, target_keys = ObjectKeys(move.source, move.path), ObjectKeys(move.destination, move.path)

    def keys(task: Task) -> Iterator[tuple[str, str]]:
        places = objects.coordinates_of(task.indexes)
        return zip(source_keys(places), target_keys(places), strict=True)

    if isinstance(source, LocalStorage) and isinstance(writer, LocalWriter):
        return partial(_files, keys, source, writer, unchanged.payload_check, hard_links)
    if not isinstance(writer, LocalWriter):
        from .relink_server_side import server_copy  # files do not need asyncio

        copy = server_copy(source, writer.storage)
        if copy is not None:
            return partial(_within_store, keys, copy, unchanged.payload_check)
    return Objects(move, source, writer, unchanged)


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
    versions: Iterable[Version | None] = repeat(None)
    if task.versions is not None:
        versions = zip(*(each.tolist() for each in task.versions), strict=True)
    size: int | None = 0
    with writing(writer) as write:
        for (key, target), version in zip(keys(task), versions, strict=False):
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
            if size is None:
                counts.missing(key)
            else:
                counts.add(size, size)


def _within_store(
    keys: Keys, copy: ServerCopy, payload_check: PayloadCheck, task: Task, counts: MoveCounts
) -> None:
    """Have a store copy its objects."""
    pairs = list(keys(task))
    versions = task.held(lambda: [key for key, _ in pairs])
    for start in range(0, len(pairs), _BATCH):
        part = pairs[start : start + _BATCH]
        with holding(copy.source, versions):
            results = copy(part, payload_check)
        for (key, _), carried in zip(part, results, strict=True):
            if isinstance(carried, int):
                counts.add(carried, carried)
            elif carried is not None:
                counts.failed(carried, key)
            else:
                counts.missing(key)


class Unchanged(ObjectConversion):
    """Checks objects, which keep their bytes up to the end that headers of payloads state."""

    def __init__(self, move: Move) -> None:
        source = move.source
        self.reader = Pipeline(
            source.chain, source.chunk_shape, source.data_type, allow_pickle=move.allow_pickle
        )
        self.payload_check: PayloadCheck = self.reader
        if isinstance(source.frame, Shards):
            self.payload_check = _ShardCheck(source.frame, self.reader)

    def __call__(self, index: int, data: bytes, counts: MoveCounts) -> Buffer:
        """The same bytes, after the check."""
        return self.payload_check.check_whole(data)


class _ShardCheck:
    """Checks shards that move unchanged: the index, and the ends of every payload."""

    def __init__(self, frame: Shards, inner_chunk: Pipeline) -> None:
        self._frame = frame
        self._inner_chunk = inner_chunk

    @property
    def most_stored(self) -> int:
        """Maximum size of a shard in bytes."""
        frame = self._frame
        return self._inner_chunk.most_stored * frame.inner_chunks + frame.index.size(frame.chunks_per_shard)

    def check(self, ends: HeadAndTail) -> bool:
        self._frame.index.place(self._frame.chunks_per_shard, ends.length)
        return False

    def check_whole(self, data: Buffer) -> Buffer:
        view = memory(data)
        surplus = 0
        payloads: list[tuple[tuple[int, ...], Buffer]] = []
        for inner, place in in_stored_order(read_index(data, self._frame)):
            try:
                payload = self._inner_chunk.check_whole(view[place])
            except ZarrstackError as error:
                raise inside_shard(error, inner) from error
            surplus += place.stop - place.start - memory(payload).nbytes
            payloads.append((inner, payload))
        return packed(self._frame, payloads) if surplus else data
