"""The disk tier in a local folder, shared by processes under one budget (files: folder_control.py).

- One process writes at a time. A record is written under one name and renamed when it is complete; what a
  killed process left is removed by the next writer. A checksum detects a write torn by a power failure.
- Room is found before a record is written, and counted before it is renamed, so the folder never exceeds its
  budget, even if processes are killed.
- A record's modification time is its last use, so all processes, now and later, share one eviction order.
"""

from __future__ import annotations

import contextlib
import os
import time
import weakref
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from .folder_control import (
    BOOT,
    CLEAN,
    OBJECTS,
    TOTAL,
    FileLock,
    check_folder,
    create_new,
    open_file,
    prepare,
)
from .record import BLOCK, CachedValue, DamagedRecordError, Part, digest_of, read_record, record_head, span_of
from .versions import Versions

INLINE: Final = 512 * 1024
"""Largest number of bytes that is read or written on the event loop: 256 KiB take 30 microseconds from the
page cache and 90 to it, against 40 to 180 to hand them to a thread (2 cores, Python 3.11 and 3.13).
"""
MANY: Final = 100
"""Number of records from which an eviction frees 5 % more than necessary, because it scans every file."""
USED_ANEW: Final = 10**9
"""Nanoseconds after which another use of a record is recorded: that takes a tenth of a read."""
_NEW: Final = "new"
_system: Any = os


class WouldTakeLongError(Exception):
    """What was asked for should be left to another thread than that of the event loop."""


class LocalTier:
    """Records in a folder; methods are thread-safe and raise only OSError."""

    def __init__(self, root: str, budget: int, source: str, *, keeps: bool = False) -> None:
        """Open or create the folder. `source` is the digest of what is cached.

        If the folder is full, a tier that `keeps` its records refuses new ones instead of evicting others.
        """
        self.root = root
        self.keeps = keeps
        self.evictions = 0
        self.refusals = 0
        self.damaged = 0
        self._source = source
        check_folder(root)
        os.makedirs(root, exist_ok=True)
        self._locks = [FileLock(os.path.join(root, each)) for each in ("lock", "step", "users")]
        self._lock, step, self._users = self._locks
        with self._lock:
            self._control = prepare(root, budget, alone=self._users.try_alone())
            self.versions = Versions(self._control, self._control.slots, step, source)
            objects = os.path.join(root, OBJECTS)
            os.makedirs(os.path.join(objects, source), exist_ok=True)
            self._at = os.open(objects, os.O_RDONLY)
            weakref.finalize(self, os.close, self._at).atexit = False
            self._evict(0)
            self._users.share()

    def invalidate(self) -> None:
        """Make the folder unusable for other processes too."""
        self._control.invalidate()

    @property
    def used(self) -> int:
        """Bytes in the folder as counted by all processes; 0 if unavailable."""
        try:
            return self._control.totals()[0]
        except OSError:
            return 0

    # -- records ---------------------------------------------------------------------------------

    def read(self, key: str, record: Part, part: Part, *, inline: bool = False) -> CachedValue | None:
        """Read what is cached as one part of a key, or a part of it, and mark it as used.

        A damaged record is removed. WouldTakeLongError if it is large and is to be read `inline`.
        """
        digest = digest_of(self._source, key, record)
        name = f"{self._source}/{digest.hex()}"
        try:
            fd = open_file(name, at=self._at)
        except OSError:
            return None
        try:
            status = os.fstat(fd)
            size = status.st_size
            if inline and _length(part, size) > INLINE:
                raise WouldTakeLongError
            cached = read_record(partial(_system.pread, fd), size, digest, self._control.tier, part)
            now = time.time_ns()
            if abs(now - status.st_mtime_ns) > USED_ANEW:
                with contextlib.suppress(OSError):  # not owned by this user
                    os.utime(fd, ns=(now, now))
            return cached
        except DamagedRecordError:
            self.damaged += 1
            self._remove(name)
            return None
        except OSError:
            return None
        finally:
            os.close(fd)

    def write(self, key: str, part: Part, cached: CachedValue, *, inline: bool = False) -> None:
        """Write a record, evicting older ones; a record larger than the budget is not kept.

        OSError if it cannot be written; then nothing of it remains. WouldTakeLongError if it is to be written
        `inline` and is large, or others write, or a look at every file is necessary.
        """
        if inline and cached.size > INLINE:
            raise WouldTakeLongError
        digest = digest_of(self._source, key, part)
        head = record_head(digest, cached, self._control.tier)
        size = len(head) + cached.size
        if not self._lock.acquire(wait=not inline):
            raise WouldTakeLongError
        try:
            total, budget = self._control.totals()
            if total + size > budget:
                if self.keeps:
                    self.refusals += 1
                    return
                if inline:
                    raise WouldTakeLongError
                if not self._evict(size):
                    return
            self._store(f"{self._source}/{digest.hex()}", head, cached.data or b"")
        finally:
            self._lock.release()

    def _store(self, name: str, head: bytes, data: bytes | memoryview) -> None:
        counted, fd = 0, create_new(_NEW, self._at)
        try:
            _write_all(fd, head, data)
            self._unlink(name)  # a rename over a file makes ext4 write the new one to the disk at once
            counted = len(head) + len(data)
            self._count(counted)
            os.rename(_NEW, name, src_dir_fd=self._at, dst_dir_fd=self._at)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(_NEW, dir_fd=self._at)
                self._count(-counted)
            raise
        finally:
            os.close(fd)

    def remove(self, key: str, part: Part) -> None:
        """Remove a record."""
        self._remove(f"{self._source}/{digest_of(self._source, key, part).hex()}")

    def remove_all(self) -> None:
        """Remove all records of this source."""
        with contextlib.suppress(OSError), self._lock:
            for path, _ in self._files(self._source):
                self._unlink(path)

    def _remove(self, name: str) -> None:
        with contextlib.suppress(OSError), self._lock:
            self._unlink(name)

    def _unlink(self, name: str) -> None:
        """Remove and count a file; the caller holds the lock."""
        with contextlib.suppress(FileNotFoundError):
            size = os.stat(name, dir_fd=self._at, follow_symlinks=False).st_size
            os.unlink(name, dir_fd=self._at)
            self._count(-size)

    # -- the budget ------------------------------------------------------------------------------

    def _count(self, by: int) -> None:
        self._control.write(TOTAL, max(self._control.totals()[0] + by, 0))

    def _evict(self, size: int) -> bool:
        """Recount the folder and remove the least recently used records until `size` more bytes fit.

        Returns whether they fit. The caller holds the lock.
        """
        with contextlib.suppress(FileNotFoundError):
            os.unlink(_NEW, dir_fd=self._at)
        with os.scandir(self._at) as sources:
            folders = [each.name for each in sources if each.is_dir(follow_symlinks=False)]
        records = [record for each in folders for record in self._files(each)]
        base, (_, budget) = self._control.size, self._control.totals()
        total = base + sum(status.st_size for _, status in records)
        if base + size <= budget < total + size:
            target = budget - size
            if len(records) > MANY:
                target = max(target - budget // 20, base)
            for name, status in sorted(records, key=lambda record: record[1].st_mtime_ns):
                if total <= target:
                    break
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=self._at)
                    self.evictions += 1
                total -= status.st_size
        self._control.write(TOTAL, total)
        return total + size <= budget

    def _files(self, source: str) -> Iterator[tuple[str, os.stat_result]]:
        """Name and status of the records of a source."""
        fd = os.open(source, os.O_RDONLY, dir_fd=self._at)
        try:
            with os.scandir(fd) as files:
                for file in files:
                    yield f"{source}/{file.name}", file.stat(follow_symlinks=False)
        finally:
            os.close(fd)

    # -- leaving ---------------------------------------------------------------------------------

    def close(self) -> None:
        """Leave the folder; the last process to leave marks it as clean.

        A tier is also closed when it is collected as garbage. This thread may be using another one of the
        same folder just then, so that it is not the last.
        """
        if not FileLock.held_here():
            with contextlib.suppress(OSError), self._lock, self.versions.lock:
                if self._users.try_alone():
                    self._control.totals()
                    os.fsync(self._control.fd)  # the table first: the mark vouches for it
                    self._control.write(BOOT, *CLEAN)
                self.abandon()  # within the locks: no change may follow the mark
        self.abandon()

    def abandon(self) -> None:
        """Close the files without updating the folder: a forked child does so with its parent's files."""
        for lock in self._locks:
            lock.close()


def _length(part: Part, size: int) -> int:
    """At most how many bytes are read of a record of this size."""
    if part is None:
        return size
    first, last = span_of(part, size) or (0, 0)
    return last - first + 2 * BLOCK


def _write_all(fd: int, *parts: bytes | memoryview) -> None:
    """Write all data: `os.write` may write less, for example on a full disk."""
    for part in parts:
        view = memoryview(part)
        while view:
            view = view[os.write(fd, view) :]
