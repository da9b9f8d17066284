"""Locks on open files between processes, where the system has `flock`: not on Windows.

The system lets go of them by itself when the process ends. `HERE` says whether there are any; without,
nothing is locked, and whoever needs to must refuse.
"""

from __future__ import annotations

import sys
from typing import Final

HERE: Final = sys.platform != "win32"

if sys.platform != "win32":
    import fcntl


def alone(fd: int, *, wait: bool = True) -> None:
    """Hold a file as the only one; BlockingIOError without `wait` where another process has it."""
    if sys.platform != "win32":
        fcntl.flock(fd, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)


def is_held(fd: int) -> bool:
    """Whether another process holds a file as the only one; a process that begins to may be disturbed."""
    if sys.platform != "win32":
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        release(fd)
    return False


def together(fd: int) -> None:
    """Hold a file together with others."""
    if sys.platform != "win32":
        fcntl.flock(fd, fcntl.LOCK_SH)


def release(fd: int) -> None:
    """Let a file go."""
    if sys.platform != "win32":
        fcntl.flock(fd, fcntl.LOCK_UN)
