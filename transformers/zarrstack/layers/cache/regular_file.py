"""Opens the files of a cache folder without waiting: opening a pipe blocks until another process opens it."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import Final

_WITHOUT_WAITING: Final = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


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
