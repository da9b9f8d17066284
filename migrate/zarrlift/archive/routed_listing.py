"""Inventories of all arrays of an archive from one listing of its objects, in any order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from zarrstack.core.errors import UnsupportedError

from ..core.grid.chunk_keys import PatternKeys
from ..storage.listing import ListedPage
from .chunk_columns import ChunkColumns, Columns, Indexes
from .chunk_inventory import Inventory, ListedChunks, inventory_of
from .local_scan import METADATA
from .nodes import Layout

_MAX_TOTAL: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class _Array:
    layout: Layout
    chunks: ListedChunks
    base: int
    """What its linear indexes start from among those of all arrays."""


class _Shared(ChunkColumns):
    """The columns of one array, which are those of all arrays: as many files as arrays would be too many."""

    def __init__(self, all_columns: ChunkColumns, base: int) -> None:
        super().__init__()
        self._all = all_columns
        self._base = base

    def extend(self, indexes: Indexes, sizes: Indexes, versions: Indexes) -> None:
        """Add rows."""
        self._all.extend(indexes + self._base, sizes, versions)


class RoutedListing:
    """Gives each listed object to the array that it belongs to."""

    def __init__(self, arrays: Iterable[tuple[str, Layout, frozenset[str]]]) -> None:
        """`arrays` are (path, layout, names below it that belong to other nodes)."""
        self._columns = ChunkColumns()
        self._arrays: dict[str, _Array] = {}
        self._by_prefix: dict[str, list[_Array]] = {}
        self._shared = False
        """Whether an object may belong to an array other than the innermost one around it."""
        self._sorted: Columns | None = None
        self.objects = 0
        """Number of objects listed."""
        base = 0
        for path, layout, children in arrays:
            if base + layout.objects.total > _MAX_TOTAL:
                raise UnsupportedError(
                    "the chunk grids are too large for one inventory",
                    advice="Let zarrlift list the store, or migrate with --include in several jobs.",
                )
            chunks = ListedChunks(layout, layout.prefix(path), METADATA | children)
            chunks.found.chunks = _Shared(self._columns, base)
            self._arrays[path] = array = _Array(layout, chunks, base)
            self._by_prefix.setdefault(layout.prefix(path), []).append(array)
            self._shared |= isinstance(layout.keys, PatternKeys)
            base += layout.objects.total

    def take(self, page: ListedPage) -> None:
        """Receive the next objects."""
        assert page.sizes is not None
        assert page.versions is not None
        self.objects += len(page.keys)
        start = 0
        # Most neighbors are in one directory.
        for directory, keys in groupby(page.keys, _directory):
            end = start + sum(1 for _ in keys)
            for array in self._of(directory):
                array.chunks.take(
                    ListedPage(page.keys[start:end], page.sizes[start:end], page.versions[start:end])
                )
            start = end

    def _of(self, directory: str) -> Iterator[_Array]:
        """The arrays to which objects in a directory, which ends with "/" or is empty, may belong.

        That is the innermost one, unless keys are made by patterns, which may share directories.
        """
        while True:
            arrays = self._by_prefix.get(directory, ())
            yield from arrays
            if not directory or (arrays and not self._shared):
                return
            directory = _directory(directory[:-1])

    def inventory(self, path: str) -> Inventory | None:
        """The inventory of an array; nothing can be added afterwards. StorageError."""
        array = self._arrays.get(path)
        if array is None:
            return None
        if self._sorted is None:
            self._sorted = self._columns.sorted()
        indexes, sizes, versions = self._sorted
        start, end = indexes.searchsorted([array.base, array.base + array.layout.objects.total]).tolist()
        own = indexes[start:end] - array.base if array.base else indexes[start:end]
        return inventory_of(array.chunks.found, (own, sizes[start:end], versions[start:end]))


def _directory(key: str) -> str:
    above, slash, _ = key.rpartition("/")
    return above + slash
