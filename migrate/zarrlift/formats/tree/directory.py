"""A directory of an archive, before its documents are parsed.

A local directory is listed once for several purposes: the walk needs documents and directories, separator
detection the names of chunks, the search for nodes inside arrays the directories, and the plan whether there
is any chunk at all.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from zarrstack.core.errors import Problem, StorageError

from ...core.problems import any_refusal
from ...storage.base import DirectoryEntry
from ...storage.local.storage import LocalStorage

CHUNK: Final = re.compile(r"[0-9]+(\.[0-9]+)*")
"""Names of Zarr v2 chunks and of directories of chunks."""
_NUMBER: Final = re.compile(r"[0-9]+")
_DIGITS: Final = frozenset("0123456789")
_ROW: Final = -1
_FEW: Final = 64
"""Maximum number of files named like chunks that are examined; an array may have millions."""


@dataclass(slots=True)
class DirectoryListing:
    """The content of a directory."""

    directories: list[str] = field(default_factory=list)
    """Names of directories that are not links, in the system's order."""
    links: dict[str, DirectoryEntry] = field(default_factory=dict)
    """Links by name, including links to files and broken ones."""
    files: list[str] = field(default_factory=list)
    """Names of files that are not named like chunks."""
    chunk: str | None = None
    """The first name, in sorted order, of a file named like a chunk."""
    key_samples: dict[int, DirectoryEntry] = field(default_factory=dict)
    """Entries that show the form of chunk keys: the first name with each number of dots, the first row of
    chunks.
    """
    many: bool = False
    """Whether there are more files named like chunks than examined: `chunk`, `files` and `key_samples` are
    incomplete.
    """

    def entries(self) -> Iterator[DirectoryEntry]:
        """The content, with only the first of the files named like chunks."""
        yield from (DirectoryEntry(name, is_dir=True) for name in self.directories)
        yield from self.links.values()
        yield from (DirectoryEntry(name, is_dir=False) for name in self.files)
        if self.chunk is not None:
            yield DirectoryEntry(self.chunk, is_dir=False)

    def show(self, entry: DirectoryEntry) -> None:
        """Keep an entry if it is the first of its kind named like a chunk or a row of chunks."""
        form, kind = (_NUMBER, _ROW) if entry.is_dir else (CHUNK, entry.name.count("."))
        if kind not in self.key_samples and form.fullmatch(entry.name):
            self.key_samples[kind] = entry


@dataclass(slots=True, kw_only=True)
class NodeDirectory:
    """A directory, as known before its documents are parsed."""

    path: str
    documents: dict[str, bytes] = field(default_factory=dict)
    """Name -> content of the requested documents that exist."""
    keys: dict[str, str] = field(default_factory=dict)
    """Name -> key of documents that are not in the directory itself."""
    problems: list[Problem] = field(default_factory=list)
    """Problems with names, links and storage."""
    chunk: str | None = None
    """A name in it that looks like a chunk's; None if it was not listed."""
    files: tuple[str, ...] = ()
    """Other files in it; empty if it was not listed."""
    subdirectories: tuple[str, ...] | None = None
    """For an array: names of the directories in its own; None if not listed, or if there are many."""
    key_samples: tuple[DirectoryEntry, ...] | None = None
    """For an array: entries that show the form of its chunk keys; None as above."""
    is_array: bool = False
    """Whether it is an array, which the walk did not enter."""
    only_documents: bool = False
    """For an array: whether its directory contains only documents."""

    @property
    def refused(self) -> bool:
        """Whether a problem excludes it."""
        return any_refusal(self.problems)

    def fail(self, error: StorageError, key: str | None = None) -> None:
        """Add the problem of a failed request; one of them is sufficient."""
        if not any(problem.kind == "storage" for problem in self.problems):
            self.problems.append(error.problem.at(node=self.path, key=key))

    def first(self, names: Sequence[str]) -> str | None:
        """The first of some document names that exists here."""
        return next((name for name in names if name in self.documents), None)

    def key_of(self, *names: str) -> str | None:
        """The key of the first of some documents that exists here."""
        name = self.first(names)
        return None if name is None else self.key(name)

    def key(self, name: str) -> str:
        """The key of a document."""
        if self.keys:
            return self.keys[name]
        return f"{self.path}/{name}" if self.path else name


def list_directory(storage: LocalStorage, path: str) -> DirectoryListing | None:
    """The content of a node's directory; None if it cannot be listed for any reason."""
    listing = DirectoryListing()
    numbered = 0
    try:
        with storage.scandir(path) as entries:
            for entry in entries:
                name = entry.name
                digit = name[0] in _DIGITS
                if listing.many and digit and not entry.is_dir(follow_symlinks=False):
                    continue
                if entry.is_symlink():
                    link = DirectoryEntry(name, os.path.isdir(entry.path), os.path.realpath(entry.path))
                    listing.links[name] = link
                    listing.show(link)
                elif entry.is_dir():
                    listing.directories.append(name)
                    if digit and _ROW not in listing.key_samples:
                        listing.show(DirectoryEntry(name, is_dir=True))
                elif digit and CHUNK.fullmatch(name):
                    numbered += 1
                    listing.many = numbered > _FEW
                    listing.chunk = name if listing.chunk is None else min(name, listing.chunk)
                    listing.show(DirectoryEntry(name, is_dir=False))
                else:
                    listing.files.append(name)
    except OSError:
        return None
    return listing
