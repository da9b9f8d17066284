"""The inventories of a job's arrays in a file, so that a resume does not list the source again.

Columns are memory-mapped int64, so that 10^9 chunks take 24 GB of a file and no memory. The header is written
last; what a killed process has appended is ignored. The columns are compared with the fingerprint before they
are used, so that a damaged file never gives a wrong result: the source is listed again.
"""

from __future__ import annotations

import hashlib
import json
import logging
import mmap
import struct
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final, Self

import numpy as np

from zarrstack.core.json_text import JSONObject

from .chunk_columns import Indexes
from .chunk_inventory import Inventory, fingerprint_of

_log: Final = logging.getLogger("zarrlift")
_MAGIC: Final = b"zarrlift-chunks1"
_HEADER: Final = struct.Struct("<16sQQ16s")
"""Magic, offset and length of the table in bytes, and its digest."""
_ITEM: Final = 8
_MAPPED: Final = 1 << 16
"""Number of bytes from which columns are mapped: a process may have some 65,000 mappings."""
_WRITTEN: Final = 1 << 20
"""Rows written at once."""


class InventoryFile:
    """Inventories by path. Written by one process; `get` is thread-safe."""

    def __init__(self, path: Path | None, job: str, file: IO[bytes], arrays: dict[str, JSONObject]) -> None:
        """Use `create` or `open`."""
        self.path = path
        self._job = job
        self._file = file
        self._arrays = arrays
        self._replaced: dict[str, JSONObject] = {}
        self._checked: set[tuple[str, str]] = set()
        self._complete = bool(arrays)
        self._failed = False

    @classmethod
    def create(cls, path: Path, job: str) -> Self | None:
        """An empty file of the job with this id, in place of any other; None if it cannot be written."""
        try:
            path.unlink(missing_ok=True)  # other processes may have mapped it
            file = path.open("w+b")
            file.write(bytes(_HEADER.size))
        except OSError as error:
            _log.warning("cannot store the listing of the source in %s: %s", path, error)
            return None
        return cls(path, job, file, {})

    @classmethod
    def temporary(cls, job: str, pieces: Iterable[bytes] | None = None) -> Self | None:
        """A file without a name, with the content of another one if given; None if that is not usable."""
        try:
            file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        except OSError as error:
            _log.warning("cannot store the listing of the source: %s", error)
            return None
        table: dict[str, Any] = {}
        try:
            file.writelines([bytes(_HEADER.size)] if pieces is None else pieces)
            file.seek(0)
            table = {"job": job, "arrays": {}} if pieces is None else _table(file)
        except (OSError, ValueError, zlib.error):
            if file.seek(0, 2):
                _log.warning("the stored listing is damaged, so it is not used")
        if table.get("job") != job:
            file.close()
            return None
        return cls(None, job, file, table["arrays"])

    def pieces(self) -> Iterator[bytes]:
        """The content of a file without a name; the length of each piece is a multiple of 8."""
        end = self._file.seek(0, 2)
        self._file.write(bytes(-end % _ITEM))
        self._file.flush()
        self._file.seek(0)
        while piece := self._file.read(_WRITTEN * _ITEM):
            yield piece

    @classmethod
    def open(cls, path: Path, job: str, *, write: bool = False) -> Self | None:
        """The file of the job with this id; None if there is none that can be used."""
        try:
            file = path.open("r+b" if write else "rb")
        except FileNotFoundError:
            return None
        except OSError as error:
            _log.warning("cannot read the stored listing %s, so the source is listed: %s", path, error)
            return None
        try:
            table = _table(file)
        except (OSError, ValueError):
            table = {}
        if table.get("job") != job:
            _log.warning(
                "the stored listing %s is incomplete or belongs to another job: the source is listed", path
            )
            file.close()
            return None
        return cls(path, job, file, table["arrays"])

    def get(self, path: str, fingerprint: str | None = None) -> Inventory | None:
        """The inventory of an array; None if it is not stored or damaged.

        With a fingerprint, the inventory that has it: also one that `put` has replaced since the file was
        opened.
        """
        table = self._arrays
        if fingerprint is not None and table.get(path, {}).get("fingerprint") != fingerprint:
            table = self._replaced
        entry = table.get(path)
        if entry is None or fingerprint not in (None, entry["fingerprint"]):
            return None
        try:
            columns = self._columns(entry)
            inventory = Inventory(
                indexes=columns[0],
                sizes=columns[1] if entry["sized"] else None,
                versions=columns[-1] if entry["versioned"] else None,
                certain=True,
                fingerprint=entry["fingerprint"],
                unclaimed=tuple(entry["unclaimed"]),
                unclaimed_count=entry["unclaimed_count"],
                bad_links=tuple((key, target) for key, target in entry["bad_links"]),
                no_files=tuple((key, kind) for key, kind in entry["no_files"]),
                total_bytes=entry["total_bytes"],
            )
        except (OSError, ValueError):
            inventory = None
        checked = path, str(entry["fingerprint"])
        if checked not in self._checked:
            if inventory is None or inventory.fingerprint != fingerprint_of(
                inventory.indexes, inventory.sizes, inventory.versions
            ):
                _log.warning("the stored listing of /%s is damaged, so it is listed: %s", path, self.path)
                del table[path]
                return None
            self._checked.add(checked)
        return inventory

    def put(self, path: str, inventory: Inventory) -> bool:
        """Add the inventory of an array, or replace it; False if it cannot be stored.

        Only complete ones are stored: without a listing, there is nothing to save.
        """
        entry = self._arrays.get(path)
        if entry is not None and entry["fingerprint"] == inventory.fingerprint:
            return True
        if self._failed or not inventory.certain:
            return False
        columns = [inventory.indexes, inventory.sizes, inventory.versions]
        try:
            offset = self._file.seek(0, 2)
            offset += self._file.write(bytes(-offset % _ITEM))
            for column in columns:
                for start in range(0, 0 if column is None else len(inventory.indexes), _WRITTEN):
                    assert column is not None
                    self._file.write(column[start : start + _WRITTEN].tobytes())
            self._file.flush()
        except OSError as error:
            self._fail(error)
            return False
        if entry is not None:
            self._replaced.setdefault(path, entry)
        self._arrays[path] = {
            "offset": offset,
            "count": len(inventory.indexes),
            "sized": inventory.sizes is not None,
            "versioned": inventory.versions is not None,
            "fingerprint": inventory.fingerprint,
            "unclaimed": inventory.unclaimed,
            "unclaimed_count": inventory.unclaimed_count,
            "bad_links": inventory.bad_links,
            "no_files": inventory.no_files,
            "total_bytes": inventory.total_bytes,
        }
        self._checked.add((path, inventory.fingerprint))
        self._complete = False
        return True

    def complete(self) -> bool:
        """Make what was added visible to other processes, all at once; False if there was nothing."""
        if self._complete or self._failed:
            return False
        table = json.dumps({"job": self._job, "arrays": self._arrays}).encode("utf-8", "surrogatepass")
        try:
            offset = self._file.seek(0, 2)
            self._file.write(table)
            self._file.flush()
            self._file.seek(0)
            self._file.write(_HEADER.pack(_MAGIC, offset, len(table), _digest(table)))
            self._file.flush()
        except OSError as error:
            self._fail(error)
            return False
        self._complete = True
        return True

    def close(self) -> None:
        """Close the file, and delete it if it was never complete; inventories remain valid."""
        with suppress(OSError):  # a file without a header is ignored
            self._file.close()
            if self.path is not None and not self._complete and not _is_complete(self.path):
                self.path.unlink(missing_ok=True)

    def _fail(self, error: OSError) -> None:
        self._failed = True
        _log.warning("cannot store the listing of the source in %s: %s", self.path, error.strerror or error)

    def _columns(self, entry: JSONObject) -> list[Indexes]:
        count, number = int(entry["count"]), 1 + bool(entry["sized"]) + bool(entry["versioned"])
        if not count:
            return [np.empty(0, np.int64)] * number
        start = int(entry["offset"])
        skipped = start % mmap.ALLOCATIONGRANULARITY
        length = skipped + number * count * _ITEM
        mapped = mmap.mmap(self._file.fileno(), length, access=mmap.ACCESS_READ, offset=start - skipped)
        rows = np.frombuffer(mapped, np.int64, number * count, skipped).reshape(number, count)
        return list(rows if rows.nbytes >= _MAPPED else rows.copy())


def _table(file: IO[bytes]) -> dict[str, Any]:
    """The table to which the header refers; ValueError if it is incomplete."""
    header = file.read(_HEADER.size)
    if len(header) < _HEADER.size:
        raise ValueError
    magic, offset, length, digest = _HEADER.unpack(header)
    file.seek(offset)
    text = file.read(length) if magic == _MAGIC else b""
    if not text or _digest(text) != digest:
        raise ValueError
    table: dict[str, Any] = json.loads(text.decode("utf-8", "surrogatepass"))
    return table


def _is_complete(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def _digest(text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=16).digest()
