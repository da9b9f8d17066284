"""Linux: its `/proc` (proc(5)), its locks of bytes, reflinks, and the allocator of glibc."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import sys
from pathlib import Path
from typing import Final

from .other import Posix, State  # type: ignore[attr-defined, unused-ignore]  # none imports it on Windows

assert sys.platform == "linux"

_FICLONE: Final = 0x40049409
"""The ioctl that lets a file share another's blocks (linux/fs.h)."""
_FLOCK: Final = struct.Struct("hhqqi0q")
"""`struct flock`: type, whence, start, length, process."""
_BYTE: Final = 0x4000_1000
"""The byte that stands for a file; SQLite locks 512 at 0x4000_0000 (https://www.sqlite.org/lockingv3.html)."""
_STARTED: Final = 19
"""Index of `starttime` in the fields of `/proc/PID/stat` after the name; the first is the state."""
_ENDED: Final = frozenset("ZXx")
"""States of an ended process whose parent has not read its exit code."""
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Parameters of glibc's `mallopt` (malloc.h)."""
_KEPT: Final = 256 << 20
_MOST: Final = 32 << 20
"""Bytes that may stay free at the end of a heap, and minimum size of a separate mapping (the maximum that
glibc accepts).
"""


class Linux(Posix):
    """Linux."""

    forks = True

    def share_blocks(self, reading: int, writing: int) -> bool:
        """FICLONE."""
        fcntl.ioctl(writing, _FICLONE, reading)
        return True

    def sync(self, directory: str) -> bool:
        """`syncfs`, which waits for completion."""
        import ctypes  # loaded by numpy already

        syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
        if syncfs is None:
            os.sync()
            return True
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            return bool(syncfs(descriptor) == 0)
        finally:
            os.close(descriptor)

    def lock_beside_sqlite(self, fd: int, *, shared: bool = False) -> None:
        """One byte that SQLite leaves alone, where the kernel has locks of open files."""
        if _byte_lock(fd, fcntl.F_OFD_SETLK, fcntl.F_RDLCK if shared else fcntl.F_WRLCK) is None:
            super().lock_beside_sqlite(fd, shared=shared)

    def is_locked_beside_sqlite(self, fd: int) -> bool:
        """Asked without a lock, where the kernel has locks of open files."""
        kind = _byte_lock(fd, fcntl.F_OFD_GETLK, fcntl.F_WRLCK)
        return super().is_locked_beside_sqlite(fd) if kind is None else kind != fcntl.F_UNLCK

    def keep_freed_memory(self) -> None:
        """Glibc's heap.

        glibc returns memory freed at its end to the system and requests it again for the next chunk; threads
        wait for each other's page faults. Peak memory is unchanged.
        """
        import ctypes  # already loaded by numpy

        set_option = getattr(ctypes.CDLL(None), "mallopt", None)
        if set_option is not None:  # absent in musl
            set_option(_TRIM_THRESHOLD, _KEPT)
            set_option(_MMAP_THRESHOLD, _MOST)

    def machine(self) -> str:
        """`/etc/machine-id`."""
        return _content("/etc/machine-id")

    def boot(self) -> str:
        """The boot id in `/proc`."""
        return _content("/proc/sys/kernel/random/boot_id")

    def namespace(self) -> str:
        """That of process ids."""
        try:
            return os.readlink("/proc/self/ns/pid")
        except OSError:
            return ""

    def started(self, pid: int) -> str:
        """In clock ticks since boot."""
        return (_facts(pid) or ("", ""))[1]

    def state_of(self, pid: int, start: str) -> State:
        """A process of the same id and start that is not a zombie."""
        if super().state_of(pid, start) == "ended":
            return "ended"
        facts = _facts(pid)
        if facts is None or not start:
            return "running" if pid == os.getpid() else "unknown"
        return "ended" if facts[0] in _ENDED or facts[1] != start else "running"


def _byte_lock(fd: int, command: int, kind: int) -> int | None:
    """The type of lock in the kernel's answer; None if it has no locks that belong to an open file."""
    try:
        answer = fcntl.fcntl(fd, command, _FLOCK.pack(kind, 0, _BYTE, 1, 0))
    except OSError as error:
        if error.errno == errno.EINVAL:
            return None
        if error.errno == errno.EACCES:  # the other name of EAGAIN here
            raise BlockingIOError(error.errno, error.strerror) from error
        raise
    return int(_FLOCK.unpack(answer)[0])


def _facts(pid: int) -> tuple[str, str] | None:
    """State and start of a process; None if unreadable."""
    fields = _content(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return (fields[0], fields[_STARTED]) if len(fields) > _STARTED else None


def _content(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
