"""One directory of a local archive, listed once, for all who ask something of it.

The walk asks for documents and directories, the separator for names of chunks, the hunt for nodes
inside arrays for directories again, the plan whether there is any chunk at all.
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
"""What chunks in Zarr v2 are called, and directories of chunks."""
_NUMBER: Final = re.compile(r"[0-9]+")
_DIGITS: Final = frozenset("0123456789")
_ROW: Final = -1
_FEW: Final = 64
"""Files called like chunks that are looked at one by one; an array may have millions."""


@dataclass(slots=True)
class Look:
    """What is in a directory."""

    directories: list[str] = field(default_factory=list)
    """Names of directories that are no links, in the system's order."""
    links: dict[str, Entry] = field(default_factory=dict)
    """By name; links to files and to nowhere too."""
    files: list[str] = field(default_factory=list)
    """Names of files that are not called like a chunk."""
    chunk: str | None = None
    """The first by name of the files that are."""
    shown: dict[int, Entry] = field(default_factory=dict)
    """What tells how chunk keys are made: the first name with so many dots, the first of a row of chunks."""
    many: bool = False
    """More files are called like chunks than were looked at: `chunk`, `files` and `shown` are not whole."""

    def entries(self) -> Iterator[Entry]:
        """What lies here, but of the files that are called like chunks only the first by name."""
        yield from (Entry(name, is_dir=True) for name in self.directories)
        yield from self.links.values()
        yield from (Entry(name, is_dir=False) for name in self.files)
        if self.chunk is not None:
            yield Entry(self.chunk, is_dir=False)

    def show(self, entry: Entry) -> None:
        """Keep the first of its kind, if it is called like a chunk or a row of them."""
        form, kind = (_NUMBER, _ROW) if entry.is_dir else (CHUNK, entry.name.count("."))
        if kind not in self.shown and form.fullmatch(entry.name):
            self.shown[kind] = entry


def look(storage: LocalStorage, path: str) -> Look | None:
    """What is in the directory of a node; None where it cannot be listed, whatever the reason."""
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
