"""The objects in a store's own inventory: S3 Inventory as CSV, one pass for all arrays.

Source: https://docs.aws.amazon.com/AmazonS3/latest/userguide/storage-inventory-location.html.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path
from typing import IO, Any, Final, cast
from urllib.parse import unquote_plus, urlsplit

from zarrstack.core.errors import UnsupportedError, UsageError

from ..core.grid.chunk_keys import PatternKeys
from ..storage.base import CLAIM
from ..storage.listing import ListedPage
from ..storage.local.presence import is_file
from .chunk_columns import ChunkColumns, Columns, Indexes
from .chunk_inventory import Inventory, ListedChunks, inventory_of
from .local_scan import METADATA
from .nodes import Layout

_PAGE: Final = 10_000
"""Rows interpreted together."""
_BUCKET, _KEY, _SIZE, _ETAG = "Bucket", "Key", "Size", "ETag"
_NEEDED: Final = (_BUCKET, _KEY, _SIZE, _ETAG)
_OF_VERSIONS: Final = {"IsLatest": "true", "IsDeleteMarker": "false"}
"""Columns of an inventory of all versions, with their values for an object that exists."""
_GZIP: Final = b"\x1f\x8b"
_MD5: Final = re.compile(r"[0-9a-f]{32}(-[0-9]+)?")
_DIGITS: Final = re.compile(r"[0-9]{1,19}")
_ADVICE: Final = "Give the inventory's manifest.json, with the files that it names beside it."


@dataclass(frozen=True, slots=True)
class StoreInventory:
    """An inventory in local files."""

    files: tuple[Path, ...]
    columns: tuple[str, ...] | None
    """Names of the columns; None if they must be recognized by their values."""

    @classmethod
    def open(cls, path: Path) -> StoreInventory:
        """The inventory in a CSV file, or in those that a `manifest.json` names; UsageError."""
        if not is_file(path):
            raise UsageError("there is no such inventory", key=str(path), advice=_ADVICE)
        if path.suffix != ".json":
            return cls((path,), None)
        try:
            manifest: Any = json.loads(path.read_bytes())
            kind, schema = manifest["fileFormat"], str(manifest["fileSchema"])
            keys = [str(file["key"]) for file in manifest["files"]]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UsageError(
                "this is not the manifest of an S3 inventory", key=str(path), found=str(error)
            ) from error
        if kind != "CSV":
            raise UsageError(
                "only inventories in CSV can be read", key=str(path), found=str(kind), expected="CSV"
            )
        columns = tuple(name.strip() for name in schema.split(","))
        missing = [name for name in _NEEDED if name not in columns]
        if missing:
            raise UsageError(
                "a column is missing in the inventory",
                key=str(path),
                found=", ".join(columns),
                expected=", ".join(missing),
                advice="Add the fields to the inventory's configuration, or let zarrlift list the store.",
            )
        return cls(tuple(_beside(path, key) for key in keys), columns)

    def pages(self, url: str) -> Iterator[ListedPage]:
        """The objects below an `s3://` URL, with keys relative to it, in the order of the files."""
        parts = urlsplit(url)
        if parts.scheme not in ("s3", "s3a") or not parts.netloc:
            raise UsageError("an inventory is for a source in S3", found=url, expected="s3://bucket/path")
        base = f"{parts.path.strip('/')}/".lstrip("/")
        for file in self.files:
            yield from self._pages_of(file, parts.netloc, base)

    def _pages_of(self, file: Path, bucket: str, base: str) -> Iterator[ListedPage]:
        try:
            with _opened(file) as raw, io.TextIOWrapper(raw, "utf-8", newline="") as text:
                reader = csv.reader(text, strict=True)
                columns = self.columns
                while rows := list(islice(reader, _PAGE)):
                    if columns is None:
                        columns = _recognized(rows[0], file)
                        if rows[0] == list(columns):
                            del rows[0]
                    yield _page(rows, columns, bucket, base, (file, reader.line_num - len(rows) + 1))
        except (OSError, EOFError, csv.Error, UnicodeDecodeError) as error:
            raise UsageError("the inventory cannot be read", key=str(file), found=str(error)) from error


def _page(
    rows: Sequence[list[str]],
    columns: Sequence[str],
    bucket: str,
    base: str,
    place: tuple[Path, int],
) -> ListedPage:
    """The objects of some rows; `place` is the file and the line of the first one. UsageError."""
    at_bucket, at_key, at_size, at_etag = map(columns.index, _NEEDED)
    wanted = [(columns.index(name), value) for name, value in _OF_VERSIONS.items() if name in columns]
    keys: list[str] = []
    sizes: list[int] = []
    tags: list[str] = []
    for number, row in enumerate(rows):
        if len(row) != len(columns):
            raise _wrong(place, number, f"{len(row)} columns", f"{len(columns)}: {', '.join(columns)}")
        if row[at_bucket] != bucket:
            raise _wrong(place, number, f"the bucket {row[at_bucket]!r}", repr(bucket))
        if wanted and any(row[at] != value for at, value in wanted):
            continue
        key = row[at_key]
        if "%" in key or "+" in key:
            key = unquote_plus(key)
        if not key.startswith(base) or key.endswith("/") or key == base + CLAIM:
            continue
        if not _DIGITS.fullmatch(row[at_size]):
            raise _wrong(place, number, f"the size {row[at_size]!r}", "a number of bytes")
        if not row[at_etag]:
            raise _wrong(place, number, "no ETag", "the ETag of the object")
        keys.append(key[len(base) :])
        sizes.append(int(row[at_size]))
        tags.append(row[at_etag].strip('"'))
    return ListedPage(keys, sizes, tags)


def _wrong(place: tuple[Path, int], number: int, found: str, expected: str) -> UsageError:
    file, line = place
    return UsageError(
        "a row of the inventory is wrong", key=f"{file}, line {line + number}", found=found, expected=expected
    )


def _recognized(row: Sequence[str], file: Path) -> tuple[str, ...]:
    """The columns by the names or the values in the first row; UsageError if they may be others.

    Bucket and Key are always the first ones. Size and ETag are recognized by their form.
    """
    if {_BUCKET, _KEY} <= set(row):
        columns = tuple(row)
    else:
        sizes = [at for at, value in enumerate(row) if at > 1 and _DIGITS.fullmatch(value)]
        tags = [at for at, value in enumerate(row) if at > 1 and _MD5.fullmatch(value.strip('"'))]
        versions = [value for value in row[2:] if value in ("true", "false")]
        names = {0: _BUCKET, 1: _KEY}
        if len(sizes) == len(tags) == 1 and not versions:
            names |= {sizes[0]: _SIZE, tags[0]: _ETAG}
        columns = tuple(names.get(at, "") for at in range(len(row)))
    if not set(_NEEDED) <= set(columns):
        raise UsageError(
            "the columns of the inventory cannot be recognized",
            key=f"{file}, line 1",
            found=", ".join(row),
            expected="bucket, key, and one column each with the size and the ETag",
            advice=_ADVICE,
        )
    return columns


def _beside(manifest: Path, key: str) -> Path:
    """The local copy of a file that the manifest names by its key."""
    name = key.rpartition("/")[2]
    folders = (manifest.parent, manifest.parent / "data", manifest.parent.parent / "data")
    for folder in folders:
        if is_file(folder / name):
            return folder / name
    raise UsageError(
        "a file of the inventory is missing",
        key=name,
        expected=" or ".join(str(folder / name) for folder in folders),
        advice="Copy it from the bucket of the inventory.",
    )


def _opened(file: Path) -> IO[bytes]:
    with file.open("rb") as start:
        packed = start.read(len(_GZIP)) == _GZIP
    if packed:
        return cast("IO[bytes]", gzip.open(file, "rb"))
    return file.open("rb")


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
