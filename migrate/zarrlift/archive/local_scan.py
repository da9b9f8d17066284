"""Lists the chunks of a local array: names, sizes and times in one pass over its directories."""

from __future__ import annotations

import os
import stat
from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from math import prod
from typing import Final

from zarrstack.core.chunk_keys_v3 import KeyEncoding

from ..core.format_table import DOCUMENT_NAMES
from ..core.grid.chunk_keys import ChunkKeys, DraftKeys, N5Keys
from ..core.grid.pattern_keys import PatternKeys
from ..core.identity_cache import IdentityCache
from ..storage.base import CLAIM, Storage
from ..storage.local.files import storage_error
from ..storage.local.own_names import is_own
from ..storage.local.storage import LocalStorage
from .chunk_columns import NO_CHUNK, ChunkColumns, listed_indexes
from .nodes import Layout

_BATCH: Final = 4096
"""Number of entries of a directory that are interpreted together."""
_FEW: Final = 16
"""Number of names in a directory up to which they are looked up among those of earlier arrays."""
_MAX_REMEMBERED: Final = 1 << 10
_MAX_NAMED_UNCLAIMED: Final = 5
_NO_FILES_NAMED: Final = 20


class ChunkScan:
    """What a listing finds of one array."""

    def __init__(self, collect: Callable[[str], object] = lambda _: None) -> None:
        """`collect` receives each name that belongs to no chunk."""
        self._collect = collect
        self.chunks = ChunkColumns()
        """Versions are modification times in nanoseconds for files; 0 for what is unknown."""
        self.sized = True
        self.versioned = True
        """Whether the size and the version of every chunk are known."""
        self.unclaimed: list[str] = []
        self.unclaimed_count = 0
        self.bad_links: list[tuple[str, str]] = []
        self.no_files: list[tuple[str, str]] = []

    def unclaimed_name(self, name: str) -> None:
        """Add a name that belongs to no chunk; only the first ones in sorted order are kept."""
        self._collect(name)
        self.unclaimed_count += 1
        if len(self.unclaimed) < _MAX_NAMED_UNCLAIMED or name < self.unclaimed[-1]:
            self.unclaimed = sorted([*self.unclaimed, name])[:_MAX_NAMED_UNCLAIMED]


def scan(
    storage: LocalStorage,
    path: str,
    layout: Layout,
    *,
    children: frozenset[str],
    follow_links: bool,
    names_only: bool = False,
    collect: Callable[[str], object] = lambda _: None,
) -> ChunkScan:
    """The chunks of the array at `path`; empty if its directory is absent.

    With `names_only`, without sizes and times, which need a system call each; this is for a destination,
    whose directories may not be links.

    Raises StorageError for any other error: after an incomplete listing, nothing is known about the remaining
    chunks.
    """
    return _Scan(storage, path, layout, children, follow_links, names_only, ChunkScan(collect)).found


class _Names:
    """How names below an array are read, which is the same for all arrays of one layout."""

    def __init__(self, layout: Layout) -> None:
        keys, ndim = layout.keys, len(layout.shape)
        self.keys, self.objects = keys, layout.objects
        self.by_pattern = isinstance(keys, PatternKeys)
        self.nested = keys.depth(ndim) > 1 and not self.by_pattern
        self.head, self.lead = _head(keys) if self.nested else ("", "")
        self.axes = _axes(keys, ndim)
        self._index = lru_cache(_MAX_REMEMBERED)(lambda name: listed_indexes([name], keys, self.objects)[0])

    def indexes(self, names: Sequence[str]) -> list[int]:
        """The linear index of the chunk of each name, or NO_CHUNK."""
        if len(names) > _FEW:
            return listed_indexes(names, self.keys, self.objects)
        return [self._index(name) for name in names]  # mostly those of the array before


_names_of: Final = IdentityCache(_Names)


def files_by_name(
    storage: LocalStorage, path: str, layout: Layout, names: tuple[str, ...]
) -> list[tuple[int, int, int]] | None:
    """(index, size, version) of chunks that a listing has found in an array's directory, ascending.

    None if only another listing can tell: one of the names is no chunk's, or no file's any more.
    """
    known = _names_of(layout)
    # Where entries of directories are updated late, a file's own time may differ from theirs.
    readable = not (known.by_pattern or known.nested) and storage.tells_versions
    if layout.root is not None or (names and not readable):
        return None
    indexes = known.indexes(names)
    if NO_CHUNK in indexes:
        return None
    directory = storage.path(path)
    try:
        files = [os.lstat(f"{directory}{os.sep}{name}") for name in names]
    except OSError:
        return None
    for facts in files:
        if not stat.S_ISREG(facts.st_mode):
            return None
    return sorted(
        [(index, facts.st_size, facts.st_mtime_ns) for index, facts in zip(indexes, files, strict=True)]
    )


class _Scan:
    def __init__(
        self,
        storage: LocalStorage,
        path: str,
        layout: Layout,
        children: frozenset[str],
        follow_links: bool,
        names_only: bool,
        found: ChunkScan,
    ) -> None:
        self.storage = storage
        self.node = path
        self.prefix = layout.prefix(path)
        self.names = names = _names_of(layout)
        self.passed_over = DOCUMENT_NAMES | children if children else DOCUMENT_NAMES
        self.follow_links = follow_links
        self.found = found
        self.found.sized = self.found.versioned = not names_only
        place = (self.prefix + names.head).rstrip("/")
        directory = storage.path(place)
        if names_only:
            storage.refuse_links(place)
        try:
            if names.by_pattern:
                self._any(directory, "")
            elif names.nested:
                self._deep(directory, 0, 0, names.head)
            else:
                self._flat(directory)
        except OSError as error:
            absent = isinstance(error, FileNotFoundError | NotADirectoryError)
            if absent and error.filename == directory and not os.path.islink(directory):
                return
            raise storage_error("cannot list", self.prefix, error).at(node=path) from error

    def _flat(self, directory: str) -> None:
        """Scan keys without a slash, which are all in one directory."""
        with os.scandir(directory) as every:
            while some := list(islice(every, _BATCH)):
                batch = [entry for entry in some if entry.name not in self.passed_over]
                names = [entry.name for entry in batch]
                indexes = self.names.indexes(names)
                for entry, index in zip(batch, indexes, strict=True):
                    if index == NO_CHUNK:
                        self.found.unclaimed_name(entry.name)
                    else:
                        self._accept(entry, index, entry.name)

    def _deep(self, directory: str, level: int, base: int, prefix: str) -> None:
        """Scan keys with slashes: one directory level per axis, files at the last level.

        `base` is the linear index of the coordinates in the levels above.
        """
        axes, counts = self.names.axes, self.names.objects.counts
        count, stride = counts[axes[level]], prod(counts[axes[level] + 1 :])
        last = level == len(axes) - 1
        lead = "" if level else self.names.lead
        # Most entries are files of which only the name is needed.
        names_only, present = last and not self.found.sized, array("q")
        with os.scandir(directory) as entries:
            for entry in entries:
                name = entry.name
                number = _number(name, lead)
                if number is None or number >= count:
                    if level > 0 or name not in self.passed_over:
                        self.found.unclaimed_name(prefix + name)
                elif names_only and entry.is_file(follow_symlinks=False):
                    present.append(base + number * stride)
                elif last:
                    self._accept(entry, base + number * stride, prefix + name)
                elif entry.is_symlink() and self._leads_away(entry, prefix + name):
                    continue
                elif entry.is_dir():
                    self._deep(entry.path, level + 1, base + number * stride, f"{prefix}{name}/")
                else:
                    self._no_file(prefix + name, "a file in the place of a directory of chunks")
        self.found.chunks.add_names(present)

    def _any(self, directory: str, prefix: str) -> None:
        """Scan a directory and those below it, whatever the names are."""
        with os.scandir(directory) as every:
            while some := list(islice(every, _BATCH)):
                batch = [entry for entry in some if prefix or not self._is_of_others(entry.name)]
                names = [prefix + entry.name for entry in batch]
                indexes = self.names.indexes(names)
                for entry, name, index in zip(batch, names, indexes, strict=True):
                    if entry.is_symlink() and self._leads_away(entry, name):
                        continue
                    if entry.is_dir():
                        self._any(entry.path, name + "/")
                    elif index == NO_CHUNK:
                        self.found.unclaimed_name(name)
                    else:
                        self._accept(entry, index, name)

    def _is_of_others(self, name: str) -> bool:
        """Whether a name in the array's directory is that of a document, another node or a job."""
        return name in self.passed_over or is_own(name) or name.startswith(CLAIM)

    def _accept(self, entry: os.DirEntry[str], index: int, name: str) -> None:
        if entry.is_symlink() and self._leads_away(entry, name):
            return
        if not self.found.sized and entry.is_file():
            self.found.chunks.add(index, 0, 0)
            return
        facts = entry.stat()
        if not stat.S_ISREG(facts.st_mode):
            what = "a directory" if stat.S_ISDIR(facts.st_mode) else "a pipe, socket or device"
            self._no_file(name, what)
            return
        self.found.chunks.add(index, facts.st_size, facts.st_mtime_ns)

    def _no_file(self, name: str, what: str) -> None:
        """Record an entry named like a chunk that is not a file.

        As a missing chunk it would read as fill values.
        """
        if len(self.found.no_files) < _NO_FILES_NAMED:
            self.found.no_files.append((self.prefix + name, what))

    def _leads_away(self, entry: os.DirEntry[str], name: str) -> bool:
        """Whether a link leaves the root (unless allowed) or is broken."""
        target = os.path.realpath(entry.path)
        leaves = self.storage.leaves_root(target) and not self.follow_links
        if leaves or not os.path.exists(target):
            self.found.bad_links.append((self.prefix + name, target))
            return True
        return False


def chunk_directories(storage: Storage, path: str, layout: Layout) -> Iterator[str]:
    """The directories with the chunks of a local array, and those above them up to the array's own.

    The last level is not listed: even with many chunks, there are few directories. OSError.
    """
    top = layout.prefix(path).rstrip("/")
    yield top
    keys, ndim = layout.keys, len(layout.shape)
    if keys.depth(ndim) == 1:
        return
    assert isinstance(storage, LocalStorage)
    head, _ = _head(keys)
    above = [f"{top}/{head}".strip("/")]
    if head:
        yield from above
    for _ in range(keys.depth(ndim) - 1 - bool(head)):
        above = [f"{place}/{name}".strip("/") for place in above for name in storage.directories(place)]
        yield from above


@lru_cache(maxsize=1 << 14)
def _number(name: str, lead: str) -> int | None:
    """A chunk coordinate from a name that begins with `lead`, or None if it is not in canonical form."""
    if not name.startswith(lead):
        return None
    text = name.removeprefix(lead)
    if text.isascii() and text.isdigit() and (text[0] != "0" or text == "0"):
        return int(text)
    return None


def _head(keys: ChunkKeys) -> tuple[str, str]:
    """For keys with several levels: the directory above them all, and the prefix of the first name."""
    if isinstance(keys, DraftKeys):
        return "", "c"
    return ("c/" if isinstance(keys, KeyEncoding) and keys.name == "default" else ""), ""


def _axes(keys: ChunkKeys, ndim: int) -> tuple[int, ...]:
    """The axis of each directory level."""
    axes = tuple(range(ndim))
    return axes[::-1] if isinstance(keys, N5Keys) and keys.axes == "reversed" else axes
