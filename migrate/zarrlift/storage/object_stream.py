"""Objects that are written piece by piece: shards, which may be larger than memory.

Nothing is visible before `finish`. What is left of a stream that was never finished lies in the job's
own directory, or in the system's temporary files.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import IO, TYPE_CHECKING, Final

from zarrstack.core.codecs.base import Buffer, memory
from zarrstack.core.errors import StorageError

from .limits import SPOOLED
from .local.files import CREATING, temporary_file
from .local.writer import DestinationError, copy_range

if TYPE_CHECKING:
    from .base import Storage

_MOST_BUFFERS: Final = 1024
"""Buffers the kernel takes in one call (IOV_MAX of Linux; POSIX promises 16)."""
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS})
"""What only the file that is written can be at fault for."""


class ObjectStream(ABC):
    """One object on its way; `size` is what is written so far, the reserved bytes among it."""

    size: int

    @abstractmethod
    def append(self, parts: Sequence[Buffer]) -> None:
        """Write some pieces behind one another; raises DestinationError."""

    def take(self, descriptor: int, size: int) -> bool:
        """Write the first bytes of an open file, inside the kernel; False where that is not possible.

        Raises DestinationError if there is no room; ChunkError and OSError leave open whose fault it is.
        """
        return False

    @abstractmethod
    def finish(self, head: bytes = b"") -> None:
        """Fill what was reserved at the start with `head`, and let the object appear; DestinationError."""

    @abstractmethod
    def discard(self) -> None:
        """Forget what was written."""


class FileStream(ObjectStream):
    """A file beside, renamed at the end."""

    def __init__(
        self,
        path: str,
        reserve: int,
        publish: Callable[[], None],
        failed: Callable[[OSError], DestinationError],
        *,
        fsync: bool,
    ) -> None:
        self.size = reserve
        self._path = path
        self._publish = publish
        self._failed = failed
        self._fsync = fsync
        try:
            self._descriptor = os.open(path, CREATING, 0o666)
            if reserve:
                os.lseek(self._descriptor, reserve, os.SEEK_SET)
        except OSError as error:
            raise failed(error) from error

    def append(self, parts: Sequence[Buffer]) -> None:
        """Write some pieces behind one another."""
        try:
            for start in range(0, len(parts), _MOST_BUFFERS):
                self._write([memory(part).cast("B") for part in parts[start : start + _MOST_BUFFERS]])
        except OSError as error:
            self._close()
            raise self._failed(error) from error

    def take(self, descriptor: int, size: int) -> bool:
        """As fast as the file system copies."""
        try:
            if not copy_range(descriptor, self._descriptor, size):
                return False
        except OSError as error:
            if error.errno not in _FULL:
                raise
            self._close()
            raise self._failed(error) from error
        self.size += size
        return True

    def _write(self, views: list[memoryview]) -> None:
        total = sum(len(view) for view in views)
        written = os.writev(self._descriptor, views) if hasattr(os, "writev") else 0
        self.size += total
        if written < total:
            self._write_rest(views, written)

    def _write_rest(self, views: list[memoryview], written: int) -> None:
        """What is left of some pieces: a nearly full disk takes less than it is given, without an error."""
        for view in views:
            if written >= len(view):
                written -= len(view)
                continue
            rest = view[written:]
            written = 0
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]

    def finish(self, head: bytes = b"") -> None:
        """Let the object appear."""
        try:
            if head:
                os.lseek(self._descriptor, 0, os.SEEK_SET)
                self._write_rest([memory(head)], 0)
            if self._fsync:
                os.fsync(self._descriptor)
            self._close()
            self._publish()
        except OSError as error:
            self._close()
            raise self._failed(error) from error

    def discard(self) -> None:
        """Forget what was written."""
        self._close()
        with contextlib.suppress(OSError):
            os.unlink(self._path)

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class SpooledStream(ObjectStream):
    """An object for a store, which takes whole objects; a large one is sent from a temporary file."""

    def __init__(
        self,
        storage: Storage,
        key: str,
        reserve: int,
        put: Callable[[str, Buffer], None] | None = None,
    ) -> None:
        """`put` writes what stayed in memory; None leaves it to the storage."""
        self.size = reserve
        self._put = put or storage.put
        self._storage = storage
        self._key = key
        self._file: IO[bytes] = io.BytesIO()
        self._file.write(bytes(reserve))

    def append(self, parts: Sequence[Buffer]) -> None:
        """Write some pieces behind one another."""
        try:
            for part in parts:
                view = memory(part).cast("B")
                self._file.write(view)
                self.size += len(view)
            if self.size > SPOOLED and isinstance(self._file, io.BytesIO):
                onto_disk = temporary_file()
                onto_disk.write(self._file.getbuffer())
                self._file = onto_disk
        except OSError as error:
            raise self._failed(error) from error

    def finish(self, head: bytes = b"") -> None:
        """Let the object appear."""
        try:
            if head:
                self._file.seek(0)
                self._file.write(head)
            if isinstance(self._file, io.BytesIO):
                self._put(self._key, self._file.getvalue())
                return
            self._file.flush()
            self._file.seek(0)
            self._storage.put_file(self._key, self._file, self.size)
        except DestinationError:
            raise
        except StorageError as error:
            raise DestinationError(
                error.problem.message, key=error.problem.key, found=error.problem.found
            ) from error
        except OSError as error:
            raise self._failed(error) from error
        finally:
            self.discard()

    def discard(self) -> None:
        """Forget what was written."""
        with contextlib.suppress(OSError):  # what a full disk did not take is tried once more
            self._file.close()

    def _failed(self, error: OSError) -> DestinationError:
        return DestinationError(
            "cannot write a temporary file",
            key=self._key,
            found=error.strerror or str(error),
            advice="Free some space where temporary files go (TMPDIR) and resume.",
        )
