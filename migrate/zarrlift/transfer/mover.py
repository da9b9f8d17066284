"""Runs one task: reads leaf chunks of an array, makes the necessary changes, writes them.

A task is safe to repeat, so a thread, a process or a worker on another machine can run it, and run it again
after a kill. All bad chunks of a task are reported. An error of the destination ends the task at once, since
it would affect the other chunks too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import repeat
from math import prod
from typing import TYPE_CHECKING, Final

from zarrstack.core.codecs.base import Buffer, memory
from zarrstack.core.errors import ZarrstackError

from ..archive.chunk_inventory import Indexes
from ..archive.decoder import object_bound
from ..planning.plans import Move
from ..storage.base import Storage
from ..storage.listed_versions import Version, holding
from ..storage.local.storage import LocalStorage
from ..storage.local.writer import LocalWriter
from ..storage.writer import Writer
from .counts import Counts, Moved
from .recode import change_for, look_at
from .reframe_files import Gathered, gathers
from .regrid import assembler_for
from .relink import carry_files, copy_files
from .shard_reader import object_keys, read_objects
from .tasks import Task

if TYPE_CHECKING:
    from .relink_server_side import ServerCopy

_BATCH: Final = 64
"""Number of objects that a store is requested to copy together."""


class Mover:
    """Moves chunks of one array; compiled once, shared between the threads of a process."""

    def __init__(
        self, move: Move, source: Storage, writer: Writer, *, hard_links: bool = False, recheck: bool = True
    ) -> None:
        self.move = move
        self.source = source
        self.writer = writer
        self.hard_links = hard_links
        self._copy: ServerCopy | None = None
        self._assembler = (
            Gathered(move, source, writer, recheck=recheck)
            if gathers(move, source, writer)
            else assembler_for(move, source, writer, recheck=recheck)
        )
        if self._assembler is not None:
            return
        self._change = change_for(move, recheck=recheck)
        if self._change is not None:
            return
        self._look = look_at(move)
        if not isinstance(writer, LocalWriter):
            from .relink_server_side import server_copy  # files do not need asyncio

            self._copy = server_copy(source, writer.storage)

    def __call__(self, task: Task, counts: Counts) -> Moved:
        """Move the task's chunks and count them; raises DestinationError, other errors are in `problems`."""
        with self.writer.behind():
            self._run(task, counts)
        self.writer.settle()
        return counts.moved()

    def _run(self, task: Task, counts: Counts) -> None:
        if self._assembler is not None:
            assert task.sources is not None
            keys = partial(object_keys, self.move.source, self.move.path, task.sources)
            with holding(self.source, task.held(keys)):
                self._assembler(task, counts)
        elif (
            self._change is None
            and isinstance(self.source, LocalStorage)
            and isinstance(self.writer, LocalWriter)
        ):
            self._files(task, self.source, self.writer, counts)
        elif self._copy is not None:
            self._within(task, self._copy, counts)
        else:
            self._payloads(task, counts)

    def _keys(self, indexes: Indexes) -> Iterator[tuple[int, str, str]]:
        """(linear index, source key, destination key) of each chunk."""
        source, destination = self.move.source, self.move.destination
        coordinates = source.objects.coordinates_of(indexes)
        old, new = source.keys.keys(coordinates), destination.keys.keys(coordinates)
        place, target = source.prefix(self.move.path), destination.prefix(self.move.path)
        for index, before, after in zip(indexes.tolist(), old, new, strict=True):
            yield index, place + before, target + after

    def _files(self, task: Task, source: LocalStorage, writer: LocalWriter, counts: Counts) -> None:
        """Copy unchanged payloads from file to file."""
        versions: Iterable[Version | None] = repeat(None)
        if task.versions is not None:
            versions = zip(*(each.tolist() for each in task.versions), strict=True)
        names = (
            (before, after, version)
            for (_, before, after), version in zip(self._keys(task.indexes), versions, strict=False)
        )
        if self.hard_links or writer.fsync:
            carry = writer.link if self.hard_links else writer.copy
            carry_files(names, source, carry, self._look, counts)
        else:
            copy_files(names, source, writer, self._look, counts)

    def _within(self, task: Task, copy: ServerCopy, counts: Counts) -> None:
        """Copy unchanged payloads within one object store."""
        keys = [(before, after) for _, before, after in self._keys(task.indexes)]
        for start in range(0, len(keys), _BATCH):
            part = keys[start : start + _BATCH]
            for (before, _), carried in zip(part, copy(part, self._look), strict=True):
                if isinstance(carried, int):
                    counts.add(carried, carried)
                elif carried is not None:
                    counts.failed(carried, before)
                else:
                    counts.missing(before)

    def _payloads(self, task: Task, counts: Counts) -> None:
        """Move payloads through memory."""
        source = self.move.source
        each = prod(source.object_shape) * (source.data_type.itemsize or 1)
        names = list(self._keys(task.indexes))
        keys = [before for _, before, _ in names]
        with holding(self.source, task.held(lambda: keys)):
            self._read(
                names, read_objects(self.source, keys, counts, object_bound(source), each=each), counts
            )

    def _read(
        self, names: list[tuple[int, str, str]], payloads: Iterator[bytes | None], counts: Counts
    ) -> None:
        for (index, before, after), payload in zip(names, payloads, strict=True):
            if payload is None:
                counts.missing(before)
                continue
            try:
                result = self._changed(index, payload, counts)
            except (ZarrstackError, MemoryError) as error:
                counts.failed(error, before)
                continue
            if result is None:
                counts.drop(len(payload))
                continue
            self.writer.write(after, result)
            counts.add(len(payload), memory(result).nbytes)

    def _changed(self, index: int, payload: bytes, counts: Counts) -> Buffer | None:
        if self._change is None:
            self._look.check_whole(payload)
            return payload
        return self._change(index, payload, counts.tally)
