"""Locks of files, on systems that have them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from zarrlift.storage.local import byte_locks


def test_a_locked_file_is_locked_once_and_leaves_sqlite_its_bytes(tmp_path: Path) -> None:
    """On NFS, `flock` and the locks of SQLite are of the same bytes: a job could not open its own file."""
    path = tmp_path / "job.db"
    path.touch()
    with path.open("r+b") as holder, path.open("r+b") as other:
        assert not byte_locks.is_byte_locked(other.fileno())
        byte_locks.lock_byte(holder.fileno())
        if not byte_locks.HERE:
            return
        assert byte_locks.is_byte_locked(other.fileno())
        with pytest.raises(BlockingIOError):
            byte_locks.lock_byte(other.fileno())
        if sys.platform == "linux":
            import fcntl

            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(other, fcntl.LOCK_EX | fcntl.LOCK_NB, 0x4000_0000 + 512)  # all that SQLite locks
