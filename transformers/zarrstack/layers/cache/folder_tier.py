"""The disk tier in a local folder, shared by processes under one budget (files: folder_control.py).

- Space is reserved in the shared count before a record is written, so the folder never exceeds its budget,
  even if processes are killed; the next eviction reclaims a killed process's reservation.
- A record appears complete, by renaming. Its checksum detects a write torn by a power failure.
- A record's modification time is its last use, so all processes, now and later, share one eviction order.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Final

from ...system import file_locks
from .folder_control import (
    BOOT,
    BUDGET,
    OBJECTS,
    TOTAL,
    UNUSED,
    check_folder,
    is_sound,
    prepare,
    tier_id,
)
from .folder_files import FileLock, NotRegularError, open_regular
from .record import CachedValue, DamagedRecordError, Part, identity_in, name, read_record, record_head
from .versions import Versions

MANY: Final = 100
"""Number of records from which an eviction frees 5 % more than necessary, because it scans every file."""

_HEAD: Final = 512
"""Bytes of a record besides its value, if its key is not unusually long."""
MOST_IDENTITY: Final = 2**16
"""Bytes of a record that are read to find its identity: a key has at most a few kilobytes."""


class LocalTier:
    """Records in a folder; methods are thread-safe and raise only OSError."""

    def __init__(
        self,
        root: str,
        budget: int,
        source: str,
        failed: Callable[[LocalTier, OSError], object],
        *,
        keeps: bool = False,
    ) -> None:
        """Open or create the folder.

        `source` is the digest of what is cached. `failed` is called when the folder can no longer be shared
        with other processes.
        If the folder is full, a tier that `keeps` its records refuses new ones instead of evicting others.
        """
        self.root = root
        self.budget = budget
        self.keeps = keeps
        self.evictions = 0
        self.refusals = 0
        self.damaged = 0
        check_folder(root)
        self._folders: set[str] = set()
        os.makedirs(root, exist_ok=True)
        self._lock, self._step, self._users = (
            FileLock(os.path.join(root, each)) for each in ("lock", "step", "users")
        )
        with self._lock:
            self._words = prepare(root, budget, alone=self._users.try_alone())
            self._id = tier_id(self._words)
            table = self._words.table()
            self.versions = Versions(table, len(table), self._step, source, lambda error: failed(self, error))
            if self._users.try_alone():
                table.repair()
            self._clear_until(0)
            self._users.share()

    def is_current(self) -> bool:
        """Whether the folder is still the one that was opened, not removed or recreated since."""
        return self._step.is_current()

    def is_sound(self) -> bool:
        """Whether its counters are present and those that were opened."""
        return is_sound(self._words) and tier_id(self._words) == self._id

    def invalidate(self) -> None:
        """Make the folder unusable for other processes too."""
        self._words.invalidate()

    @property
    def used(self) -> int:
        """Bytes in the folder as counted by all processes; 0 if unavailable."""
        try:
            return self._words[TOTAL]
        except OSError:
            return 0

    # -- reading -------------------------------------------------------------------------------

    def size(self, ident: bytes) -> int | None:
        """Length of a record in bytes, None if there is none; indicates how long reading it may take."""
        try:
            return os.stat(self._path(name(ident))).st_size
        except OSError:
            return None

    def read(self, ident: bytes, part: Part = None) -> CachedValue | None:
        """Read a record, or a part of its value, and mark it as used; a damaged record is removed."""
        path = self._path(name(ident))
        try:
            with open(open_regular(path), "rb") as file:
                cached = read_record(file, ident, self._id, part)
        except (NotRegularError, DamagedRecordError):
            self.damaged += 1
            self._remove(path)
            return None
        except OSError:
            return None
        with contextlib.suppress(OSError):  # not owned by this user, or removed
            now = time.time_ns()
            os.utime(path, ns=(now, now))
        return cached

    def _path(self, digest: str) -> str:
        return f"{self.root}/{OBJECTS}/{digest[0]}/{digest}"

    # -- writing -------------------------------------------------------------------------------

    def write(self, ident: bytes, cached: CachedValue) -> None:
        """Write a record, evicting older ones; a record larger than the budget is not kept.

        OSError if it cannot be written; then nothing of it remains.
        """
        head = record_head(ident, cached, self._id)
        size = len(head) + cached.size
        path = self._path(name(ident))
        folder = os.path.dirname(path)
        if folder not in self._folders:
            os.makedirs(folder, exist_ok=True)
            self._folders.add(folder)
        partial = f"{path}.{size}-{os.urandom(8).hex()}"
        with self._lock:
            if not self._make_room(size):
                return
            fd = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
            file_locks.lock_exclusive(fd)  # marks the writer as alive
            self._words[TOTAL] += size
        complete = False
        try:
            _write_all(fd, head)
            if cached.data is not None:
                _write_all(fd, cached.data)
            self._publish(partial, path, size)
            complete = True
        finally:
            os.close(fd)
            if not complete:
                with contextlib.suppress(OSError):
                    os.unlink(partial)
                with self._lock:  # reserved, and not used
                    self._words[TOTAL] = max(self._words[TOTAL] - size, 0)

    def _publish(self, partial: str, path: str, size: int) -> None:
        with self._lock:
            with contextlib.suppress(FileNotFoundError):
                old = os.stat(path).st_size
                os.unlink(path)  # a rename over a file makes ext4 write the new one to the disk at once
                self._words[TOTAL] = max(self._words[TOTAL] - old, size)
            os.rename(partial, path)

    def remove(self, ident: bytes) -> None:
        self._remove(self._path(name(ident)))

    def remove_if(self, is_removed: Callable[[bytes], bool]) -> None:
        """Remove the records with these identities."""
        with contextlib.suppress(OSError):
            for each in self._files():
                with contextlib.suppress(OSError), open(open_regular(each.path), "rb", buffering=0) as file:
                    ident = identity_in(file.read(MOST_IDENTITY))
                    if ident is not None and "." not in each.name and is_removed(ident):
                        self._remove(each.path)

    def _remove(self, path: str) -> None:
        with contextlib.suppress(OSError), self._lock:
            size = os.stat(path).st_size
            os.unlink(path)
            self._words[TOTAL] = max(self._words[TOTAL] - size, 0)

    # -- the budget ------------------------------------------------------------------------------

    def has_room(self, size: int) -> bool:
        """Whether a value can probably be written, or refused, without a look at every file."""
        try:
            total, budget = self._words.pair(TOTAL)
        except OSError:
            return True
        return self.keeps or total + size + _HEAD <= budget

    def _make_room(self, size: int) -> bool:
        """Reserve room; return whether there is enough. The caller holds the counter."""
        total, budget = self._words.pair(TOTAL)  # and BUDGET
        if total + size <= budget:
            return True
        if self.keeps:
            self.refusals += 1
            return False
        return self._clear_until(size)

    def _clear_until(self, size: int) -> bool:
        """Recount the folder and evict the least recently used records until `size` more bytes fit."""
        base, reserved, records = self._scan()
        total = base + reserved + sum(bytes_ for _, bytes_, _ in records)
        budget = self._words[BUDGET]
        if base + reserved + size <= budget < total + size:
            target = budget - size
            if len(records) > MANY:
                target = max(target - budget // 20, base + reserved)
            for _, bytes_, path in sorted(records, key=itemgetter(0)):
                if total <= target:
                    break
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
                    self.evictions += 1
                total -= bytes_
        self._words[TOTAL] = total
        return total + size <= budget

    def _scan(self) -> tuple[int, int, list[tuple[int, int, str]]]:
        """Bytes of the control files, bytes reserved by records being written, and every record.

        A record is (last use in ns, bytes, path). Files of dead writers, which hold no lock, are removed.
        """
        with os.scandir(self.root) as files:
            base = sum(file.stat().st_size for file in files if file.is_file())
        reserved, records = 0, []
        for file in self._files():
            with contextlib.suppress(FileNotFoundError):
                _, is_partial, rest = file.name.partition(".")
                if not is_partial:
                    stat = file.stat(follow_symlinks=False)
                    records.append((stat.st_mtime_ns, stat.st_size, file.path))
                elif _is_abandoned(file.path):
                    os.unlink(file.path)
                else:
                    reserved += int(rest.split("-")[0])
        return base, reserved, records

    def _files(self) -> Iterator[os.DirEntry[str]]:
        with os.scandir(f"{self.root}/{OBJECTS}") as folders:
            for folder in folders:
                with os.scandir(folder.path) as files:
                    yield from files

    def close(self) -> None:
        """Leave the folder; the last process to leave marks it as clean."""
        if self._lock.fd < 0:
            return
        # ValueError: another thread has closed it meanwhile
        with contextlib.suppress(OSError, ValueError), self._lock, self._step:
            if self._users.try_alone():
                self._words.flush()  # the table first: the mark vouches for it
                self._words[BOOT], self._words[BOOT + 1] = UNUSED
            self.abandon()  # within the locks: no change may follow the mark
        self.abandon()

    def abandon(self) -> None:
        """Close the files without updating the folder: a forked child does so with its parent's files."""
        for lock in (self._lock, self._step, self._users):
            lock.close()


def _is_abandoned(path: str) -> bool:
    """Whether no process is writing this file any more."""
    try:
        fd = open_regular(path)
    except NotRegularError:
        return True
    try:
        file_locks.lock_exclusive(fd, wait=False)
    except BlockingIOError:
        return False
    finally:
        os.close(fd)
    return True


def _write_all(fd: int, data: bytes | memoryview) -> None:
    """Write all data: `os.write` may write less, for example on a full disk."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
