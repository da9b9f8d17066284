"""Writes objects atomically and as fast as the storage allows.

A local object is written to the job's own directory (`.zarrlift-<job>` in the destination's root) and renamed
into place, so the remains of a killed process are in one directory and are removed together. Object stores
write whole objects.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import shutil
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final

from ...core.codecs.base import Buffer, memory
from ..listed_versions import Version, require_version
from ..writer import DestinationError, ObjectStream, PayloadCheck, Writer
from .file_copy import copy_by_hand, copy_range, ends_of_file, reflink, write_all
from .files import CREATING, ReadLimit, open_regular, read_file
from .scratch import directory_of
from .storage import LocalStorage
from .system_errors import storage_error

_MAX_BUFFERS: Final = 1024
"""Maximum number of buffers in one system call (IOV_MAX of Linux; POSIX guarantees 16)."""


_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS})
"""Errors that only the written file can cause."""


class FileStream(ObjectStream):
    """A temporary file that is renamed at the end."""

    def __init__(self, writer: LocalWriter, temporary: str, key: str, reserve: int) -> None:
        self.size = reserve
        self._writer = writer
        self._path = temporary
        self._key = key
        self._descriptor = -1
        with self._closed_on_error():
            self._descriptor = os.open(temporary, CREATING, 0o666)
            if reserve:
                os.lseek(self._descriptor, reserve, os.SEEK_SET)

    def append(self, parts: Sequence[Buffer]) -> None:
        with self._closed_on_error():
            for start in range(0, len(parts), _MAX_BUFFERS):
                self._write([memory(part).cast("B") for part in parts[start : start + _MAX_BUFFERS]])

    def take(self, descriptor: int, size: int) -> bool:
        with self._closed_on_error(_FULL):
            if not copy_range(descriptor, self._descriptor, size):
                return False
        self.size += size
        return True

    def _write(self, views: list[memoryview]) -> None:
        self.size += sum(map(len, views))
        written = os.writev(self._descriptor, views) if hasattr(os, "writev") else 0
        while views and written >= len(views[0]):
            written -= len(views.pop(0))
        if views:  # a nearly full disk accepts only a part, without an error
            views[0] = views[0][written:]
            write_all(self._descriptor, b"".join(views))

    def finish(self, head: bytes = b"") -> None:
        with self._closed_on_error():
            if head:
                os.lseek(self._descriptor, 0, os.SEEK_SET)
                write_all(self._descriptor, head)
            if self._writer.fsync:
                os.fsync(self._descriptor)
            self._close()
            self._writer.publish(self._path, self._key)

    def discard(self) -> None:
        self._close()
        with contextlib.suppress(OSError):
            os.unlink(self._path)

    @contextlib.contextmanager
    def _closed_on_error(self, codes: Collection[int] | None = None) -> Iterator[None]:
        """Close the file at an error, or one of these, and raise it as DestinationError."""
        try:
            yield
        except OSError as error:
            if codes is not None and error.errno not in codes:
                raise
            self._close()
            raise self._writer.failed(self._path, self._key, error) from error

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class LocalWriter(Writer):
    """A writer to a local directory."""

    storage: LocalStorage

    def __init__(
        self, storage: LocalStorage, job_id: str, *, fsync: bool = False, in_place: bool = False
    ) -> None:
        """`in_place`: most directories to write to already exist."""
        self.storage = storage
        self.fsync = fsync
        self.in_place = in_place
        self.scratch = storage.path(directory_of(job_id))
        # Workers on several machines share the directory, and their process and thread ids may be equal.
        self._token = os.urandom(4).hex()
        self._made: set[str] = set()
        self._streams = itertools.count()
        self._local = threading.local()
        self._no_reflink: set[tuple[int, int]] = set()
        self._no_range: set[tuple[int, int]] = set()

    def write(self, key: str, data: Buffer) -> None:
        self._make(key, write_all, data)

    def stream(self, key: str, *, reserve: int = 0) -> ObjectStream:
        """A stream to a temporary file of the job, renamed at the end."""
        return FileStream(self, f"{self.temporary()}-{next(self._streams)}", key, reserve)

    def copy(
        self, source: str, key: str, payload_check: PayloadCheck, version: Version | None = None
    ) -> int | None:
        """Copy the file at `source`, after `payload_check` has checked its ends, without trailing bytes.

        Returns its size in bytes, or None if it is missing. The bytes are shared by reflink if the file
        system supports it, else copied inside the kernel, else by read and write. SourceChangedError if the
        file does not have the `version`, before or after the copy.
        """
        try:
            reading, facts = open_regular(source)
        except FileNotFoundError:
            return None
        try:
            size = facts.st_size
            if not payload_check.check(ends_of_file(reading, size)):
                whole = payload_check.check_whole(read_file(source, ReadLimit(payload_check.most_stored)))
                if (rest := memory(whole).nbytes) != size:
                    require_version(reading, version)
                    self.write(key, whole)
                    return rest

            def fill(writing: int) -> None:
                self._copy_between(reading, writing, size)
                require_version(reading, version)

            require_version(reading, version)
            self._make(key, fill)
            return size
        finally:
            os.close(reading)

    def link(
        self, source: str, key: str, payload_check: PayloadCheck, version: Version | None = None
    ) -> int | None:
        """Make `key` a hard link to the file at `source`; otherwise like `copy`.

        A file with bytes behind the payload's end is copied without them.
        """
        try:
            reading, facts = open_regular(source)
        except FileNotFoundError:
            return None
        try:
            size = facts.st_size
            ends = ends_of_file(reading, size)
            require_version(reading, version)
        finally:
            os.close(reading)
        if not payload_check.check(ends):
            whole = payload_check.check_whole(read_file(source, ReadLimit(payload_check.most_stored)))
            if (rest := memory(whole).nbytes) != size:
                self.write(key, whole)
                return rest
        target = self.storage.path(key)
        real = os.path.realpath(source) if os.path.islink(source) else source
        try:
            self.make_directory(target.rpartition(os.sep)[0])
            try:
                os.link(real, target)
            except FileExistsError:
                # Left by an earlier, killed run of this job. Its array may be visible by now, so the name
                # must exist at every moment; and rename() does nothing between two names of one file.
                if not os.path.samestat(facts, os.lstat(target)):
                    self._replace_by_link(real, target)
        except OSError as error:
            raise self.failed(None, key, error) from error
        self._remember(target)
        return size

    def _replace_by_link(self, real: str, target: str) -> None:
        temporary = f"{self.temporary()}-link"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        os.link(real, temporary)
        os.replace(temporary, target)

    def settle(self) -> None:
        """With `fsync`, make the names written by this thread durable too."""
        if not self.fsync:
            return
        touched: set[str] = getattr(self._local, "touched", set())
        for directory in touched:
            _fsync_directory(directory)
        touched.clear()

    def forked(self) -> None:
        """Reset names, because a forked process has the thread ids of its parent."""
        self._token = os.urandom(4).hex()
        self._local = threading.local()

    def close(self) -> None:
        """Remove the job's own directory."""
        shutil.rmtree(self.scratch, ignore_errors=True)

    def _make(self, key: str, fill: Callable[..., None], *data: Buffer) -> None:
        """Write an object with `fill(descriptor, *data)`; it appears when it is complete."""
        temporary = self.temporary()
        try:
            descriptor = os.open(temporary, CREATING, 0o666)
            try:
                fill(descriptor, *data)
                if self.fsync:
                    os.fsync(descriptor)
            finally:
                os.close(descriptor)
            self.publish(temporary, key)
        except OSError as error:
            raise self.failed(temporary, key, error) from error

    def _copy_between(self, reading: int, writing: int, size: int) -> None:
        pair = (os.fstat(reading).st_dev, os.fstat(writing).st_dev)
        if pair not in self._no_reflink:
            if reflink(reading, writing):
                return
            self._no_reflink.add(pair)
        if pair not in self._no_range:
            if copy_range(reading, writing, size):
                return
            self._no_range.add(pair)
        copy_by_hand(reading, writing, size)

    def publish(self, temporary: str, key: str) -> None:
        """Rename a complete temporary file to its object; OSError."""
        target = self.storage.path(key)
        directory = target.rpartition(os.sep)[0]
        if not self.in_place:
            self.make_directory(directory)
        try:
            os.replace(temporary, target)
        except FileNotFoundError:
            if not self.in_place:
                raise
            self.make_directory(directory)
            os.replace(temporary, target)
        self._remember(target)

    def _remember(self, target: str) -> None:
        if self.fsync:
            if not hasattr(self._local, "touched"):
                self._local.touched = set()
            self._local.touched.add(os.path.dirname(target))

    def make_directory(self, path: str) -> None:
        """Make a directory below the root, and its parents, unless this writer has done so; OSError."""
        if path in self._made:
            return
        try:
            os.mkdir(path)
        except FileExistsError:
            pass
        except FileNotFoundError:
            self.make_directory(os.path.dirname(path))
            with contextlib.suppress(FileExistsError):  # another thread has created it
                os.mkdir(path)
        if self.fsync:
            _fsync_directory(os.path.dirname(path))
        self._made.add(path)

    def temporary(self) -> str:
        """The path of this thread's temporary file; DestinationError."""
        name: str | None = getattr(self._local, "name", None)
        if name is None:
            try:
                os.makedirs(self.scratch, exist_ok=True)
            except OSError as error:
                raise self.failed(None, self.scratch, error) from error
            name = self._local.name = f"{self.scratch}/{self._token}-{threading.get_ident()}"
        return name

    def failed(self, temporary: str | None, key: str, error: OSError) -> DestinationError:
        """The error to raise if the destination refuses; removes `temporary`."""
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        plain = storage_error("cannot write", key, error).problem
        return DestinationError(plain.message, key=key, found=plain.found, advice=plain.advice)


def _fsync_directory(path: str) -> None:
    if sys.platform == "win32":  # directories cannot be opened, and names are durable anyway
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
