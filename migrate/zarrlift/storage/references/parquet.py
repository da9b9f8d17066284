"""References in kerchunk's Parquet layout: a file for every few thousand chunks of an array.

Layout (fsspec 2026.9, `LazyReferenceMapper`): `.zmetadata` has all documents under `metadata`, and
`record_size`, the number of chunks per file. `ARRAY/refs.N.parq` has a row for each chunk, in C order of the
grid, with `path`, `offset` and `size`, or `raw` with the bytes. A row without both, or without a file, is a
chunk that does not exist; offset and size 0 mean a whole object.
"""

from __future__ import annotations

import asyncio
import io
import json
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, prod
from typing import Any, Final

from zarrstack.core.errors import MetadataError, StorageError, UsageError, short

from ..base import Storage
from ..local.files import ReadLimit
from ..local.storage import LocalStorage
from .index import BadReference, Found, Reference

METADATA: Final = ".zmetadata"
MAX_METADATA: Final = ReadLimit(1 << 30, "document")
_MAX_FILE: Final = ReadLimit(256 << 20, "document")
_MAX_ROWS: Final = 10_000_000
"""Maximum number of rows per file; kerchunk writes 10,000 by default, VirtualiZarr 100,000."""
_KEPT_ROWS: Final = 4_000_000
"""Rows of files that are kept in memory."""
_MAGIC: Final = b"PAR1"
"""Start and end of a file (Parquet format, file format)."""


@dataclass(frozen=True, slots=True)
class _Grid:
    """The chunks of one array."""

    counts: tuple[int, ...]
    """Number of chunks along each axis."""
    separator: str

    @property
    def total(self) -> int:
        """Number of chunks."""
        return prod(self.counts)

    def number(self, name: str) -> int | None:
        """The row of a chunk in all files of the array; None for a name that is not one of its chunks."""
        parts = name.split(self.separator)
        if len(parts) != max(len(self.counts), 1) or not all(
            part.isdecimal() and part.isascii() and part == str(int(part)) for part in parts if len(part) < 20
        ):
            return None
        row = 0
        for part, count in zip(parts, self.counts or (1,), strict=True):
            if len(part) >= 20 or int(part) >= count:
                return None
            row = row * count + int(part)
        return row

    def name(self, number: int) -> str:
        """The name of the chunk in a row."""
        parts: list[str] = []
        for count in reversed(self.counts or (1,)):
            number, part = divmod(number, count)
            parts.append(str(part))
        return self.separator.join(reversed(parts))


@dataclass(frozen=True, slots=True)
class _Rows:
    """The columns of one file."""

    paths: Sequence[str | None]
    offsets: Sequence[int | None]
    sizes: Sequence[int | None]
    raws: Sequence[bytes | str | None]

    def found(self, row: int) -> Found | None:
        """What is stored in a row."""
        path, raw = self.paths[row], self.raws[row]
        if raw is not None:
            content = raw.encode() if isinstance(raw, str) else raw
            return content if path is None else BadReference("both a path and bytes")
        if path is None:
            return None
        offset, size = self.offsets[row], self.sizes[row]
        if type(offset) is not int or type(size) is not int or offset < 0 or size < 0 or not path:
            return BadReference(f"path {short(str(path), 60)!r}, offset {offset}, size {size}")
        return Reference(path) if offset == size == 0 else Reference(path, offset, size)


class ParquetIndex:
    """References in a directory of Parquet files, each read when it is needed."""

    def __init__(self, storage: Storage, metadata: bytes) -> None:
        """`metadata` is the content of `.zmetadata`. UsageError if it is not that of references."""
        data = parsed(metadata)
        if data is None:
            raise UsageError(
                "not a directory of references", found=storage.url, expected="record_size in .zmetadata"
            )
        self._storage = storage
        self._record_size = data["record_size"]
        if type(self._record_size) is not int or not 0 < self._record_size <= _MAX_ROWS:
            raise MetadataError(
                "record_size is invalid",
                key=METADATA,
                found=short(repr(self._record_size), 40),
                expected=f"1 to {_MAX_ROWS}",
            )
        self._documents = {key: _content(value) for key, value in data["metadata"].items()}
        outside = [key for key in self._documents if ".." in key.split("/") or key[:1] == "/"]
        if outside:
            found = ", ".join(short(key, 80) for key in outside[:8])
            raise MetadataError(
                "keys of references may not leave the archive's root", key=METADATA, found=found
            )
        self._grids: dict[str, _Grid] = {}
        for key, value in data["metadata"].items():
            path, _, name = key.rpartition("/")
            if name == ".zarray" and (grid := _grid(value)) is not None:
                self._grids[path] = grid
        self._files: OrderedDict[tuple[str, int], asyncio.Task[_Rows | None]] = OrderedDict()

    def urls(self) -> Iterable[str]:
        """None are known before a file is read."""
        return ()

    async def find(self, key: str) -> Found | None:
        """What is stored under a key."""
        if (document := self._documents.get(key)) is not None:
            return document
        path = key
        while path:
            path, _, _ = path.rpartition("/")
            grid = self._grids.get(path)
            if grid is not None:
                break
        else:
            return None
        number = grid.number(key[len(path) + 1 if path else 0 :])
        if number is None:
            return None
        rows = await self._file(path, number // self._record_size)
        return None if rows is None else rows.found(number % self._record_size)

    async def pages(self, prefix: str) -> AsyncIterator[Sequence[tuple[str, Found]]]:
        """The documents, then the chunks of each array, file by file."""
        yield [(key, content) for key, content in self._documents.items() if key.startswith(prefix)]
        for path, grid in self._grids.items():
            below = f"{path}/" if path else ""
            if not (below.startswith(prefix) or prefix.startswith(below)):
                continue
            for record in range(ceil(grid.total / self._record_size)):
                rows = await self._file(path, record)
                if rows is None:
                    continue
                first = record * self._record_size
                some = (
                    (f"{below}{grid.name(first + row)}", entry)
                    for row in range(min(self._record_size, grid.total - first))
                    if (entry := rows.found(row)) is not None
                )
                yield [item for item in some if item[0].startswith(prefix)]

    async def children(self, directory: str) -> dict[str, bool]:
        """Nodes and documents; of an array's chunks only the first.

        Their names follow from the layout, and those that exist are found by reading all files (`pages`).
        """
        start = f"{directory}/" if directory else ""
        names: dict[str, bool] = {}
        for key in self._documents:
            if key.startswith(start):
                name, below, _ = key[len(start) :].partition("/")
                names[name] = bool(below) or names.get(name, False)
        if (grid := self._grids.get(directory)) is not None and grid.total:
            name, below, _ = grid.name(0).partition("/")
            names[name] = bool(below)
        return names

    async def _file(self, path: str, record: int) -> _Rows | None:
        """The rows of a file; None if there is no such file."""
        place = path, record
        task = self._files.get(place)
        if task is None:
            task = self._files[place] = asyncio.ensure_future(self._read(path, record))
            while len(self._files) > max(_KEPT_ROWS // self._record_size, 2):
                self._files.popitem(last=False)
        else:
            self._files.move_to_end(place)
        try:
            return await asyncio.shield(task)
        except BaseException:
            if task.done():
                self._files.pop(place, None)  # another attempt may succeed
            raise

    async def _read(self, path: str, record: int) -> _Rows | None:
        key = f"{path}/refs.{record}.parq" if path else f"refs.{record}.parq"
        content = await _content_of(self._storage, key)
        if content is None:
            return None
        wanted = min(self._record_size, self._grids[path].total - record * self._record_size)
        rows = await asyncio.to_thread(_rows, content, key)
        if len(rows.paths) < wanted:
            raise StorageError(
                "a file of references is too short",
                key=key,
                found=f"{len(rows.paths)} rows",
                expected=f"{wanted} rows",
            )
        return rows


async def _content_of(storage: Storage, key: str) -> bytes | None:
    if isinstance(storage, LocalStorage):
        return await asyncio.to_thread(storage.get, key, _MAX_FILE)
    from ..remote.zarr_store import StoreStorage

    # `get` waits for the loop in which this runs, and a thread for each file would be too many.
    assert isinstance(storage, StoreStorage)
    return await storage.fetch(key, _MAX_FILE)


def parsed(metadata: bytes) -> dict[str, Any] | None:
    """The content of `.zmetadata` if it is that of references; None for any other."""
    if b'"record_size"' not in metadata:
        return None
    try:
        data = json.loads(metadata)
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict) or "record_size" not in data or not isinstance(data.get("metadata"), dict):
        return None
    return data


def _content(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else json.dumps(value).encode()


def _grid(document: Any) -> _Grid | None:
    """The grid of an array's document; None for an invalid one, which the reader of the format refuses."""
    if not isinstance(document, Mapping):
        return None
    shape, chunks = document.get("shape"), document.get("chunks")
    if not isinstance(shape, list) or not isinstance(chunks, list) or len(shape) != len(chunks):
        return None
    if not all(type(size) is int and size >= 0 for size in shape):
        return None
    if not all(type(size) is int and size > 0 for size in chunks):
        return None
    counts = tuple(-(-size // chunk) for size, chunk in zip(shape, chunks, strict=True))
    return _Grid(counts, "/" if document.get("dimension_separator") == "/" else ".")


def _rows(content: bytes, key: str) -> _Rows:
    """The columns of a file; StorageError if it cannot be read."""
    try:
        from arro3.io import read_parquet
    except ImportError:
        raise UsageError(
            "references in Parquet need a package that is not installed",
            expected="arro3-io",
            advice="Install it: pip install arro3-io.",
        ) from None
    if len(content) < 12 or not content.startswith(_MAGIC) or not content.endswith(_MAGIC):
        raise StorageError("a file of references cannot be read", key=key, found="not Parquet, or cut short")
    try:
        table: Any = read_parquet(io.BytesIO(content)).read_all()
        names = set(table.schema.names)
        nothing = [None] * table.num_rows
        paths = table.column("path").to_pylist() if "path" in names else nothing
        raws = table.column("raw").to_pylist() if "raw" in names else nothing
        zeros = [0] * table.num_rows
        offsets = table.column("offset").to_pylist() if "offset" in names else zeros
        sizes = table.column("size").to_pylist() if "size" in names else zeros
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise  # arro3-io 0.9 panics for some damaged files
        found = f"{type(error).__name__}: {short(str(error), 200)}"
        raise StorageError("a file of references cannot be read", key=key, found=found) from error
    if not names & {"path", "raw"}:
        raise StorageError("a file of references has no references", key=key, found=", ".join(sorted(names)))
    return _Rows(paths, offsets, sizes, raws)
