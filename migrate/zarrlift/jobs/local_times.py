"""Whether local files and directories are as they were at a moment, by their times alone.

The system sets the time of change (`st_ctime`) of a file with each writing, and of a directory with each
name that comes or goes; no program can set it back. So what was last changed before a moment is what it
was then, if the system's clock and that of the file system are one, and have not been set back since.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from zarrstack.core.paths import parents

from ..storage.listed_versions import Moment
from ..storage.local.storage import LocalStorage

_OWN_CLOCK: Final = frozenset(
    {"bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "tmpfs", "xfs", "zfs"}
)
"""File systems whose times this machine's kernel sets; those of a network have a clock of their own."""
_MOUNTS: Final = "/proc/self/mountinfo"
_STEP: Final = 100_000_000
_WHOLE: Final = 1_000_000_000
_WHOLE_STEP: Final = 2 * _WHOLE
"""Nanoseconds that a time may be too early: a few milliseconds on most, up to a second on those that keep
whole seconds only."""


class Times:
    """What the times of files in a directory tell."""

    def __init__(self, storage: LocalStorage, since: Moment) -> None:
        self._storage = storage
        self._since = since
        self._latest, self._latest_whole = since.wall_ns - _STEP, since.wall_ns - _WHOLE_STEP
        self._prefix = storage.path("") + os.sep
        self._above: dict[str, bool] = {}
        """Whether what is above a node is untouched, by its parent."""
        self._device: int | None = None
        self._root: tuple[int, int] | None = None
        if sys.platform == "linux" and _file_system(storage.real) in _OWN_CLOCK:
            with suppress(OSError):  # a source that is gone is named where it is read
                facts = os.stat(storage.root)
                self._root = facts.st_dev, facts.st_ino
                self._device = facts.st_dev

    def forget(self) -> None:
        """Ask again of what was asked before; nothing is trusted once the clock was set back."""
        self._above.clear()
        if self._since.clock_was_set_back():
            self._device = None

    def untouched(self, key: str) -> bool:
        """Whether a file or directory is proven to be as it was at the moment."""
        return self._all_untouched((key,))

    def _all_untouched(self, keys: Iterable[str]) -> bool:
        # One loop without a call for each key: there are several for each of thousands of nodes.
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
        """Whether the documents of a node, its directory, and those above it are as they were.

        The root only has to be the same directory: in place the job's own files come and go there.
        """
        above = self._above.get(path[: path.rfind("/") + 1])
        if not (self._way(path) if above is None else above):
            return False
        return self._all_untouched([path, *(key for key, _ in documents)])

    def _way(self, path: str) -> bool:
        """Whether the directories above a node are untouched."""
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
    """The kind of file system that a path lies in; None where the system does not tell."""
    found: tuple[str, str] | None = None
    try:
        with open(_MOUNTS, encoding="utf-8", errors="surrogateescape") as file:
            for line in file:
                own, _, rest = line.partition(" - ")
                place = own.split(" ")[4]
                if "\\" in place:  # octal digits stand for white space
                    place = place.encode("latin-1", "backslashreplace").decode("unicode_escape")
                inside = path == place or path.startswith(place.rstrip("/") + "/")
                if inside and (found is None or len(place) >= len(found[0])):
                    found = place, rest.split(" ", 1)[0]
    except (OSError, ValueError, IndexError):
        return None
    return None if found is None else found[1]
