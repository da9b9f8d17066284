"""Counts the work of a task, while it runs and after its end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from zarrstack.core.errors import ChunkError, Problem, ZarrstackError

from ..archive.chunk_inventory import Indexes
from ..storage.bandwidth import End
from ..storage.giving_up import check
from ..storage.unanswered import take_retries
from ..storage.versions import source_object_gone

_MAX_PROBLEMS: Final = 100
"""Maximum number of problems reported per task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveResult:
    """The result of a task."""

    chunks: int = 0
    """Source objects read; an object that is read for two blocks counts twice."""
    bytes_in: int = 0
    bytes_out: int = 0
    dropped: int = 0
    """Chunks omitted because they contained only the fill value."""
    objects: int = 0
    """Objects written, where blocks of several chunks make them; else they are the chunks not omitted."""
    filled: int = 0
    """N5 blocks smaller than their grid cell that were decoded and padded."""
    retries: int = 0
    """Requests that this process has repeated since the end of its last task."""
    problems: tuple[Problem, ...] = ()

    def figures(self) -> dict[str, int]:
        """The counts."""
        return {name: getattr(self, name) for name in _FIGURES}

    def plus(self, other: MoveResult) -> MoveResult:
        """The sums of both."""
        mine, theirs = self.figures(), other.figures()
        sums: dict[str, Any] = {name: mine[name] + theirs[name] for name in mine}
        return MoveResult(**sums)


_FIGURES: Final = ("chunks", "bytes_in", "bytes_out", "dropped", "filled", "retries")


class MoveCounts:
    """The work of a task so far; problems are those of the array at `path`."""

    def __init__(self, path: str, *, certain: bool = True, inner_chunks: Indexes | None = None) -> None:
        self.chunks = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.dropped = 0
        self.objects = 0
        self.failures = 0
        self.filled = 0
        self.path = path
        self._certain = certain
        self._inner_chunks = inner_chunks
        self._passed: dict[End, float] = {"source": 0.0, "destination": 0.0}
        self._problems: list[Problem] = []
        self._keys: set[str] = set()

    def let_pass(self, end: End, amount: float) -> None:
        """Count bytes that a limit lets pass."""
        self._passed[end] += amount

    @property
    def bytes_under_way(self) -> int:
        """Bytes of the source for which the task has worked; under a limit, half of it is to write them."""
        read, written = self._passed.values()
        return round((read + min(written, read)) / 2) if read else self.bytes_in

    def wanted(self, inner_chunks: Indexes) -> Indexes:
        """The destination's inner chunks, among these, that the task may write."""
        return (
            inner_chunks
            if self._inner_chunks is None
            else inner_chunks[np.isin(inner_chunks, self._inner_chunks, assume_unique=True)]
        )

    def add(self, bytes_in: int, bytes_out: int, *, chunks: int = 1) -> None:
        """Count source chunks that were read and converted or copied; a task that is given up ends here."""
        check()
        self.chunks += chunks
        self.bytes_in += bytes_in
        self.bytes_out += bytes_out

    def copied(self, key: str, size: int | None) -> None:
        """Count an object that was copied unchanged; None if it is missing."""
        if size is None:
            self.missing(key)
        else:
            self.add(size, size)

    def inner_chunk(self, bytes_in: int, bytes_out: int) -> None:
        """Count an inner chunk of a shard that was read and converted; the shard is counted separately."""
        self.add(bytes_in, bytes_out, chunks=0)

    def drop(self, bytes_in: int) -> None:
        """Count a source chunk that contained only the fill value."""
        self.dropped += 1
        self.add(bytes_in, 0)

    def failed(self, error: ZarrstackError | OSError | MemoryError, key: str) -> None:
        """Record a chunk that could not be moved."""
        from ..storage.local.files import storage_error

        if isinstance(error, OSError):
            error = storage_error("cannot read", key, error)
        if isinstance(error, MemoryError):
            error = ChunkError(
                "not enough memory to decode a chunk",
                advice="Resume with fewer workers, or on a larger machine.",
            )
        self.failures += 1
        self._keys.add(key)
        if len(self._problems) < _MAX_PROBLEMS:
            self._problems.append(error.at(node=self.path, key=key).problem)

    def missing(self, key: str) -> None:
        """Count a missing chunk: a failure if it was listed and its read has not failed already."""
        if self._certain and key not in self._keys:
            self.failed(source_object_gone(), key)

    def moved(self) -> MoveResult:
        """The totals."""
        return MoveResult(
            chunks=self.chunks,
            bytes_in=self.bytes_in,
            bytes_out=self.bytes_out,
            dropped=self.dropped,
            objects=self.objects,
            filled=self.filled,
            retries=take_retries(),
            problems=tuple(self._problems),
        )
