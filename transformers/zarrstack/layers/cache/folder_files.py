"""The files of a cache folder: opened without waiting, and locked between processes."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import threading
from typing import Final

from ...system import file_locks

_WITHOUT_WAITING: Final = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
"""Opening a pipe blocks otherwise until another process opens it."""


class NotRegularError(OSError):
    """A pipe, a socket, a device or a directory is in the place of a file."""


def open_regular(path: str, flags: int = os.O_RDONLY) -> int:
    """A descriptor of a regular file; NotRegularError for anything else, and OSError."""
    try:
        fd = os.open(path, flags | _WITHOUT_WAITING, 0o666)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket, or a pipe without a reader
            raise NotRegularError(errno.EINVAL, "not a regular file", path) from error
        raise
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    raise NotRegularError(errno.EINVAL, "not a regular file", path)


def create_new(path: str) -> int:
    """A descriptor of the new file that will replace this one; OSError.

    What a killed process left under its name is removed.
    """
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path + ".new")
    return os.open(path + ".new", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)


class FileLock:
    """A lock between threads and, by flock, between processes."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.fd = open_regular(path, os.O_RDWR | os.O_CREAT)
        self._threads = threading.Lock()

    def __enter__(self) -> None:
        self._threads.acquire()
        try:
            file_locks.lock_exclusive(self.fd)
        except BaseException:
            self._threads.release()
            raise

    def __exit__(self, *_: object) -> None:
        try:
            if self.fd >= 0:
                file_locks.release(self.fd)
        finally:
            self._threads.release()

    def share(self) -> None:
        """Hold the lock shared until it is closed."""
        file_locks.lock_shared(self.fd)

    def try_alone(self) -> bool:
        """Take the lock exclusively if it is free; return whether it was."""
        try:
            file_locks.lock_exclusive(self.fd, wait=False)
        except BlockingIOError:
            return False
        return True

    def is_current(self) -> bool:
        """Whether the path still names the open file: the folder may have been removed."""
        try:
            at_path, opened = os.stat(self.path), os.fstat(self.fd)
        except FileNotFoundError:
            return False
        return (at_path.st_ino, at_path.st_dev) == (opened.st_ino, opened.st_dev)

    def close(self) -> None:
        """Close the file, which releases the lock."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
