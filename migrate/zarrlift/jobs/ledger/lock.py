"""Checks a job file before it is opened: it must be a regular file, used by one process."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from zarrstack.core.errors import JobError

from ...storage.local.files import kind_of


def require_file(path: Path) -> None:
    """Raise JobError for a pipe, socket or device, on which SQLite would block."""
    try:
        mode = path.stat().st_mode
    except OSError:  # SQLite reports the error
        return
    if not stat.S_ISREG(mode):
        raise JobError("this is no job file", key=str(path), found=kind_of(mode), expected="a regular file")


def lock_file(path: Path) -> int | None:
    """Lock the file against other runners until this process ends; the kernel releases the lock."""
    from zarrstack.system import file_locks

    if not file_locks.HERE:  # SQLite's own locks still protect the ledger
        return None
    try:
        descriptor = os.open(path, os.O_RDWR)
    except OSError as error:
        advice = "Let it be written: whoever goes on with a job records in it what is done."
        raise JobError(
            "cannot open the job file", key=str(path), found=error.strerror, advice=advice
        ) from error
    try:
        file_locks.alone(descriptor, wait=False)
    except OSError:
        os.close(descriptor)
        raise JobError(
            "another process is running this job", key=str(path), advice="Wait for it, or stop it first."
        ) from None
    return descriptor
