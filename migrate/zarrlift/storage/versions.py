"""Compares reads with the listing, so that the object read is the one that was listed."""

from __future__ import annotations

import hashlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ..errors import SourceChangedError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Indexes: TypeAlias = npt.NDArray[np.int64]

FILES_TELL: Final = sys.platform != "win32"
"""Whether a directory entry has the same properties as its file; Windows updates entries later."""

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


class ListedVersions:
    """Versions of some objects from a listing, by linear index or by key."""

    def __init__(
        self, indexes: Indexes, versions: tuple[Indexes, Indexes], keys: Callable[[], Iterable[str]]
    ) -> None:
        """`versions` are (bytes, number) of each ascending index; `keys` gives the key of each."""
        self._indexes = indexes
        self._versions = versions
        self._keys = keys

    @cached_property
    def _by_key(self) -> dict[str, Version]:
        return dict(zip(self._keys(), self._all(slice(None)), strict=True))

    def of_key(self, key: str) -> Version | None:
        """The version of one object; None for one that was not listed."""
        return self._by_key.get(key)

    def of_indexes(self, indexes: Indexes) -> Iterator[Version]:
        """The versions of some of the objects."""
        return self._all(self._indexes.searchsorted(indexes))

    def _all(self, places: Any) -> Iterator[Version]:
        sizes, numbers = self._versions
        return zip(sizes[places].tolist(), numbers[places].tolist(), strict=True)


class _Held(threading.local):
    storage: object = None
    versions: ListedVersions | None = None


_held = _Held()


@contextmanager
def holding(storage: object, versions: ListedVersions | None) -> Iterator[None]:
    """Hold this thread's reads of these objects to these versions; another one raises SourceChangedError.

    Storages that provide no version with a read, such as stacks of layers, read as usual.
    """
    before = _held.storage, _held.versions
    _held.storage, _held.versions = storage, versions
    try:
        yield
    finally:
        _held.storage, _held.versions = before


def held(storage: object, key: str) -> Version | None:
    """The version that a read in this thread must return; None for any."""
    versions = _held.versions
    return None if versions is None or _held.storage is not storage else versions.of_key(key)


def held_each(storage: object, indexes: Indexes) -> Iterator[Version | None]:
    """Like `held`, for each of some objects of the array being read."""
    versions = _held.versions
    if versions is None or _held.storage is not storage:
        return repeat(None, len(indexes))
    return versions.of_indexes(indexes)


def require_version(descriptor: int, version: Version | None) -> None:
    """Raise SourceChangedError unless an open file still has the version in which it was read."""
    if version is not None:
        require_same(os.fstat(descriptor), version)


def require_same(facts: os.stat_result, version: Version | None) -> None:
    """Raise SourceChangedError unless a file with these properties has the version."""
    if not has_version(facts, version):
        raise source_object_changed()


def has_version(facts: os.stat_result, version: Version | None) -> bool:
    """Whether a file with these properties has the version; True if none is required."""
    return version is None or (facts.st_size, facts.st_mtime_ns) == version
