"""Windows: files that others hold open, locks of ranges, times of processes, jobs.

The functions of kernel32 are described at https://learn.microsoft.com/windows/win32/api.
"""

from __future__ import annotations

import ctypes
import errno
import msvcrt
import os
import shutil
import signal
import stat
import struct
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Literal, TypeAlias

assert sys.platform == "win32"

State: TypeAlias = Literal["running", "ended", "unknown"]

_DENIED: Final = 5
_HELD: Final = frozenset({_DENIED, 32, 33, 145})
"""Errors while another process has a file open: denied, sharing or lock violation, a directory not empty."""
_WAITS: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 1.5, 2.0)
"""Seconds between attempts, five in all: virus scanners and indexers need less."""
_BYTE: Final = 0x4000_0200
"""The byte that stands for a file: what a process locks, no other can read, and SQLite keeps nothing in the
page of its 512 locks at 0x4000_0000 (https://www.sqlite.org/lockingv3.html).
"""
_AT_ONCE, _EXCLUSIVE, _IS_LOCKED = 1, 2, 33
"""Flags of LockFileEx, and its error."""
_LOOKS: Final = 5
"""Attempts at a lock, which another process may have for a moment to see whether it is free."""
_QUERY, _TIE, _NO_PROCESS, _RUNNING = 0x1000, 0x101, 87, 259
"""Rights to observe a process and to put it into a job; the error without one; the code of a running one."""
_TIME_OF_DAY = 3
"""SystemTimeOfDayInformation: the start of the kernel at its byte 0, corrections of that at byte 32."""
_LIMITS, _KILL_ON_CLOSE = 9, 0x2000
"""JobObjectExtendedLimitInformation, and its flag: processes end with the last handle of their job."""
_kernel: Final = ctypes.WinDLL("kernel32", use_last_error=True)
_kernel.OpenProcess.restype = _kernel.CreateJobObjectW.restype = ctypes.c_void_p
_jobs: Final[list[ctypes.c_void_p]] = []
"""The job of this process's workers, once there are any."""


class Windows:
    """What Windows has; `Posix` in `other.py` says what is asked."""

    file_locks = False  # a locked range cannot be read
    entries_tell = False  # entries are updated later
    reopens = False  # a temporary file is deleted when it is closed, and opened once
    forks = False
    stops = (signal.SIGINT, signal.SIGTERM, signal.SIGBREAK)  # the last one also when a window is closed

    def replace(self, source: str, target: str, **named: Any) -> None:
        """Repeated."""
        _patiently(os.replace, source, target, **named)

    def unlink(self, path: str, **named: Any) -> None:
        """Repeated."""
        _patiently(os.unlink, path, **named)

    def remove_tree(self, path: str, *, ignore_errors: bool = False, **named: Any) -> None:
        """Repeated, and what is still open then is left with `ignore_errors`."""
        try:
            _patiently(shutil.rmtree, path, **named)
        except OSError:
            shutil.rmtree(path, ignore_errors=ignore_errors, **named)

    def long_path(self, path: str) -> str:
        r"""With the prefix of the kernel: `\\?\C:\x`, `\\?\UNC\server\share\x`."""
        if path.startswith("\\\\?\\"):
            return path
        return f"\\\\?\\UNC\\{path[2:]}" if path.startswith("\\\\") else f"\\\\?\\{path}"

    def lock_beside_sqlite(self, fd: int, *, shared: bool = False) -> None:
        """One byte of the page that SQLite locks."""
        handle, *byte = _byte_of(fd)
        for look in range(_LOOKS):
            if _kernel.LockFileEx(handle, _AT_ONCE if shared else _AT_ONCE | _EXCLUSIVE, *byte):
                return
            if ctypes.get_last_error() != _IS_LOCKED:
                raise ctypes.WinError(ctypes.get_last_error())
            time.sleep(0.01 * look)
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    def is_locked_beside_sqlite(self, fd: int) -> bool:
        """Locked for a moment."""
        handle, *byte = _byte_of(fd)
        if not _kernel.LockFileEx(handle, _AT_ONCE | _EXCLUSIVE, *byte):
            return True
        _kernel.UnlockFileEx(handle, *byte)
        return False

    def lock(self, fd: int, **options: bool) -> None:
        """See `file_locks`."""
        raise NotImplementedError

    def unlock(self, fd: int) -> None:
        """See `file_locks`."""

    def read_at(self, fd: int, length: int, start: int) -> bytes:
        """The position is restored."""
        before = os.lseek(fd, 0, os.SEEK_CUR)
        try:
            os.lseek(fd, start, os.SEEK_SET)
            return os.read(fd, length)
        finally:
            os.lseek(fd, before, os.SEEK_SET)

    def share_blocks(self, reading: int, writing: int) -> bool:
        """Not here."""
        return False

    def sync(self, directory: str) -> bool:
        """Only administrators may."""
        return False

    def limit(self, name: str) -> int | None:
        """There is none."""
        return None

    def memory(self) -> int | None:
        """Physical memory."""
        status = ctypes.create_string_buffer(struct.pack("@IIQQQQQQQ", 64, *(0,) * 8), 64)
        return struct.unpack_from("@Q", status, 8)[0] if _kernel.GlobalMemoryStatusEx(status) else None

    def host(self) -> str:
        """The name of the computer."""
        return os.environ.get("COMPUTERNAME", "")

    def machine(self) -> str:
        """The address of a network card."""
        number = uuid.getnode()
        return "" if number >> 40 & 1 else f"{number:012x}"  # a number drawn at random has this bit

    def boot(self) -> str:
        """When the kernel was started, by the clock of that moment."""
        answer = ctypes.create_string_buffer(48)
        if ctypes.WinDLL("ntdll").NtQuerySystemInformation(_TIME_OF_DAY, answer, len(answer), None):
            return ""
        start, corrections = struct.unpack_from("@q24xq", answer)  # those of the clock change both
        return f"{start - corrections:x}"

    def namespace(self) -> str:
        """There is one."""
        return ""

    def keep_freed_memory(self) -> None:
        """Nothing is to be set."""

    def started(self, pid: int) -> str:
        """In units of 100 ns since 1601."""
        return _started(pid) or ""

    def state_of(self, pid: int, start: str) -> State:
        """A process of the same id and start. Signal 0 would be Ctrl-C."""
        now = _started(pid)
        return "unknown" if now is None or not start else "running" if now == start else "ended"

    def kill(self, pid: int) -> None:
        """TerminateProcess."""
        os.kill(pid, signal.SIGTERM)

    def fork(self) -> int:
        """Not here."""
        raise NotImplementedError

    def block(self, *signals: signal.Signals) -> Callable[[], object]:
        """Nothing is to be blocked where nothing is copied."""
        return lambda: None

    def pipe_for_signals(self) -> tuple[int, int] | None:
        """Only sockets would do."""
        return None

    @contextmanager
    def workers_without_interrupts(self) -> Iterator[None]:
        """Processes inherit whether Ctrl-C is ignored."""
        _kernel.SetConsoleCtrlHandler(None, True)
        try:
            yield
        finally:
            _kernel.SetConsoleCtrlHandler(None, False)

    def end_with_this_process(self, pid: Any) -> None:
        """Put it into a job, whose last handle closes with this process."""
        if not _jobs:
            _jobs.append(ctypes.c_void_p(_kernel.CreateJobObjectW(None, None)))
            limits = bytes(16) + _KILL_ON_CLOSE.to_bytes(4, "little") + bytes(124)
            _kernel.SetInformationJobObject(_jobs[0], _LIMITS, limits, len(limits))
        worker = ctypes.c_void_p(_kernel.OpenProcess(_TIE, False, pid))
        _kernel.AssignProcessToJobObject(_jobs[0], worker)
        _kernel.CloseHandle(worker)


def _patiently(call: Callable[..., None], *paths: str, **named: Any) -> None:
    """Call a function of paths, again while another process has one of them open, for a bounded time."""
    for wait in _WAITS:
        try:
            return call(*paths, **named)
        except OSError as error:
            if error.winerror not in _HELD or _is_final(error):
                raise
        time.sleep(wait)
    return call(*paths, **named)


def _is_final(error: OSError) -> bool:
    """Whether access was denied because of what is at the path: a directory, or a file that is read-only."""
    try:
        facts = os.lstat(error.filename2 or error.filename)
    except OSError:
        return False
    return error.winerror == _DENIED and (stat.S_ISDIR(facts.st_mode) or not facts.st_mode & stat.S_IWRITE)


def _byte_of(fd: int) -> tuple[Any, ...]:
    """A file and the byte that stands for it, as LockFileEx and UnlockFileEx take them."""
    where = ctypes.create_string_buffer(struct.pack("@PPIIP", 0, 0, _BYTE, 0, 0))
    return ctypes.c_void_p(msvcrt.get_osfhandle(fd)), 0, 1, 0, where


def _started(pid: int) -> str | None:
    """The start of a running process, "" if no process has this id, None if it cannot be observed."""
    if pid >> 32:
        return None  # no id of this system
    handle = _kernel.OpenProcess(_QUERY, False, pid)
    if not handle:
        return "" if ctypes.get_last_error() == _NO_PROCESS else None
    process = ctypes.c_void_p(handle)
    times, code = (ctypes.c_uint64 * 4)(), ctypes.c_ulong()
    try:
        if not _kernel.GetProcessTimes(process, *(ctypes.byref(times, 8 * number) for number in range(4))):
            return None
        if not _kernel.GetExitCodeProcess(process, ctypes.byref(code)):
            return None
        return str(times[0]) if code.value == _RUNNING else ""
    finally:
        _kernel.CloseHandle(process)
