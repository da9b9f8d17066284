"""Byte ranges of one file, local or in a store, and the file as a seekable object for `zipfile`.

A file that was replaced or changed while it is read is an error, never other bytes.
"""

from __future__ import annotations

import io
import os
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zarrstack.core.errors import StorageError

from ..local.files import open_regular, read_at
from ..remote.event_loop import run
from ..versions import Version, has_version, source_object_changed

if TYPE_CHECKING:
    from ..remote.remote_storage import RemoteStorage

_MAX_READ: Final = 1 << 30
"""Maximum number of bytes that one read of a library gets: a directory of ten million members."""
_AHEAD: Final = 16 << 10
"""Bytes of a read at a new position, at least."""


class Ranges(ABC):
    """One version of a file."""

    shown: str
    """Its path or URL, without secrets, for messages."""
    place: str
    """What is different for another file; it may contain secrets."""
    size: int
    """In bytes."""
    state: str
    """A text that is different for another version of the file; "" if the server tells none."""

    @abstractmethod
    async def read(self, start: int, length: int) -> bytes:
        """Bytes of the file, fewer at its end, in the storage's loop.

        Raises SourceChangedError for another version, StorageError if it is missing, and the errors of the
        library below, which the caller repeats or converts.
        """

    @abstractmethod
    def read_now(self, start: int, length: int) -> bytes:
        """The same from any other thread; every error is a ZarrstackError."""

    @abstractmethod
    def now(self) -> Ranges:
        """The file as it is now; StorageError if it is missing. From any thread but the loop's."""

    async def exactly(self, start: int, length: int) -> bytes:
        """Like `read`; StorageError if the file ends before."""
        data = await self.read(start, length)
        if len(data) != length:
            raise StorageError("the file ended early", found=f"{len(data)} of {length} bytes at {start}")
        return data


class LocalRanges(Ranges):
    """A file on this machine."""

    def __init__(self, path: Path) -> None:
        """OSError, or BadObjectError for a pipe, a socket or a device."""
        descriptor, facts = open_regular(path)
        os.close(descriptor)
        self._path = path
        self.shown = self.place = str(path)
        self.size = facts.st_size
        self._version = (facts.st_size, facts.st_mtime_ns)
        self.state = f"{facts.st_size} {facts.st_mtime_ns}"

    async def read(self, start: int, length: int) -> bytes:
        descriptor, facts = open_regular(self._path)
        try:
            if not has_version(facts, self._version):
                raise source_object_changed()
            return read_at(descriptor, length, start)
        finally:
            os.close(descriptor)

    def read_now(self, start: int, length: int) -> bytes:
        """As `read`, which does not wait for anything."""
        reading = self.read(start, length)
        try:
            reading.send(None)
        except StopIteration as done:
            data: bytes = done.value
            return data
        except OSError as error:
            raise StorageError("cannot read the file", found=f"{self.shown}: {error.strerror}") from error
        raise AssertionError

    def now(self) -> Ranges:
        try:
            return LocalRanges(self._path)
        except OSError as error:
            raise StorageError("cannot read the file", found=f"{self.shown}: {error.strerror}") from error


class StoreRanges(Ranges):
    """The object whose place is the path of a storage."""

    def __init__(self, storage: RemoteStorage, size: int, version: Version | None) -> None:
        """`size` and `version` are those of the object."""
        self._storage, self._version = storage, version
        self.shown, self.size = storage.url, size
        self.state = "" if version is None else str(version)
        self.place = f"{storage.url} {storage.base} {storage.identity!r}"

    async def read(self, start: int, length: int) -> bytes:
        stop = min(start + length, self.size)
        if stop <= start:
            return b""
        data = await self._storage.read_part(self._storage.base, slice(start, stop), self._version)
        if data is None:
            raise source_object_changed()
        return data

    def read_now(self, start: int, length: int) -> bytes:
        """One request, repeated after transient errors."""
        return run(self._storage.request("cannot read", "", lambda: self.read(start, length), single=True))

    def now(self) -> Ranges:
        storage = self._storage
        head = run(storage.request("cannot read", "", lambda: storage.head(storage.base)))
        if head is None or head.size is None:
            raise StorageError("the file is missing", found=self.shown)
        return StoreRanges(storage, head.size, head.version)


class SeekableFile(io.RawIOBase):
    """A file by its ranges, for `zipfile`; keeps the bytes of the last request."""

    def __init__(self, ranges: Ranges) -> None:
        super().__init__()
        self._ranges = ranges
        self._at = 0
        self._start = 0
        self._block = b""

    def keep(self, start: int) -> None:
        """Read everything from `start` on in one request."""
        self._start = max(start, 0)
        self._block = self._ranges.read_now(self._start, self._ranges.size - self._start)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Set the position; OSError for a negative one, as files do."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._ranges.size}[whence]
        if base + offset < 0:
            raise OSError("negative seek value")
        self._at = base + offset
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        """Bytes from the position on; StorageError for more than a directory of members can be."""
        rest = max(self._ranges.size - self._at, 0)
        wanted = rest if size is None or size < 0 else min(size, rest)
        if wanted > _MAX_READ:
            raise StorageError(
                "the directory of the file is too large",
                found=f"{wanted} bytes in {self._ranges.shown}",
                expected=f"at most {_MAX_READ} bytes",
            )
        offset = self._at - self._start
        if offset < 0 or offset + wanted > len(self._block):
            self._start, offset = self._at, 0
            self._block = self._ranges.read_now(self._at, max(wanted, _AHEAD))
            if len(self._block) < wanted:
                raise StorageError("the file ended early", found=f"{self._ranges.shown}, at {self._at}")
        self._at += wanted
        return self._block[offset : offset + wanted]
