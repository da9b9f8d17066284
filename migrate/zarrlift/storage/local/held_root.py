"""Recognizes the root of a destination again: another directory may have its name by now.

A directory is recognized by its device and inode. It is held open, so that its inode is not given to another
one, and file systems whose inodes change (FUSE) keep that of an open directory.
"""

from __future__ import annotations

import os
import sys
from typing import Final

from ..writer import DestinationError

_OPENING: Final = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)


class HeldRoot:
    """The directory that is at a path now; it is made if there is none. OSError."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self._root = os.fspath(root)
        os.makedirs(self._root, exist_ok=True)
        self.descriptor = -1
        """The open directory; -1 on Windows, which opens none."""
        if sys.platform != "win32":
            self.descriptor = os.open(self._root, os.O_RDONLY | _OPENING)
        self._facts = os.stat(self._root) if self.descriptor < 0 else os.fstat(self.descriptor)

    def require_same(self) -> None:
        """Raise DestinationError unless the path still leads to this directory."""
        try:
            facts = os.stat(self._root)
        except OSError as error:
            raise self._replaced(error.strerror or str(error)) from error
        if not os.path.samestat(facts, self._facts):
            raise self._replaced("another directory")

    def _replaced(self, found: str) -> DestinationError:
        return DestinationError(
            "the destination was moved, deleted or replaced while the job was writing to it",
            key=self._root,
            found=found,
            expected="the directory in which the run began",
            advice="Put it back, then resume; if it was deleted, delete the job file and migrate again.",
        )

    def close(self) -> None:
        """Close the directory. May be repeated."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)
