"""Locks between processes that share a cache folder."""

from __future__ import annotations

import os
import threading

from ...system import file_locks
from .regular_file import open_regular


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
