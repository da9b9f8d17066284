"""Tells from timestamps alone whether local files and directories are unchanged since a given time.

The system sets the change time (`st_ctime`) of a file on every write, and of a directory whenever an entry is
added or removed; programs cannot set it back. A file whose change time is before the given time is therefore
unchanged since then, provided that the clocks of the system and the file system are the same and have not
been set back.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from zarrstack.core.paths import parents

from ..storage.listed_versions import Timestamp
from ..storage.local.storage import LocalStorage

_OWN_CLOCK: Final = frozenset(
    {"bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "tmpfs", "xfs", "zfs"}
)
"""File systems whose times are set by the local kernel; network file systems have their own clocks."""
_MOUNTS: Final = "/proc/self/mountinfo"
_STEP: Final = 100_000_000
_WHOLE: Final = 1_000_000_000
_WHOLE_STEP: Final = 2 * _WHOLE
"""Nanoseconds by which a timestamp may be too early: a few milliseconds on most file systems, up to a second
on those that store whole seconds.
"""


class FileTimes:
    """Compares the timestamps of files in a directory with a given time."""

    def __init__(self, storage: LocalStorage, since: Timestamp) -> None:
        self._storage = storage
        self._since = since
        self._latest, self._latest_whole = since.wall_ns - _STEP, since.wall_ns - _WHOLE_STEP
        self._prefix = storage.path("") + os.sep
        self._above: dict[str, bool] = {}
        """Whether the directories above a node are unchanged, by its parent."""
        self._device: int | None = None
        self._root: tuple[int, int] | None = None
        if sys.platform == "linux" and _file_system(storage.real) in _OWN_CLOCK:
            with suppress(OSError):  # a missing source is reported when it is read
                facts = os.stat(storage.root)
                self._root = facts.st_dev, facts.st_ino
                self._device = facts.st_dev

    def forget(self) -> None:
        """Discard cached results; after the clock was set back, no timestamp is trusted."""
        self._above.clear()
        if self._since.clock_was_set_back():
            self._device = None

    def untouched(self, key: str) -> bool:
        """Whether a file or directory is provably unchanged."""
        return self._all_untouched((key,))

    def _all_untouched(self, keys: Iterable[str]) -> bool:
        # One loop without function calls: there are several keys for each of thousands of nodes.
        prefix, device, latest, latest_whole = self._prefix, self._device, self._latest, self._latest_whole
        if device is None:
            return False
        try:
            for key in keys:
                facts = os.stat(prefix + key)
                changed = facts.st_ctime_ns
                if changed >= (latest if changed % _WHOLE else latest_whole) or facts.st_dev != device:
                    return False
        except (OSError, ValueError):
            return False
        return True

    def untouched_node(self, path: str, documents: Iterable[tuple[str, str]]) -> bool:
        """Whether the documents of a node, its directory and the directories above are unchanged.

        The root only has to be the same directory: in place, the job itself adds and removes files there.
        """
        above = self._above.get(path[: path.rfind("/") + 1])
        if not (self._way(path) if above is None else above):
            return False
        return self._all_untouched([path, *(key for key, _ in documents)])

    def _way(self, path: str) -> bool:
        """Whether the directories above a node are unchanged."""
        untouched = all(self.untouched(above) if above else self._same_root() for above in parents(path))
        self._above[path[: path.rfind("/") + 1]] = untouched
        return untouched

    def _same_root(self) -> bool:
        try:
            facts = os.stat(self._storage.root)
        except OSError:
            return False
        return (facts.st_dev, facts.st_ino) == self._root


def _file_system(path: str) -> str | None:
    """Type of the file system of a path; None if the system does not tell."""
    found: tuple[str, str] | None = None
    try:
        with open(_MOUNTS, encoding="utf-8", errors="surrogateescape") as file:
            for line in file:
                own, _, rest = line.partition(" - ")
                place = own.split(" ")[4]
                if "\\" in place:  # octal escapes represent white space
                    place = place.encode("latin-1", "backslashreplace").decode("unicode_escape")
                inside = path == place or path.startswith(place.rstrip("/") + "/")
                if inside and (found is None or len(place) >= len(found[0])):
                    found = place, rest.split(" ", 1)[0]
    except (OSError, ValueError, IndexError):
        return None
    return None if found is None else found[1]
