"""What a task has done, while it does it and when it has ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from zarrstack.core.errors import ChunkError, Problem, ZarrstackError

from ..archive.chunk_inventory import Indexes
from .recode import Tally

_MOST_PROBLEMS: Final = 100
"""Problems reported of one task; a thousand bad chunks are as clear as a hundred."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """What a task did."""

    chunks: int = 0
    """Objects of the source that were read; one that is read for two blocks counts twice."""
    bytes_in: int = 0
    bytes_out: int = 0
    dropped: int = 0
    """Chunks left out since they held nothing but fill value."""
    filled: int = 0
    """N5 blocks shorter than their cell, which were decoded to be filled up."""
    problems: tuple[Problem, ...] = ()

    def figures(self) -> dict[str, int]:
        """Everything but the problems."""
        return {name: getattr(self, name) for name in _FIGURES}

    def plus(self, other: Moved) -> Moved:
        """The figures of both."""
        mine, theirs = self.figures(), other.figures()
        return Moved(problems=(), **{name: mine[name] + theirs[name] for name in mine})


_FIGURES: Final = ("chunks", "bytes_in", "bytes_out", "dropped", "filled")


class Counts:
    """What a task has done so far; problems are those of the array at `path`."""

    def __init__(self, path: str, *, certain: bool = True, leaves: Indexes | None = None) -> None:
        self.chunks = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.dropped = 0
        self.failures = 0
        self.tally = Tally()
        self.path = path
        self._certain = certain
        self._leaves = leaves
        self._problems: list[Problem] = []
        self._keys: set[str] = set()

    def wanted(self, leaves: Indexes) -> Indexes:
        """Those of the destination's leaves that the task may write."""
        return leaves if self._leaves is None else leaves[np.isin(leaves, self._leaves, assume_unique=True)]

    def add(self, bytes_in: int, bytes_out: int) -> None:
        """A chunk of the source has been read, and something written for it."""
        self.chunks += 1
        self.leaf(bytes_in, bytes_out)

    def leaf(self, bytes_in: int, bytes_out: int) -> None:
        """A leaf of a shard has been read, and something written for it; the shard counts by itself."""
        self.bytes_in += bytes_in
        self.bytes_out += bytes_out

    def add_many(self, chunks: int, size: int) -> None:
        """Chunks of so many bytes in all have been handed on as they are."""
        self.chunks += chunks
        self.bytes_in += size
        self.bytes_out += size

    def drop(self, bytes_in: int) -> None:
        """A chunk of the source held nothing but fill value."""
        self.dropped += 1
        self.add(bytes_in, 0)

    def failed(self, error: ZarrstackError | OSError | MemoryError, key: str) -> None:
        """A chunk could not be moved."""
        from ..storage.local.system_errors import storage_error

        if isinstance(error, OSError):
            error = storage_error("cannot read", key, error)
        if isinstance(error, MemoryError):
            error = ChunkError(
                "not enough memory to decode a chunk",
                advice="Resume with fewer workers, or on a larger machine.",
            )
        self.failures += 1
        self._keys.add(key)
        if len(self._problems) < _MOST_PROBLEMS:
            self._problems.append(error.at(node=self.path, key=key).problem)

    def missing(self, key: str) -> None:
        """A chunk is not there: a failure if it was listed, and its reading has not failed already."""
        if self._certain and key not in self._keys:
            error = ChunkError(
                "a chunk that was listed is gone; the source changed",
                advice="Let no one write to the source while it is migrated; then start a new job.",
            )
            self.failed(error, key)

    def moved(self) -> Moved:
        """The sum of it."""
        return Moved(
            chunks=self.chunks,
            bytes_in=self.bytes_in,
            bytes_out=self.bytes_out,
            dropped=self.dropped,
            filled=self.tally.filled,
            problems=tuple(self._problems),
        )
