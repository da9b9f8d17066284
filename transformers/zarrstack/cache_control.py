"""The files by which processes agree on a cache folder: who uses it, how full it is, what has changed.

    zarrstack-cache.json   {"format": "zarrstack-cache", "version": 1}; written last
    control                mapped into every process (below)
    lock                   flock: held to open the folder, to count bytes and to let old values go
    step                   flock: held for a moment, while a slot of the version table moves on
    users                  flock, shared: held by every process as long as it uses the folder
    objects/ab/abcd...     one record each (cache_record.py); its time of change is its last use
    partial/size-...       records being written, flocked by their writers

`control` is little-endian uint64: magic, slots in the table, the identity of the tier (2), bytes
counted, budget, whether it was closed cleanly, identity of the boot (2), 7 unused; then the table
of cache_versions.py. After a crash of the machine the table may be older than the records, so a
folder that was not closed cleanly is emptied if the machine has been started since. After a mere
kill nothing is lost: the mapping outlives the process.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import shutil
import uuid
from collections.abc import Iterator
from typing import Final

from . import flocks
from .core.errors import UsageError

FORMAT: Final = "zarrstack-cache"
VERSION: Final = 1
MARKER: Final = "zarrstack-cache.json"
OBJECTS: Final = "objects"
PARTIAL: Final = "partial"
OURS: Final = frozenset(
    {MARKER, MARKER + ".new", "control", "control.new", "lock", "step", "users", OBJECTS, PARTIAL}
)

MAGIC: Final = int.from_bytes(b"zsccache", "little")
SLOTS, TIER, TOTAL, BUDGET, CLEAN, BOOT, TABLE = 1, 2, 4, 5, 6, 7, 16
"""Places of the words in `control`."""
LEAST_BUDGET: Final = 16 * 1024
"""Bytes; below, the folder's own files would not leave room for values."""
_MOST_SLOTS: Final = 1 << 20
_BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"


def check_folder(root: str) -> None:
    """UsageError if the folder is not ours to use: of another version, or with other people's files.

    A folder that does not exist, is empty, or holds only half of what a cache needs, may be used. None
    may on Windows.
    """
    if not flocks.HERE:
        raise UsageError(
            "a cache folder needs file locks that Windows does not have",
            found=root,
            expected="a cache in memory, or one in a store",
        )
    try:
        names = set(os.listdir(root))
    except FileNotFoundError:
        return
    except OSError as error:
        raise UsageError(
            "layer 'cache': the disk tier is not a folder that can be read",
            found=f"{root} ({error.strerror})",
            expected="a folder, or a path where one can be made",
        ) from error
    marker = read_marker(root)
    if marker is not None and marker != VERSION:
        raise UsageError(
            "layer 'cache': the disk tier was made by another version",
            found=f"version {marker} in {root}",
            expected=f"version {VERSION}",
            advice="Name another folder, or remove this one: it holds only copies.",
        )
    if strangers := sorted(names - OURS):
        raise UsageError(
            "layer 'cache': the folder for the disk tier holds other files",
            found=f"{strangers[0]!r} in {root}",
            expected="an empty folder, or one that a cache has made",
            advice="A cache removes files from its folder, so it takes only one of its own.",
        )


def read_marker(root: str) -> object:
    """The version a folder says it has; None where there is no marker, or half of one."""
    try:
        with open(os.path.join(root, MARKER), "rb") as file:
            content = json.load(file)
        return content["version"] if content["format"] == FORMAT else None
    except (OSError, ValueError, TypeError, KeyError):
        return None


class Lock:
    """An flock on a file, for one opening of it: threads need a lock of their own beside it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        """Hold it; waits for other processes."""
        flocks.alone(self.fd)
        try:
            yield
        finally:
            flocks.release(self.fd)

    def share(self) -> None:
        """Hold it together with others, until it is closed."""
        flocks.together(self.fd)

    def try_alone(self) -> bool:
        """Hold it if nobody else does."""
        try:
            flocks.alone(self.fd, wait=False)
        except BlockingIOError:
            return False
        return True

    def is_current(self) -> bool:
        """Whether the path still names the file that is open: somebody may have removed the folder."""
        try:
            there, here = os.stat(self.path), os.fstat(self.fd)
        except FileNotFoundError:
            return False
        return (there.st_ino, there.st_dev) == (here.st_ino, here.st_dev)

    def close(self) -> None:
        """Let it go."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def boot_id() -> bytes:
    """16 bytes that differ after each start of the machine; zeros where the system does not tell."""
    try:
        with open(_BOOT_ID) as file:
            return uuid.UUID(file.read().strip()).bytes
    except (OSError, ValueError):
        return bytes(16)


def map_control(root: str) -> memoryview | None:
    """The words of `control`, shared with all processes; None if it is not a sound one."""
    try:
        fd = os.open(os.path.join(root, "control"), os.O_RDWR)
    except FileNotFoundError:
        return None
    try:
        size = os.fstat(fd).st_size
        if size < 8 * (TABLE + 1) or size % 8:
            return None
        words = memoryview(mmap.mmap(fd, size)).cast("Q")
    finally:
        os.close(fd)
    return words if words[0] == MAGIC and words[SLOTS] == len(words) - TABLE else None


def make_control(root: str, budget: int) -> None:
    """A new `control` with an identity of its own, its blocks taken: a full disk shows here.

    (Writing to a hole of a mapped file on a full disk would end the process with SIGBUS.)
    """
    slots = 1 << max(6, min(budget // 512, _MOST_SLOTS).bit_length() - 1)
    words = [MAGIC, slots, *_words(uuid.uuid4().bytes), 0, budget, 0, 0, 0]
    path = os.path.join(root, "control")
    fd = os.open(path + ".new", os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o666)
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
    """Say that the folder is whole."""
    path = os.path.join(root, MARKER)
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump({"format": FORMAT, "version": VERSION}, file)
    os.replace(path + ".new", path)


def empty_folder(root: str) -> None:
    """Remove every record, and make the folders for new ones."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(root, MARKER))
    for name in (OBJECTS, PARTIAL):
        path = os.path.join(root, name)
        shutil.rmtree(path, ignore_errors=True)
        os.makedirs(path, exist_ok=True)


def prepare(root: str, budget: int, *, alone: bool) -> memoryview:
    """The control words of a folder that is whole from now on; call it with `lock` held.

    Where nobody else uses the folder (`alone`), what was left half-done is put right: a half-written
    folder, or one from before the machine went down, is emptied, and the changes of processes that died are
    forgotten. OSError where the folder cannot be made or written.
    """
    words = map_control(root) if read_marker(root) == VERSION else None
    if alone:
        boot = _words(boot_id())
        if (
            words is not None
            and not words[CLEAN]
            and (tuple(words[BOOT : BOOT + 2]) != boot or not any(boot))
        ):
            words = None
        if words is None:
            empty_folder(root)
            make_control(root, budget)
            words = map_control(root)
            write_marker(root)
        assert words is not None
        words[CLEAN] = 0
        words[BOOT], words[BOOT + 1] = boot
        flush(words)  # before any record or slot can follow
    if words is None:
        raise OSError(0, "other processes use a cache folder that is damaged")
    for name in (OBJECTS, PARTIAL):
        os.makedirs(os.path.join(root, name), exist_ok=True)
    words[BUDGET] = budget
    return words


def flush(words: memoryview) -> None:
    """Bring the mapped words to the disk."""
    mapped = words.obj
    assert isinstance(mapped, mmap.mmap)
    mapped.flush()


def tier_id(words: memoryview) -> bytes:
    """The 16 bytes that every record of this tier carries."""
    return b"".join(word.to_bytes(8, "little") for word in words[TIER : TIER + 2])


def _words(data: bytes) -> tuple[int, int]:
    return int.from_bytes(data[:8], "little"), int.from_bytes(data[8:], "little")
