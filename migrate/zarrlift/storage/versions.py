"""Versions of objects: what is read is the object that was listed, or the one whose index was read."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from ..errors import SourceChangedError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Indexes: TypeAlias = npt.NDArray[np.int64]

_UNEVEN: Final = 50_000_000
"""Maximum number of nanoseconds between reading two clocks."""


Version: TypeAlias = tuple[int, int]
"""Identifies a version of an object, as in `Inventory.sizes` and `.versions`: its size in bytes and a number,
for a file the modification time in nanoseconds.
"""


def version_number(text: str) -> int:
    """The number of a version that a store provides as text."""
    return int.from_bytes(next(_digests([text])), "little", signed=True)


def version_numbers(texts: Iterable[str]) -> Indexes:
    """The number of each of many versions."""
    import numpy as np

    return np.frombuffer(b"".join(_digests(texts)), "<i8").astype(np.int64, copy=False)


def _digests(texts: Iterable[str]) -> Iterator[bytes]:
    new = hashlib.blake2b(digest_size=8).copy  # half the time of a constructor with arguments
    for text in texts:
        digest = new()
        digest.update(text.encode("utf-8", "surrogatepass"))
        yield digest.digest()


def source_object_changed() -> SourceChangedError:
    """The error for an object that differs from the one in the plan."""
    return SourceChangedError(
        "the object was rewritten after it was listed",
        advice="Stop all writers of the source, then resume: the node is planned again.",
    )


def source_object_gone() -> SourceChangedError:
    """The error for an object that was listed and is missing now."""
    return SourceChangedError(
        "a listed chunk is gone: the source changed",
        advice="Stop all writers of the source, then resume: the node is planned again.",
    )


class Timestamp:
    """A time by two clocks: that of file timestamps, and one that is never set."""

    __slots__ = ("_steady_ns", "wall_ns")

    def __init__(self) -> None:
        self.wall_ns = time.time_ns()
        self._steady_ns = time.monotonic_ns()

    def clock_was_set_back(self) -> bool:
        """Whether the clock of file timestamps was set back since."""
        passed = time.time_ns() - self.wall_ns
        return passed < time.monotonic_ns() - self._steady_ns - _UNEVEN


@dataclass(frozen=True, slots=True)
class ListedVersions:
    """Versions of some objects of an array, from a listing."""

    indexes: Indexes
    """Linear indexes of the objects, ascending."""
    sizes: Indexes
    numbers: Indexes
    """Size in bytes, and number of the version, of each."""

    def of_some(self, indexes: Indexes) -> ListedVersions:
        """The same of some of the objects."""
        at = self.indexes.searchsorted(indexes)
        return ListedVersions(indexes, self.sizes[at], self.numbers[at])

    def of_index(self, index: int) -> Version:
        """The version of one of the objects."""
        at = self.indexes.searchsorted(index)
        return int(self.sizes[at]), int(self.numbers[at])

    def of_indexes(self, indexes: Indexes) -> list[Version | None]:
        """The versions of several of the objects."""
        at = self.indexes.searchsorted(indexes)
        return list(zip(self.sizes[at].tolist(), self.numbers[at].tolist(), strict=True))


def version_of(facts: os.stat_result) -> Version:
    """The version of a file with these properties."""
    return facts.st_size, facts.st_mtime_ns


def require_version(descriptor: int, version: Version | None) -> None:
    """Raise SourceChangedError unless an open file still has the version in which it was read."""
    if version is not None and not has_version(os.fstat(descriptor), version):
        raise source_object_changed()


def has_version(facts: os.stat_result, version: Version | None) -> bool:
    """Whether a file with these properties has the version; True if none is required."""
    return version is None or version_of(facts) == version
