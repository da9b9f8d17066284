"""Flushes recorded work to disk at intervals, which limits what must be compared after a system crash."""

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
"""Seconds between two flushes."""


def sync(storage: Storage) -> bool:
    """Flush the file system of a directory to disk; False if it is none, or the system cannot do this."""
    if sys.platform == "win32" or not isinstance(storage, LocalStorage):
        return False
    syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if syncfs is None:
        os.sync()
        return sys.platform == "linux"  # elsewhere the call does not wait for completion
    descriptor = os.open(storage.root, os.O_RDONLY)
    try:
        return bool(syncfs(descriptor) == 0)
    finally:
        os.close(descriptor)


class DiskSync:
    """Flushes recorded work to disk at intervals."""

    def __init__(self, job: Job, destination: Storage, *, fsync: bool) -> None:
        """`fsync`: every recorded file is already on disk."""
        self._job = job
        self._destination = destination
        self._fsync = fsync
        self._last = time.monotonic()
        if fsync and job.unsynced():
            sync(destination)  # what runs without `fsync` have recorded

    def sometimes(self) -> None:
        """Flush if the last flush is long enough ago; call this before the job is committed."""
        if self._fsync:
            self._job.record_synced()
        elif time.monotonic() - self._last >= SECONDS:
            if sync(self._destination):
                self._job.record_synced()
            self._last = time.monotonic()
