"""Has the system write out what a run records, so that a crash of it leaves little to be compared."""

from __future__ import annotations

import ctypes
import os
import sys
import time
from typing import TYPE_CHECKING, Final

from ..storage.base import Storage
from ..storage.local.storage import LocalStorage

if TYPE_CHECKING:
    from .ledger.ledger import Job

SECONDS: Final = 120.0
"""How long a run records before it has the system write all of it out."""


def sync(storage: LocalStorage) -> bool:
    """Have the system write out the file system of a directory; False where it has no way to."""
    if sys.platform == "win32":
        return False
    syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if syncfs is None:
        os.sync()
        return sys.platform == "linux"  # others do not wait for the end of it
    descriptor = os.open(storage.root, os.O_RDONLY)
    try:
        return bool(syncfs(descriptor) == 0)
    finally:
        os.close(descriptor)


class Syncs:
    """Has the system write out what a run records, so that a crash of it leaves little to be compared."""

    def __init__(self, job: Job, destination: Storage, *, fsync: bool) -> None:
        """`fsync` says that all that is recorded is on the disk already."""
        self._job = job
        self._destination = destination
        self._fsync = fsync
        self._last = time.monotonic()

    def sometimes(self) -> None:
        """Now, if the last time is a while ago; to be called before the job is committed."""
        if self._fsync:
            self._job.record_synced()
        elif isinstance(self._destination, LocalStorage) and time.monotonic() - self._last >= SECONDS:
            if sync(self._destination):
                self._job.record_synced()
            self._last = time.monotonic()
