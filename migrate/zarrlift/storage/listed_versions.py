"""Reads that are held against what a listing told of each object: what was listed is what is read."""

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

from zarrstack.core.errors import SourceChangedError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Indexes: TypeAlias = npt.NDArray[np.int64]

FILES_TELL: Final = sys.platform != "win32"
"""Whether a directory tells of its files what they tell themselves; Windows brings it up to date later."""

_UNEVEN: Final = 50_000_000
"""Nanoseconds between asking two clocks, at most."""


Version: TypeAlias = tuple[int, int]
"""What tells one version of an object from the next, as `Inventory.sizes` and `.versions` have it: its bytes,
and a number, of a file the nanoseconds of its modification."""


def version_number(text: str) -> int:
    """The number of a version that a store gives as text."""
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def changed() -> SourceChangedError:
    """An object is not the one that the plan was made with."""
    return SourceChangedError(
        "the object was written again since it was listed",
        advice="Resume: the node is planned anew, once nothing writes to the source.",
    )


class Moment:
    """A moment, by two clocks: that of times of files, and one that is never set."""

    __slots__ = ("_steady_ns", "wall_ns")

    def __init__(self) -> None:
        self.wall_ns = time.time_ns()
        self._steady_ns = time.monotonic_ns()

    def clock_was_set_back(self) -> bool:
        """Whether the clock that files get their times from was set back since."""
        passed = time.time_ns() - self.wall_ns
        return passed < time.monotonic_ns() - self._steady_ns - _UNEVEN


class ListedVersions:
    """Versions of some objects as they were listed, by linear index or by key."""

    def __init__(
        self, indexes: Indexes, versions: tuple[Indexes, Indexes], keys: Callable[[], Iterable[str]]
    ) -> None:
        """`versions` are (bytes, number) of each index, which ascend; `keys` gives the key of each."""
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
    """Within, this thread's reads of these objects give the versions named, or raise SourceChangedError.

    Of places that tell nothing when they are read, such as stacks of layers, reads are as elsewhere.
    """
    before = _held.storage, _held.versions
    _held.storage, _held.versions = storage, versions
    try:
        yield
    finally:
        _held.storage, _held.versions = before


def held(storage: object, key: str) -> Version | None:
    """The version that a read of this thread has to give; None for any."""
    versions = _held.versions
    return None if versions is None or _held.storage is not storage else versions.of_key(key)


def held_each(storage: object, indexes: Indexes) -> Iterator[Version | None]:
    """As `held` for each of some objects of the array that is read."""
    versions = _held.versions
    if versions is None or _held.storage is not storage:
        return repeat(None, len(indexes))
    return versions.of_indexes(indexes)


def require_version(descriptor: int, version: Version | None) -> None:
    """SourceChangedError unless an open file is still the version, and so was all that was read of it."""
    if version is not None:
        require_same(os.fstat(descriptor), version)


def require_same(facts: os.stat_result, version: Version | None) -> None:
    """SourceChangedError unless a file, of which the system says this, is the version."""
    if version is not None and (facts.st_size, facts.st_mtime_ns) != version:
        raise changed()
