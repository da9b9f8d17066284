"""Control files that processes use to share a cache folder.

    zarrstack-cache.json   {"format": "zarrstack-cache", "version": 4}; written last
    control                counters that every process reads and writes (below)
    lock                   flock: held to open the folder, to count bytes and to evict records
    step                   flock: held briefly to increment a slot of the version table
    users                  flock, shared: held by every process while it uses the folder
    objects/a/abcd...      one record each (record.py); its modification time is its last use
    objects/a/abcd....size-random   a record being written, flocked by its writer

`control` is little-endian uint64: magic, number of slots in the table, identity of the tier (2 words), bytes
counted, budget, 1 unused, identity of the boot in which it is in use or zeros (2 words), 7 unused; then the
table of versions.py. After a machine crash the table may be older than the records, so a folder that was not
closed cleanly is emptied if the machine has rebooted since. A killed process loses nothing: what it wrote
stays in the system's page cache.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import uuid
import weakref
from typing import Any, Final

import numpy as np

from ...core.errors import UsageError
from ...system import file_locks
from .folder_files import NotRegularError, create_new, open_regular
from .versions import PENDING

FORMAT: Final = "zarrstack-cache"
VERSION: Final = 4
MARKER: Final = "zarrstack-cache.json"
OBJECTS: Final = "objects"
OURS: Final = frozenset({MARKER, MARKER + ".new", "control", "control.new", "lock", "step", "users", OBJECTS})

MAGIC: Final = int.from_bytes(b"zsccache", "little")
TIER, TOTAL, BUDGET, BOOT, TABLE = 2, 4, 5, 7, 16
"""Indexes of the words in `control`."""
UNUSED: Final = (0, 0)
"""Stands for the boot after the last process has left and synced the table."""
MIN_BUDGET: Final = 16 * 1024
"""Bytes; with less, the control files leave no room for values."""
_MAX_SLOTS: Final = 1 << 20
_BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"


def check_folder(root: str) -> None:
    """Raise UsageError for a folder of another version or with other files, and always on Windows.

    A folder that is missing, empty, or holds an incomplete cache is accepted.
    """
    if not file_locks.HERE:
        raise UsageError(
            "layer 'cache': a cache folder needs file locks that Windows does not have",
            found=root,
            expected="a cache in memory, without `disk`",
        )
    try:
        names = set(os.listdir(root))
    except FileNotFoundError:
        return
    except OSError as error:
        raise UsageError(
            "layer 'cache': the disk tier is not a folder that can be read",
            found=f"{root} ({error.strerror})",
            expected="a folder, or a path where one can be created",
        ) from error
    marker = read_marker(root)
    if marker is not None and marker != VERSION:
        raise UsageError(
            "layer 'cache': the disk tier was made by another version",
            found=f"version {marker} in {root}",
            expected=f"version {VERSION}",
            advice="Use another folder, or remove this one: it holds only copies.",
        )
    if strangers := sorted(names - OURS):
        raise UsageError(
            "layer 'cache': the folder for the disk tier holds other files",
            found=f"{strangers[0]!r} in {root}",
            expected="an empty folder, or one that a cache created",
            advice="A cache deletes files in its folder, so it does not share one with other files.",
        )


def read_marker(root: str) -> object:
    """Version in the folder's marker; None if the marker is missing or incomplete."""
    try:
        with open(open_regular(os.path.join(root, MARKER)), "rb") as file:
            content = json.load(file)
        return content["version"] if content["format"] == FORMAT else None
    except (OSError, ValueError, TypeError, KeyError):
        return None


def boot_id() -> bytes:
    """16 bytes that change at each boot, or each time if the system does not provide such; never zeros."""
    try:
        with open(_BOOT_ID) as file:
            return uuid.UUID(file.read().strip()).bytes
    except (OSError, ValueError):
        return uuid.uuid4().bytes


_read_at: Any = getattr(os, "pread", None)
_write_at: Any = getattr(os, "pwrite", None)
"""None on Windows, where `check_folder` refuses every folder."""


class FileCounters:
    """Words of `control` from `first` on; OSError if the length of the file has changed.

    Each access is a system call (0.5 microseconds): if another program truncated a memory-mapped file, SIGBUS
    would end the process.
    """

    __slots__ = ("__weakref__", "_fd", "_first", "_of", "_size")

    def __init__(self, fd: int, size: int, first: int = 0, *, of: FileCounters | None = None) -> None:
        self._fd, self._size, self._first, self._of = fd, size, first, of
        if of is None:  # closed with the last reference: the descriptor may be reused
            weakref.finalize(self, os.close, fd).atexit = False  # a tier marks its folder as clean at exit

    def table(self) -> FileCounters:
        """The words of the version table, in the same file."""
        return FileCounters(self._fd, self._size, TABLE, of=self)

    def __len__(self) -> int:
        return self._size // 8 - self._first

    def __getitem__(self, place: int) -> int:
        data = _read_at(self._fd, 8, 8 * (self._first + place))
        if len(data) < 8:
            raise _length_changed()
        return int.from_bytes(data, "little")

    def get(self, place: int, default: int) -> int:
        """The word: a table in a file holds all of its counters."""
        return self[place]

    def __setitem__(self, place: int, word: int) -> None:
        self.check()  # writing past the end would extend the file
        _write_at(self._fd, word.to_bytes(8, "little"), 8 * (self._first + place))
        self.check()

    def pair(self, place: int) -> tuple[int, int]:
        """Two consecutive words."""
        data = _read_at(self._fd, 16, 8 * (self._first + place))
        if len(data) < 16:
            raise _length_changed()
        return int.from_bytes(data[:8], "little"), int.from_bytes(data[8:], "little")

    def tobytes(self) -> bytes:
        data: bytes = _read_at(self._fd, 8 * len(self), 8 * self._first)
        if len(data) < 8 * len(self):
            raise _length_changed()
        return data

    def check(self) -> None:
        """Raise OSError if the length of the file has changed."""
        if os.fstat(self._fd).st_size != self._size:
            raise _length_changed()

    def invalidate(self) -> None:
        """Make the file unusable for all processes, so that none relies on it after missing a change."""
        with contextlib.suppress(OSError):
            os.ftruncate(self._fd, 0)

    def flush(self) -> None:
        os.fsync(self._fd)

    def add(self, places: tuple[int, ...], by: int) -> None:
        """Increment words; the caller holds the lock."""
        self.check()  # writing past the end would extend the file
        for place in places:
            word = self[place] + by
            _write_at(self._fd, word.to_bytes(8, "little"), 8 * (self._first + place))
        self.check()

    def repair(self) -> None:
        """Clear pending changes of dead processes; call it only when no other process uses the table."""
        words = np.frombuffer(self.tobytes(), dtype="<u8")
        for slot in np.flatnonzero(words & np.uint64(PENDING)).tolist():
            self[slot] = (self[slot] | PENDING) + 1


def _length_changed() -> OSError:
    return OSError(errno.EIO, "another program changed the length of its control file")


def open_control(root: str) -> FileCounters | None:
    """Open `control`, shared with all processes; None if it is missing or invalid."""
    try:
        fd = open_regular(os.path.join(root, "control"), os.O_RDWR)
    except (FileNotFoundError, NotRegularError):
        return None
    words = FileCounters(fd, os.fstat(fd).st_size)
    return words if is_sound(words) else None


def is_sound(words: FileCounters) -> bool:
    """Whether these words are a complete, valid table."""
    try:
        words.check()
        return words.pair(0) == (MAGIC, len(words) - TABLE) and len(words) > TABLE
    except OSError:
        return False


def make_control(root: str, budget: int) -> None:
    """Create `control` with a new identity and its blocks allocated, so that a full disk fails here."""
    slots = 1 << max(6, min(budget // 512, _MAX_SLOTS).bit_length() - 1)
    words = [MAGIC, slots, *_words(uuid.uuid4().bytes), 0, budget, 0, 0, 0]
    path = os.path.join(root, "control")
    fd = create_new(path)
    try:
        size = 8 * (TABLE + slots)
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(fd, 0, size)
        else:  # macOS
            os.write(fd, bytes(size))
        os.lseek(fd, 0, os.SEEK_SET)
        os.write(fd, b"".join(word.to_bytes(8, "little") for word in words))
        os.fsync(fd)
    finally:
        os.close(fd)
    os.replace(path + ".new", path)


def write_marker(root: str) -> None:
    """Write the marker of a complete folder."""
    path = os.path.join(root, MARKER)
    with open(create_new(path), "w", encoding="utf-8") as file:
        json.dump({"format": FORMAT, "version": VERSION}, file)
    os.replace(path + ".new", path)


def empty_folder(root: str) -> None:
    """Remove all records."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(root, MARKER))
    shutil.rmtree(os.path.join(root, OBJECTS), ignore_errors=True)


def prepare(root: str, budget: int, *, alone: bool) -> FileCounters:
    """Return the control words of a folder, valid from now on; the caller holds `lock`.

    If no other process uses the folder (`alone`), incomplete state is repaired: an incomplete folder, or one
    from before a reboot, is emptied, and pending changes of dead processes are cleared. OSError if the folder
    cannot be created or written, or is damaged while others use it.
    """
    words = open_control(root) if read_marker(root) == VERSION else None
    if alone:
        boot = _words(boot_id())
        if words is not None and words.pair(BOOT) not in (boot, UNUSED):
            words = None
        if words is None:
            empty_folder(root)
            make_control(root, budget)
            words = open_control(root)
            write_marker(root)
        assert words is not None
        words[BOOT], words[BOOT + 1] = boot
        words.flush()  # before any record or slot is written
    if words is None:
        raise OSError(0, "other processes use a cache folder that is damaged")
    os.makedirs(os.path.join(root, OBJECTS), exist_ok=True)
    words[BUDGET] = budget
    return words


def tier_id(words: FileCounters) -> bytes:
    """The 16-byte identity that every record of this tier carries."""
    return b"".join(word.to_bytes(8, "little") for word in words.pair(TIER))


def _words(data: bytes) -> tuple[int, int]:
    return int.from_bytes(data[:8], "little"), int.from_bytes(data[8:], "little")
