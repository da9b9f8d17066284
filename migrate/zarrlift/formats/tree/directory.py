"""The listing of one directory of a local archive, taken once for several purposes.

The walk needs documents and directories, separator detection the names of chunks, the search for nodes inside
arrays the directories, and the plan whether there is any chunk at all.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from ...storage.base import Entry
from ...storage.local.storage import LocalStorage

CHUNK: Final = re.compile(r"[0-9]+(\.[0-9]+)*")
"""Names of Zarr v2 chunks and of directories of chunks."""
_NUMBER: Final = re.compile(r"[0-9]+")
_DIGITS: Final = frozenset("0123456789")
_ROW: Final = -1
_FEW: Final = 64
"""Maximum number of files named like chunks that are examined; an array may have millions."""


@dataclass(slots=True)
class Look:
    """The content of a directory."""

    directories: list[str] = field(default_factory=list)
    """Names of directories that are not links, in the system's order."""
    links: dict[str, Entry] = field(default_factory=dict)
    """Links by name, including links to files and broken ones."""
    files: list[str] = field(default_factory=list)
    """Names of files that are not named like chunks."""
    chunk: str | None = None
    """The first name, in sorted order, of a file named like a chunk."""
    shown: dict[int, Entry] = field(default_factory=dict)
    """Entries that show the form of chunk keys: the first name with each number of dots, the first row of
    chunks.
    """
    many: bool = False
    """Whether there are more files named like chunks than examined: `chunk`, `files` and `shown` are
    incomplete.
    """

    def entries(self) -> Iterator[Entry]:
        """The content, with only the first of the files named like chunks."""
        yield from (Entry(name, is_dir=True) for name in self.directories)
        yield from self.links.values()
        yield from (Entry(name, is_dir=False) for name in self.files)
        if self.chunk is not None:
            yield Entry(self.chunk, is_dir=False)

    def show(self, entry: Entry) -> None:
        """Keep an entry if it is the first of its kind named like a chunk or a row of chunks."""
        form, kind = (_NUMBER, _ROW) if entry.is_dir else (CHUNK, entry.name.count("."))
        if kind not in self.shown and form.fullmatch(entry.name):
            self.shown[kind] = entry


def look(storage: LocalStorage, path: str) -> Look | None:
    """The content of a node's directory; None if it cannot be listed for any reason."""
    seen = Look()
    numbered = 0
    try:
        with storage.scandir(path) as entries:
            for entry in entries:
                name = entry.name
                digit = name[0] in _DIGITS
                if seen.many and digit and not entry.is_dir(follow_symlinks=False):
                    continue
                if entry.is_symlink():
                    link = Entry(name, os.path.isdir(entry.path), os.path.realpath(entry.path))
                    seen.links[name] = link
                    seen.show(link)
                elif entry.is_dir():
                    seen.directories.append(name)
                    if digit and _ROW not in seen.shown:
                        seen.show(Entry(name, is_dir=True))
                elif digit and CHUNK.fullmatch(name):
                    numbered += 1
                    seen.many = numbered > _FEW
                    seen.chunk = name if seen.chunk is None else min(name, seen.chunk)
                    seen.show(Entry(name, is_dir=False))
                else:
                    seen.files.append(name)
    except OSError:
        return None
    return seen
