"""Control files that processes use to share a cache folder.

    zarrstack-cache-5      counters that every process reads and writes (below); its name has the version
    lock                   flock: held to open the folder, and to write, remove and evict records
    step                   flock: held briefly to increment a slot of the version table
    users                  flock, shared: held by every process while it uses the folder
    objects/new            the record being written, if any
    objects/S/N            the records of a source (record.py); the modification time is the last use

The counters are little-endian uint64: magic, number of slots in the table, identity of the tier (2 words),
bytes counted, budget, identity of the boot in which it is in use or zeros (2 words); then the table of
versions.py. After a machine crash the table may be older than the records, so a folder that was not closed
cleanly is emptied if the machine has rebooted since. The boot is on the disk before the first change. A
killed process loses nothing: what it wrote stays in the system's page cache.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import struct
import threading
import uuid
import weakref
from typing import Any, Final

import numpy as np

from ...core.errors import UsageError
from ...system.this import system
from .versions import PENDING

VERSION: Final = 5
NAME: Final = "zarrstack-cache-"
CONTROL: Final = f"{NAME}{VERSION}"
OBJECTS: Final = "objects"
_OURS: Final = frozenset({CONTROL, f"{CONTROL}.new", "lock", "step", "users", OBJECTS})

MAGIC: Final = int.from_bytes(b"zsccache", "little")
TOTAL, BUDGET, BOOT, TABLE = 4, 5, 6, 8
"""Indexes of the words in the control file; those before are the same as long as it is in use."""
CLEAN: Final = (0, 0)
"""Stands for the boot after the last process has left and synced the table."""
MIN_BUDGET: Final = 16 * 1024
"""Bytes; with less, the control files leave no room for values."""
_MAX_SLOTS: Final = 1 << 17
_BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"
_WITHOUT_WAITING: Final = getattr(os, "O_NONBLOCK", 0)
"""Opening a pipe blocks otherwise until another process opens it."""
_system: Any = os
"""Some functions are missing on Windows, where `check_folder` refuses every folder."""


def check_folder(root: str) -> None:
    """Raise UsageError for a folder of another version or with other files, and always on Windows.

    A folder that is missing, empty, or holds an incomplete cache is accepted.
    """
    if not system.file_locks:
        raise UsageError(
            "layer 'cache': a cache folder needs file locks that Windows does not have",
            found=root,
            expected="a cache in memory, without `disk`",
        )
    try:
        strangers = sorted(set(os.listdir(root)) - _OURS)
    except FileNotFoundError:
        return
    except OSError as error:
        raise UsageError(
            "layer 'cache': the disk tier is not a folder that can be read",
            found=f"{root} ({error.strerror})",
            expected="a folder, or a path where one can be created",
        ) from error
    for name in strangers:
        if name.startswith("zarrstack-cache"):
            raise UsageError(
                "layer 'cache': the disk tier was made by another version",
                found=f"{name} in {root}",
                expected=CONTROL,
                advice="Use another folder, or remove this one: it holds only copies.",
            )
    if strangers:
        raise UsageError(
            "layer 'cache': the folder for the disk tier holds other files",
            found=f"{strangers[0]!r} in {root}",
            expected="an empty folder, or one that a cache created",
            advice="A cache deletes files in its folder, so it does not share one with other files.",
        )


def open_file(path: str, flags: int = os.O_RDONLY, at: int | None = None) -> int:
    """Descriptor of a file, opened without waiting; a relative path is one in the folder `at`."""
    return os.open(path, flags | _WITHOUT_WAITING, 0o666, dir_fd=at)


def create_new(path: str, at: int | None = None) -> int:
    """Descriptor of a new file; what a killed process left under its name is removed."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        return os.open(path, flags, 0o666, dir_fd=at)
    except FileExistsError:
        os.unlink(path, dir_fd=at)
        return os.open(path, flags, 0o666, dir_fd=at)


class FileLock:
    """A lock between threads and, by flock, between processes."""

    _of_thread = threading.local()
    """`count`: how many locks this thread holds, or is about to."""

    def __init__(self, path: str) -> None:
        self._fd = open_file(path, os.O_RDWR | os.O_CREAT)
        self._threads = threading.Lock()

    @classmethod
    def held_here(cls) -> bool:
        """Whether this thread holds a lock, so that it would wait for ever for one of the same folder."""
        return getattr(cls._of_thread, "count", 0) > 0

    def _count(self, number: int) -> None:
        self._of_thread.count = getattr(self._of_thread, "count", 0) + number

    def acquire(self, *, wait: bool = True) -> bool:
        """Take the lock; return whether it was free if the caller does not `wait`."""
        self._count(1)  # before it is taken: garbage may be collected at any moment
        taken = False
        try:
            if self._threads.acquire(blocking=wait):
                try:
                    taken = self._take(wait=wait)
                finally:
                    if not taken:
                        self._threads.release()
        finally:
            if not taken:
                self._count(-1)
        return taken

    def _take(self, *, wait: bool) -> bool:
        if self._fd < 0:
            raise OSError(errno.EBADF, "another thread has closed the cache")
        try:
            system.lock(self._fd, wait=wait)
        except BlockingIOError:
            return False
        return True

    def release(self) -> None:
        """Release the lock."""
        try:
            if self._fd >= 0:
                system.unlock(self._fd)
        finally:
            self._threads.release()
            self._count(-1)

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def share(self) -> None:
        """Hold the lock shared until it is closed."""
        system.lock(self._fd, shared=True, wait=True)

    def try_alone(self) -> bool:
        """Hold the lock exclusively, until it is closed or shared, if it is free; return whether it was."""
        return self._take(wait=False)

    def close(self) -> None:
        """Close the file, which releases the lock."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def boot_id() -> bytes:
    """16 bytes that change at each boot, or each time if the system does not provide such; never zeros."""
    try:
        with open(_BOOT_ID) as file:
            return uuid.UUID(file.read().strip()).bytes
    except (OSError, ValueError):
        return uuid.uuid4().bytes


class ChangedError(OSError):
    """The control file is not what this version wrote."""

    def __init__(self) -> None:
        super().__init__(errno.EIO, "another program wrote to its control file")


class Control:
    """The words of the control file, and as `OwnCounters` its table; OSError if others have changed it.

    Each access is a system call (0.5 microseconds): if another program truncated a memory-mapped file, SIGBUS
    would end the process.
    """

    def __init__(self, root: str) -> None:
        self._path = os.path.join(root, CONTROL)
        self.fd = open_file(self._path, os.O_RDWR)
        self._status = os.fstat(self.fd)
        self.size = self._status.st_size
        # Closed with the last reference: the descriptor may be reused. Not at exit, when a tier still marks
        # its folder as clean.
        weakref.finalize(self, os.close, self.fd).atexit = False
        self._is_synced = False
        self._same = self.read(0, TOTAL)
        self.slots = self._same[1]
        self.tier = struct.pack("<2Q", *self._same[2:])
        if self._same[0] != MAGIC or self.size != 8 * (TABLE + self.slots) or not self.slots:
            raise ChangedError

    def read(self, first: int, count: int) -> tuple[int, ...]:
        """Words from one on."""
        data = _system.pread(self.fd, 8 * count, 8 * first)
        if len(data) < 8 * count:
            raise ChangedError
        return struct.unpack(f"<{count}Q", data)

    def write(self, first: int, *words: int) -> None:
        """Change words from one on."""
        _system.pwrite(self.fd, struct.pack(f"<{len(words)}Q", *words), 8 * first)

    def totals(self) -> tuple[int, int]:
        """Bytes counted and budget."""
        *same, total, budget = self.read(0, BOOT)
        if tuple(same) != self._same:
            raise ChangedError
        return total, budget

    def get(self, slot: int, _: int = 0) -> int:
        """A counter of the table."""
        data = _system.pread(self.fd, 8, 8 * (TABLE + slot))
        if len(data) < 8:
            raise ChangedError
        return int.from_bytes(data, "little")

    def add(self, slot: int, by: int) -> None:
        """Increment a counter; the caller holds the lock. FileNotFoundError if the folder was removed."""
        self.totals()
        if not os.path.samestat(os.stat(self._path), self._status):
            raise FileNotFoundError(errno.ENOENT, "the cache folder was made again", self._path)
        if not self._is_synced:  # before this process changes anything: the boot in which it did
            os.fsync(self.fd)
            self._is_synced = True
        self.write(TABLE + slot, self.get(slot) + by)

    def repair(self) -> None:
        """Clear pending changes of dead processes; call it only when no other process uses the table."""
        words = np.frombuffer(_system.pread(self.fd, 8 * self.slots, 8 * TABLE), "<u8")
        for slot in np.flatnonzero(words & np.uint64(PENDING)).tolist():
            self.write(TABLE + slot, (self.get(slot) | PENDING) + 1)

    def invalidate(self) -> None:
        """Make the file unusable for all processes, so that none relies on it after missing a change."""
        with contextlib.suppress(OSError):
            os.ftruncate(self.fd, 0)


def prepare(root: str, budget: int, *, alone: bool) -> Control:
    """Return the control words of a folder, valid from now on; the caller holds `lock`.

    If no other process uses the folder (`alone`), incomplete state is repaired: an incomplete folder, or one
    from before a reboot, is emptied, and pending changes of dead processes are cleared. OSError if the folder
    cannot be created or written, or is damaged while others use it.
    """
    boot = struct.unpack("<2Q", boot_id())
    control = _opened(root)
    if alone:
        if control is None or control.read(BOOT, 2) not in (boot, CLEAN):
            shutil.rmtree(os.path.join(root, OBJECTS), ignore_errors=True)
            _create(root, budget)
            control = Control(root)
        control.write(BOOT, *boot)
        control.repair()
    if control is None:
        raise ChangedError
    control.write(BUDGET, budget)
    return control


def _opened(root: str) -> Control | None:
    """The control file, shared with all processes; None if it is missing or invalid."""
    try:
        return Control(root)
    except (FileNotFoundError, ChangedError):
        return None


def _create(root: str, budget: int) -> None:
    """Create the control file with a new identity; its blocks are allocated, so a full disk fails here."""
    slots = 1 << max(6, min(budget // 512, _MAX_SLOTS).bit_length() - 1)
    size = 8 * (TABLE + slots)
    head = struct.pack("<2Q16s4Q", MAGIC, slots, uuid.uuid4().bytes, 0, budget, *CLEAN)
    path = os.path.join(root, CONTROL)
    fd = create_new(f"{path}.new")
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(fd, 0, size)
        else:  # macOS
            os.write(fd, bytes(size))
        _system.pwrite(fd, head, 0)
    finally:
        os.close(fd)
    os.replace(f"{path}.new", path)
