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
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Final

from zarrstack.core.errors import StorageError

from ...core.codecs.base import Buffer, memory
from ..versions import Version, require_version
from ..writer import DestinationError, ObjectStream, PayloadCheck, Writer
from .file_copy import copy_by_hand, copy_range, ends_of_file, reflink, write_all
from .files import ReadLimit, open_regular, read_file, storage_error
from .open_directories import OpenDirectory
from .own_names import directory_of
from .storage import LocalStorage

_MAX_BUFFERS: Final = 1024
"""Maximum number of buffers in one system call (IOV_MAX of Linux; POSIX guarantees 16)."""


_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS})
"""Errors that only the written file can cause."""


class FileStream(ObjectStream):
    """A temporary file that is renamed at the end."""

    def __init__(self, writer: LocalWriter, temporary: str, key: str, reserve: int) -> None:
        """`temporary`: a name in the writer's scratch directory."""
        self.size = reserve
        self._writer = writer
        self._name = temporary
        self._key = key
        self._descriptor = -1
        with self._closed_on_error():
            self._descriptor = writer.scratch().create(temporary)
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
            self._writer.publish(self._name, self._key)

    def discard(self) -> None:
        self._close()
        self._writer.discard(self._name)

    @contextlib.contextmanager
    def _closed_on_error(self, codes: Collection[int] | None = None) -> Iterator[None]:
        """Close the file at an error, or one of these, and raise it as DestinationError."""
        try:
            yield
        except OSError as error:
            if codes is not None and error.errno not in codes:
                raise
            self._close()
            raise self._writer.failed(self._name, self._key, error) from error

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
        self._scratch_key = directory_of(job_id)
        self._scratch: OpenDirectory | None = None
        storage.opened.durable = fsync
        # Workers on several machines share the directory, and their process and thread ids may be equal.
        self._token = os.urandom(4).hex()
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
        real = os.path.realpath(source) if os.path.islink(source) else source

        def link(at: OpenDirectory, name: str) -> None:
            target = at.prefix + name
            try:
                os.link(real, target, dst_dir_fd=at.descriptor)
            except FileExistsError:
                # Left by an earlier, killed run of this job. Its array may be visible by now, so the name
                # must exist at every moment; and rename() does nothing between two names of one file.
                existing = os.stat(target, dir_fd=at.descriptor, follow_symlinks=False)
                if not os.path.samestat(facts, existing):
                    self._replace_by_link(real, at, name)

        try:
            self.named(key, link)
        except OSError as error:
            raise self.failed(None, key, error) from error
        return size

    def _replace_by_link(self, real: str, at: OpenDirectory, name: str) -> None:
        temporary, scratch = f"{self.temporary()}-link", self.scratch()
        self.discard(temporary)
        os.link(real, scratch.prefix + temporary, dst_dir_fd=scratch.descriptor)
        scratch.rename(temporary, at, name)

    def settle(self) -> None:
        """With `fsync`, make the names written by this thread durable too."""
        if not self.fsync:
            return
        touched: set[str] = getattr(self._local, "touched", set())
        for directory in touched:
            self.storage.opened.at(directory).fsync()
        touched.clear()

    def forked(self) -> None:
        """Reset names, because a forked process has the thread ids of its parent."""
        self._token = os.urandom(4).hex()
        self._local = threading.local()

    def prepare(self) -> None:
        """Make the job's own directory, without which workers elsewhere write nothing; DestinationError."""
        self.temporary()

    def close(self) -> None:
        """Remove the job's own directory."""
        self._scratch = None
        self._local = threading.local()
        with contextlib.suppress(StorageError):
            self.storage.delete_tree(self._scratch_key)

    def _make(self, key: str, fill: Callable[..., None], *data: Buffer) -> None:
        """Write an object with `fill(descriptor, *data)`; it appears when it is complete."""
        temporary = self.temporary()
        try:
            descriptor = self.scratch().create(temporary)
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
        self.named(key, partial(self.scratch().rename, temporary))

    def named(self, key: str, give: Callable[[OpenDirectory, str], None]) -> None:
        """Give an object its name with `give(directory, name)`; OSError."""
        directory, _, name = key.rpartition("/")
        try:
            give(self.storage.opened.at(directory, make=True), name)
        except FileNotFoundError:  # the open directory was removed
            give(self.storage.opened.at(directory, make=True, fresh=True), name)
        if self.fsync:
            if not hasattr(self._local, "touched"):
                self._local.touched = set()
            self._local.touched.add(directory)

    def scratch(self) -> OpenDirectory:
        """The job's own directory, opened; it is made at the first use. OSError."""
        scratch = self._scratch
        if scratch is None:
            root = self.storage.opened.root(make=True)
            if self.storage.opened.marker is None:
                root.make(self._scratch_key)
            scratch = self._scratch = root.open(self._scratch_key)
        return scratch

    def discard(self, temporary: str) -> None:
        """Remove a file of the scratch directory if it is there."""
        with contextlib.suppress(OSError):
            self.scratch().unlink(temporary)

    def temporary(self) -> str:
        """The name of this thread's temporary file in the scratch directory; DestinationError."""
        name: str | None = getattr(self._local, "name", None)
        if name is None:
            try:
                self.scratch()
            except OSError as error:
                raise self.failed(None, self._scratch_key, error) from error
            name = self._local.name = f"{self._token}-{threading.get_ident()}"
        return name

    def failed(self, temporary: str | None, key: str, error: OSError) -> DestinationError:
        """The error to raise if the destination refuses; removes `temporary`."""
        if temporary is not None:
            self.discard(temporary)
        return DestinationError.of(storage_error("cannot write", key, error).problem)
