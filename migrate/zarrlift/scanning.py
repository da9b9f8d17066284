"""Listing the chunks of a local array: names, sizes and times in one pass over its directories."""

from __future__ import annotations

import os
import re
import stat
from array import array
from collections.abc import Callable
from typing import Final, TypeAlias

from zarrstack.core.keys import KeyEncoding

from .archive import Layout
from .storage import LocalStorage, storage_error

METADATA: Final = frozenset({".zarray", ".zattrs", ".zgroup", ".zmetadata", "zarr.json"})
"""Names beside chunks that are no chunks."""
_STRAYS_NAMED: Final = 5
_NO_FILES_NAMED: Final = 20

Decoder: TypeAlias = Callable[[str], tuple[int, ...] | None]


class Found:
    """Chunks as they are seen, in compact arrays, since there may be millions."""

    def __init__(self) -> None:
        self.indexes = array("q")
        self.sizes = array("q")
        self.times = array("q")
        self.strays: list[str] = []
        self.stray_count = 0
        self.bad_links: list[tuple[str, str]] = []
        self.no_files: list[tuple[str, str]] = []

    def stray(self, name: str) -> None:
        """A name that belongs to no chunk; the first few are kept."""
        self.stray_count += 1
        if len(self.strays) < _STRAYS_NAMED:
            self.strays.append(name)


def scan(
    storage: LocalStorage, path: str, layout: Layout, *, children: frozenset[str], follow_links: bool
) -> Found:
    """The chunks of the array at `path`; nothing where its directory is absent.

    Raises StorageError for whatever else goes wrong: a listing that fails midway says
    nothing about the chunks it did not reach.
    """
    return _Scan(storage, path, layout, children, follow_links).found


class _Scan:
    def __init__(
        self,
        storage: LocalStorage,
        path: str,
        layout: Layout,
        children: frozenset[str],
        follow_links: bool,
    ) -> None:
        self.storage = storage
        self.path = path
        self.counts = layout.grid.counts
        self.passed_over = METADATA | children
        self.follow_links = follow_links
        self.found = Found()
        ndim = len(layout.shape)
        prefixed = layout.keys.name == "default"
        levels = layout.keys.separator == "/" and ndim > (0 if prefixed else 1)
        root = f"{path}/c" if path else "c"
        directory = storage.path(root if levels and prefixed else path)
        if not os.path.isdir(directory) and not os.path.islink(directory):
            return
        try:
            if levels:
                self._deep(directory, 0, 0, "c/" if prefixed else "")
            else:
                self._flat(directory, _decoder(layout.keys, ndim))
        except OSError as error:
            raise storage_error("cannot list", path, error).at(node=path) from error

    def _flat(self, directory: str, decode: Decoder) -> None:
        """Keys without a slash: one directory holds them all."""
        with os.scandir(directory) as entries:
            for entry in entries:
                position = decode(entry.name)
                number = None if position is None else self._index(position)
                if number is not None:
                    self._accept(entry, number, entry.name)
                elif entry.name not in self.passed_over:
                    self.found.stray(entry.name)

    def _index(self, position: tuple[int, ...]) -> int | None:
        """`Grid.index`, with the counts at hand."""
        index = 0
        for number, count in zip(position, self.counts, strict=True):
            if number >= count:
                return None
            index = index * count + number
        return index

    def _deep(self, directory: str, axis: int, base: int, prefix: str) -> None:
        """Keys with slashes: a level of directories for each axis, files at the last."""
        count = self.counts[axis]
        last = axis == len(self.counts) - 1
        with os.scandir(directory) as entries:
            for entry in entries:
                name = entry.name
                number = _number(name)
                if number is None or number >= count:
                    if axis > 0 or name not in self.passed_over:
                        self.found.stray(prefix + name)
                elif last:
                    self._accept(entry, base * count + number, prefix + name)
                elif entry.is_symlink() and self._leads_away(entry, prefix + name):
                    continue
                elif entry.is_dir():
                    self._deep(entry.path, axis + 1, base * count + number, f"{prefix}{name}/")
                else:
                    self._no_file(prefix + name, "a file where a directory of chunks belongs")

    def _accept(self, entry: os.DirEntry[str], index: int, name: str) -> None:
        if entry.is_symlink() and self._leads_away(entry, name):
            return
        facts = entry.stat()
        if not stat.S_ISREG(facts.st_mode):
            what = "a directory" if stat.S_ISDIR(facts.st_mode) else "a pipe, socket or device"
            self._no_file(name, what)
            return
        self.found.indexes.append(index)
        self.found.sizes.append(facts.st_size)
        self.found.times.append(facts.st_mtime_ns)

    def _no_file(self, name: str, what: str) -> None:
        """Keep what stands where a chunk belongs: taken for a missing chunk, it would read as fill values."""
        if len(self.found.no_files) < _NO_FILES_NAMED:
            self.found.no_files.append((f"{self.path}/{name}" if self.path else name, what))

    def _leads_away(self, entry: os.DirEntry[str], name: str) -> bool:
        """Whether a link leaves the root (unless that is meant), or leads nowhere."""
        target = os.path.realpath(entry.path)
        leaves = self.storage.leaves_root(target) and not self.follow_links
        if leaves or not os.path.exists(target):
            self.found.bad_links.append((f"{self.path}/{name}" if self.path else name, target))
            return True
        return False


def _number(text: str) -> int | None:
    """A chunk coordinate as it is written in keys, or None."""
    if text.isascii() and text.isdigit() and (text[0] != "0" or text == "0"):
        return int(text)
    return None


def _decoder(keys: KeyEncoding, ndim: int) -> Decoder:
    """`keys.coordinates`; faster for the dotted keys of Zarr v2, the most common ones."""
    if keys.name != "v2" or keys.separator != "." or ndim == 0:
        return lambda name: keys.coordinates(name, ndim)

    number = "(?:0|[1-9][0-9]*)"
    dotted = re.compile(rf"{number}(?:\.{number}){{{ndim - 1}}}").fullmatch

    def decode(name: str) -> tuple[int, ...] | None:
        return tuple(map(int, name.split("."))) if dotted(name) else None

    return decode
