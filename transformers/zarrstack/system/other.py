"""macOS and other systems: what POSIX describes."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from typing import Any, Literal, TypeAlias

assert sys.platform != "win32"


State: TypeAlias = Literal["running", "ended", "unknown"]


class Posix:
    """What is asked of an operating system. Linux answers more of it; Windows has the same names."""

    file_locks = True
    """Whether processes can lock whole files that stay readable (`flock`)."""
    entries_tell = True
    """Whether a directory entry has the same properties as its file."""
    reopens = True
    """Whether a temporary file can be opened again by its name."""
    forks = False
    """Whether a copy of a process may use system libraries that were loaded before."""
    stops: tuple[signal.Signals, ...] = (signal.SIGINT, signal.SIGTERM)
    """The signals that ask a command to stop."""

    # Files. The first three wait a bounded time for other processes if those must not have a file open.

    def replace(
        self, source: str, target: str, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None
    ) -> None:
        """`os.replace`; OSError."""
        os.replace(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    def unlink(self, path: str, *, dir_fd: int | None = None) -> None:
        """`os.unlink`; OSError."""
        os.unlink(path, dir_fd=dir_fd)

    def remove_tree(self, path: str, *, ignore_errors: bool = False, dir_fd: int | None = None) -> None:
        """`shutil.rmtree`; OSError."""
        shutil.rmtree(path, ignore_errors=ignore_errors, dir_fd=dir_fd)

    def long_path(self, path: str) -> str:
        """An absolute path in the form that may have any length."""
        return path

    def read_at(self, fd: int, length: int, start: int) -> bytes:
        """Bytes of an open file from `start` on, without a change of its position; at most 2 GiB on Linux."""
        return os.pread(fd, length, start)

    def share_blocks(self, reading: int, writing: int) -> bool:
        """Let a file share another's blocks (a reflink); False or OSError if that is not possible."""
        return False

    def sync(self, directory: str) -> bool:
        """Flush the file system of a directory to disk; False unless it is known to be complete."""
        os.sync()
        return False

    # Locks, which the system releases when a process ends

    def lock(self, fd: int, *, shared: bool = False, wait: bool = False) -> None:
        """Lock a whole file; without `wait`, BlockingIOError if another process has it locked."""
        fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))

    def unlock(self, fd: int) -> None:
        """Release the lock."""
        fcntl.flock(fd, fcntl.LOCK_UN)

    def lock_beside_sqlite(self, fd: int, *, shared: bool = False) -> None:
        """Lock a file that SQLite may have open too; BlockingIOError if it is locked.

        With `shared`, only against callers without it. On NFS and SMB, `flock` locks all bytes, which
        excludes SQLite's own locks, even those of this process. OSError of file systems without locks.
        """
        self.lock(fd, shared=shared)

    def is_locked_beside_sqlite(self, fd: int) -> bool:
        """Whether another open file has that lock; may briefly interfere with a process acquiring it."""
        try:
            self.lock(fd, shared=True)
        except OSError:
            return True
        self.unlock(fd)
        return False

    # Limits

    def limit(self, name: str) -> int | None:
        """A limit of this process, such as RLIMIT_NOFILE (ulimit -n); None without one."""
        import resource

        limit, _ = resource.getrlimit(getattr(resource, name))
        return None if limit in (resource.RLIM_INFINITY, -1) else limit

    def memory(self) -> int | None:
        """Bytes of memory of the machine; None if the system does not tell."""
        with suppress(ValueError, OSError):  # not provided by some Unix systems
            return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return None

    def keep_freed_memory(self) -> None:
        """Let this process reuse freed memory instead of returning it to the system."""

    # Processes

    def host(self) -> str:
        """The name of this host; "" if it has none."""
        return os.uname().nodename

    def machine(self) -> str:
        """A network card's address, or another id that distinguishes hosts of one name; "" without one."""
        import uuid

        number = uuid.getnode()
        return "" if number >> 40 & 1 else f"{number:012x}"  # a number drawn at random has this bit

    def boot(self) -> str:
        """An id of the current boot; "" if unavailable."""
        return ""

    def namespace(self) -> str:
        """The namespace of process ids: containers on one host may use equal ids."""
        return ""

    def started(self, pid: int) -> str:
        """When a process was started, because process ids are reused; "" if it cannot be observed."""
        return ""

    def state_of(self, pid: int, start: str) -> State:
        """Whether a process of this boot that was started then is still running; nothing is guessed."""
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return "ended"
        except (PermissionError, OverflowError):  # another user's process; no id of this system
            pass
        return "running" if pid == os.getpid() else "unknown"

    def kill(self, pid: int) -> None:
        """End a process at once."""
        os.kill(pid, signal.SIGKILL)

    def fork(self) -> int:
        """Copy this process; returns 0 in the copy. OSError."""
        return os.fork()

    def block(self, *signals: signal.Signals) -> Callable[[], object]:
        """Block signals, also of processes that this thread starts, and return what restores them."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
        return partial(signal.pthread_sigmask, signal.SIG_SETMASK, before)

    def pipe_for_signals(self) -> tuple[int, int] | None:
        """A pipe, of which `signal.set_wakeup_fd` takes the second end; None if it takes none."""
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        return reading, writing

    def workers_without_interrupts(self) -> AbstractContextManager[object]:
        """Let processes that start meanwhile leave Ctrl-C to the coordinator: this thread blocks it."""
        from multiprocessing import resource_tracker

        resource_tracker.ensure_running()  # which would unblock it
        self.block(signal.SIGINT)
        return nullcontext()

    def end_with_this_process(self, pid: Any) -> None:
        """Let a worker end when this process does, where the end of its pipe may come too late."""
