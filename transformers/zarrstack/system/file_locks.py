"""Locks on open files between processes, on systems with `flock`: not on Windows.

The system releases them when the process ends. `HERE` is whether they are available; without them, nothing is
locked, and callers that depend on locks must refuse.
"""

from __future__ import annotations

import errno
import struct
import sys
from typing import Final

HERE: Final = sys.platform != "win32"

if sys.platform != "win32":
    import fcntl

_FLOCK: Final = struct.Struct("hhqqi0q")
"""`struct flock` of Linux: type, whence, start, length, process."""
_BYTE: Final = 0x4000_1000
"""The byte that stands for a file; SQLite locks 512 at 0x4000_0000 (https://www.sqlite.org/lockingv3.html)."""


def lock_exclusive(fd: int, *, wait: bool = True) -> None:
    """Lock a file exclusively; without `wait`, BlockingIOError if another process has it locked."""
    if sys.platform != "win32":
        fcntl.flock(fd, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)


def is_held(fd: int) -> bool:
    """Whether another process holds an exclusive lock; may briefly interfere with one acquiring it."""
    if sys.platform != "win32":
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        release(fd)
    return False


def lock_shared(fd: int) -> None:
    """Lock a file shared."""
    if sys.platform != "win32":
        fcntl.flock(fd, fcntl.LOCK_SH)


def release(fd: int) -> None:
    """Release the lock."""
    if sys.platform != "win32":
        fcntl.flock(fd, fcntl.LOCK_UN)


def lock_byte(fd: int) -> None:
    """Lock a file against other callers of this, but not against SQLite; BlockingIOError if it is locked.

    One byte that SQLite leaves alone is locked where possible. On NFS and SMB, `flock` locks all bytes, which
    excludes SQLite's own locks, even those of this process. OSError of file systems without locks.
    """
    if _byte_lock(fd) is None:
        lock_exclusive(fd, wait=False)


def is_byte_locked(fd: int) -> bool:
    """Whether a file is locked by `lock_byte` of another open file."""
    locked = _byte_lock(fd, only_ask=True)
    return is_held(fd) if locked is None else locked


def _byte_lock(fd: int, *, only_ask: bool = False) -> bool | None:
    """Lock the byte exclusively, or ask whether another open file has it locked.

    None if the system has no locks of bytes that belong to an open file.
    """
    if sys.platform == "linux":
        command = fcntl.F_OFD_GETLK if only_ask else fcntl.F_OFD_SETLK
        try:
            lock = fcntl.fcntl(fd, command, _FLOCK.pack(fcntl.F_WRLCK, 0, _BYTE, 1, 0))
        except OSError as error:
            if error.errno == errno.EINVAL:
                return None
            if error.errno == errno.EACCES:  # the other name of EAGAIN here
                raise BlockingIOError(error.errno, error.strerror) from error
            raise
        return bool(_FLOCK.unpack(lock)[0] != fcntl.F_UNLCK)
    return None
