"""Converts errors of the operating system to storage errors."""

from __future__ import annotations

import errno
import os

from zarrstack.core.errors import Problem, StorageError


def system_refused(error: OSError) -> Problem:
    """The problem for an operating system error without a key, from a library."""
    key = "" if error.filename is None else os.fsdecode(error.filename)
    return storage_error("reading or writing failed", key, error).problem


def storage_error(what: str, key: str, error: OSError) -> StorageError:
    """A StorageError with the message of the operating system."""
    advice = {
        errno.ENOSPC: "Free some space and resume.",
        errno.EACCES: "Check the permissions, then try again or resume.",
        errno.EROFS: "Mount it so that it can be written and resume, or choose another place.",
    }.get(error.errno or 0)
    return StorageError(what, key=key, found=error.strerror or str(error), advice=advice)
