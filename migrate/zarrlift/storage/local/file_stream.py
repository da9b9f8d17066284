"""An object written in pieces to a local file, which is renamed at the end."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Sequence
from typing import Final

from ...core.codecs.base import Buffer, memory
from ..object_stream import ObjectStream
from ..writer import DestinationError
from .file_copy import copy_range, write_all
from .files import CREATING

_MAX_BUFFERS: Final = 1024
"""Maximum number of buffers in one system call (IOV_MAX of Linux; POSIX guarantees 16)."""


_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS})
"""Errors that only the written file can cause."""


class FileStream(ObjectStream):
    """A temporary file that is renamed at the end."""

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
        """Append pieces in order."""
        try:
            for start in range(0, len(parts), _MAX_BUFFERS):
                self._write([memory(part).cast("B") for part in parts[start : start + _MAX_BUFFERS]])
        except OSError as error:
            self._close()
            raise self._failed(error) from error

    def take(self, descriptor: int, size: int) -> bool:
        """Copy with the fastest method of the file system."""
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
        self.size += sum(map(len, views))
        written = os.writev(self._descriptor, views) if hasattr(os, "writev") else 0
        while views and written >= len(views[0]):
            written -= len(views.pop(0))
        if views:  # a nearly full disk accepts only a part, without an error
            views[0] = views[0][written:]
            write_all(self._descriptor, b"".join(views))

    def finish(self, head: bytes = b"") -> None:
        """Publish the object."""
        try:
            if head:
                os.lseek(self._descriptor, 0, os.SEEK_SET)
                write_all(self._descriptor, head)
            if self._fsync:
                os.fsync(self._descriptor)
            self._close()
            self._publish()
        except OSError as error:
            self._close()
            raise self._failed(error) from error

    def discard(self) -> None:
        """Discard what was written."""
        self._close()
        with contextlib.suppress(OSError):
            os.unlink(self._path)

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)
