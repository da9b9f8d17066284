"""One task: read leaf chunks of an array, change what differs, write them.

`move` is a function of its arguments, safe to repeat and picklable, so that a thread, a
process or a worker on another machine runs it alike. Every bad chunk of a task is
reported, not only the first; what is wrong with the destination ends the task at once,
since no other chunk will fare better.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from zarrstack.core.codecs.base import Buffer, memory
from zarrstack.core.errors import ChunkError, Problem, ZarrstackError

from .changing import Tally, change_for, look_at
from .inventory import Indexes
from .plans import Move
from .storage import LocalStorage, Storage, storage_error
from .writing import DestinationError, LocalWriter, StoreWriter, Writer

if TYPE_CHECKING:
    from .server_copy import ServerCopy

_MOST_PROBLEMS: Final = 100
"""Problems reported of one task; a thousand bad chunks are as clear as a hundred."""
_BATCH: Final = 64
"""Objects of a remote store fetched and put together."""
_BATCH_BYTES: Final = 32 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Some chunks of one array."""

    move: Move
    number: int
    indexes: Indexes
    """Linear indexes of the chunks to move, ascending."""
    certain: bool = True
    """Whether every one of them is known to exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """What a task did."""

    chunks: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    dropped: int = 0
    """Chunks left out since they held nothing but fill value."""
    filled: int = 0
    """N5 blocks shorter than their cell, which were decoded to be filled up."""
    problems: tuple[Problem, ...] = ()

    def figures(self) -> dict[str, int]:
        """Everything but the problems."""
        return {name: getattr(self, name) for name in self.__slots__ if name != "problems"}

    def plus(self, other: Moved) -> Moved:
        """The figures of both."""
        mine, theirs = self.figures(), other.figures()
        return Moved(**{name: mine[name] + theirs[name] for name in mine})


class Mover:
    """Moves chunks of one array; compiled once, shared between the threads of a process."""

    def __init__(
        self, move: Move, source: Storage, writer: Writer, *, hard_links: bool = False, recheck: bool = True
    ) -> None:
        self.move = move
        self.source = source
        self.writer = writer
        self.hard_links = hard_links
        self._change = change_for(move, recheck=recheck)
        self._look = look_at(move)
        self._copy: ServerCopy | None = None
        if self._change is None and isinstance(writer, StoreWriter):
            from .server_copy import server_copy  # asyncio is not for files

            self._copy = server_copy(source, writer.storage)

    def __call__(self, task: Task) -> Moved:
        """Move the task's chunks; raises DestinationError, everything else is in `problems`."""
        if (
            self._change is None
            and isinstance(self.source, LocalStorage)
            and isinstance(self.writer, LocalWriter)
        ):
            moved = self._files(task, self.source, self.writer)
        elif self._copy is not None:
            moved = self._within(task, self._copy)
        else:
            moved = self._payloads(task)
        self.writer.settle()
        return moved

    def _keys(self, indexes: Indexes) -> Iterator[tuple[int, str, str]]:
        """(linear index, source key, destination key) of each chunk."""
        source, destination = self.move.source, self.move.destination
        coordinates = source.objects.coordinates_of(indexes)
        old, new = source.keys.keys(coordinates), destination.keys.keys(coordinates)
        place, target = source.prefix(self.move.path), destination.prefix(self.move.path)
        for index, before, after in zip(indexes.tolist(), old, new, strict=True):
            yield index, place + before, target + after

    def _files(self, task: Task, source: LocalStorage, writer: LocalWriter) -> Moved:
        """Payloads that stay as they are, from file to file."""
        counts = _Counts()
        look = self._look
        carry = writer.link if self.hard_links else writer.copy
        root = source.path("") + os.sep  # our own keys need no look at whether they leave it
        for _, before, after in self._keys(task.indexes):
            try:
                size = carry(root + before, after, look)
                if size is None:
                    if task.certain:
                        raise _vanished()
                    continue
                counts.add(size, size)
            except DestinationError:
                raise
            except OSError as error:
                counts.problem(storage_error("cannot read", before, error), self.move.path, before)
            except MemoryError:
                counts.problem(_no_memory(), self.move.path, before)
            except ZarrstackError as error:
                counts.problem(error, self.move.path, before)
        return counts.moved()

    def _within(self, task: Task, copy: ServerCopy) -> Moved:
        """Payloads that stay as they are, within one object store."""
        counts = _Counts()
        keys = [(before, after) for _, before, after in self._keys(task.indexes)]
        for start in range(0, len(keys), _BATCH):
            part = keys[start : start + _BATCH]
            for (before, _), carried in zip(part, copy(part, self._look), strict=True):
                if isinstance(carried, int):
                    counts.add(carried, carried)
                elif carried is not None:
                    counts.problem(carried, self.move.path, before)
                elif task.certain:
                    counts.problem(_vanished(), self.move.path, before)
        return counts.moved()

    def _payloads(self, task: Task) -> Moved:
        """Payloads through memory, some at a time."""
        counts = _Counts()
        batch: list[tuple[str, Buffer]] = []
        held = 0
        for index, before, after, payload in self._read(task, counts):
            try:
                result = self._changed(index, payload, counts)
            except ZarrstackError as error:
                counts.problem(error, self.move.path, before)
                continue
            except MemoryError:
                counts.problem(_no_memory(), self.move.path, before)
                continue
            size = len(payload)
            if result is None:
                counts.dropped += 1
                counts.add(size, 0)
                continue
            written = memory(result).nbytes
            counts.add(size, written)
            batch.append((after, result))
            held += written
            if len(batch) >= _BATCH or held >= _BATCH_BYTES or isinstance(self.writer, LocalWriter):
                self.writer.write_many(batch)
                batch, held = [], 0
        self.writer.write_many(batch)
        return counts.moved()

    def _read(self, task: Task, counts: _Counts) -> Iterator[tuple[int, str, str, bytes]]:
        keys = list(self._keys(task.indexes))
        step = 1 if isinstance(self.source, LocalStorage) else _BATCH
        for start in range(0, len(keys), step):
            part = keys[start : start + step]
            try:
                payloads = self.source.get_many([before for _, before, _ in part])
            except ZarrstackError:
                payloads = [self._get(before, counts) for _, before, _ in part]
            for (index, before, after), payload in zip(part, payloads, strict=True):
                if payload is not None:
                    yield index, before, after, payload
                elif task.certain and not counts.knows(before):
                    counts.problem(_vanished(), self.move.path, before)

    def _get(self, key: str, counts: _Counts) -> bytes | None:
        try:
            return self.source.get(key)
        except ZarrstackError as error:
            counts.problem(error, self.move.path, key)
            return None

    def _changed(self, index: int, payload: bytes, counts: _Counts) -> Buffer | None:
        if self._change is None:
            self._look.check_whole(payload)
            return payload
        return self._change(index, payload, counts.tally)


class _Counts:
    """What a task has done so far."""

    def __init__(self) -> None:
        self.chunks = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.dropped = 0
        self.tally = Tally()
        self.problems: list[Problem] = []
        self._keys: set[str] = set()

    def add(self, bytes_in: int, bytes_out: int) -> None:
        self.chunks += 1
        self.bytes_in += bytes_in
        self.bytes_out += bytes_out

    def problem(self, error: ZarrstackError, node: str, key: str) -> None:
        self._keys.add(key)
        if len(self.problems) < _MOST_PROBLEMS:
            self.problems.append(error.at(node=node, key=key).problem)

    def knows(self, key: str) -> bool:
        return key in self._keys

    def moved(self) -> Moved:
        return Moved(
            chunks=self.chunks,
            bytes_in=self.bytes_in,
            bytes_out=self.bytes_out,
            dropped=self.dropped,
            filled=self.tally.filled,
            problems=tuple(self.problems),
        )


def _vanished() -> ChunkError:
    return ChunkError(
        "a chunk that was listed is gone; the source changed",
        advice="Let no one write to the source while it is migrated; then start a new job.",
    )


def _no_memory() -> ChunkError:
    return ChunkError(
        "not enough memory to decode a chunk", advice="Resume with fewer workers, or on a larger machine."
    )
