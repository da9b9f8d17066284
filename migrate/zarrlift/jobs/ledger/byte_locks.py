"""Locks of a file that SQLite may have open too, between processes."""

from __future__ import annotations

import errno
import struct
import sys
from functools import partial
from typing import Final

from zarrstack.system import file_locks

if sys.platform != "win32":
    import fcntl

HERE: Final = file_locks.HERE
"""Whether there are locks; without, nothing is locked."""

_FLOCK: Final = struct.Struct("hhqqi0q")
"""`struct flock` of Linux: type, whence, start, length, process."""
_BYTE: Final = 0x4000_1000
"""The byte that stands for a file; SQLite locks 512 at 0x4000_0000 (https://www.sqlite.org/lockingv3.html)."""


def lock_byte(fd: int, *, shared: bool = False) -> None:
    """Lock a file against other callers of this, but not against SQLite; BlockingIOError if it is locked.

    With `shared`, only against callers without it.

    One byte that SQLite leaves alone is locked where possible. On NFS and SMB, `flock` locks all bytes, which
    excludes SQLite's own locks, even those of this process. OSError of file systems without locks.
    """
    if _byte_lock(fd, shared=shared) is None:
        (file_locks.lock_shared if shared else partial(file_locks.lock_exclusive, wait=False))(fd)


def is_byte_locked(fd: int) -> bool:
    """Whether a file is locked by `lock_byte` of another open file."""
    locked = _byte_lock(fd, only_ask=True)
    return _is_held(fd) if locked is None else locked


def _byte_lock(fd: int, *, only_ask: bool = False, shared: bool = False) -> bool | None:
    """Lock the byte, or ask whether another open file has it locked.

    None if the system has no locks of bytes that belong to an open file.
    """
    if sys.platform == "linux":
        kind = fcntl.F_RDLCK if shared else fcntl.F_WRLCK
        command = fcntl.F_OFD_GETLK if only_ask else fcntl.F_OFD_SETLK
        try:
            lock = fcntl.fcntl(fd, command, _FLOCK.pack(kind, 0, _BYTE, 1, 0))
        except OSError as error:
            if error.errno == errno.EINVAL:
                return None
            if error.errno == errno.EACCES:  # the other name of EAGAIN here
                raise BlockingIOError(error.errno, error.strerror) from error
            raise
        return bool(_FLOCK.unpack(lock)[0] != fcntl.F_UNLCK)
    return None


def _is_held(fd: int) -> bool:
    """Whether another process holds an exclusive lock; may briefly interfere with one acquiring it."""
    if sys.platform != "win32":
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        file_locks.release(fd)
    return False
