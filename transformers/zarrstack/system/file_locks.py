"""Locks on open files between processes, on systems with `flock`: not on Windows.

The system releases them when the process ends. `HERE` is whether they are available; without them, nothing is
locked, and callers that depend on locks must refuse.
"""

from __future__ import annotations

import sys
from typing import Final

HERE: Final = sys.platform != "win32"

if sys.platform != "win32":
    import fcntl


def lock_exclusive(fd: int, *, wait: bool = True) -> None:
    """Lock a file exclusively; without `wait`, BlockingIOError if another process has it locked."""
    if sys.platform != "win32":
        fcntl.flock(fd, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)


def lock_shared(fd: int) -> None:
    """Lock a file shared."""
    if sys.platform != "win32":
        fcntl.flock(fd, fcntl.LOCK_SH)


def release(fd: int) -> None:
    """Release the lock."""
    if sys.platform != "win32":
        fcntl.flock(fd, fcntl.LOCK_UN)
