"""A job file before it is opened: that it is a file, and that one process has it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from zarrstack.core.errors import JobError

from ...storage.local.files import kind_of


def require_file(path: Path) -> None:
    """JobError for a pipe, a socket or a device, which SQLite would wait for."""
    try:
        mode = path.stat().st_mode
    except OSError:  # SQLite says what is wrong
        return
    if not stat.S_ISREG(mode):
        raise JobError("this is no job file", key=str(path), found=kind_of(mode), expected="a regular file")


def lock_file(path: Path) -> int | None:
    """Hold the file against other runners until this process ends; the kernel lets go by itself."""
    from zarrstack.system import file_locks

    if not file_locks.HERE:  # SQLite's own locks still keep the ledger sound
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
