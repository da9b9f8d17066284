"""Converts errors of the operating system to storage errors."""

from __future__ import annotations

import errno
import os
import sys

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
        errno.ELOOP: "Put the directory that was there back in its place, then run the command again.",
        errno.EFBIG: "Raise the limit and resume, or write smaller objects.",
        errno.EMFILE: "Raise the limit of open files (ulimit -n) or use fewer workers (-j), then resume.",
    }.get(error.errno or 0)
    found = error.strerror or str(error)
    if error.errno == errno.EFBIG:
        found += file_limit_text()
    return StorageError(what, key=key, found=found, advice=advice)


def may_create_in(directory: str | os.PathLike[str]) -> bool:
    """Whether this process has the permission to create files in a directory."""
    return os.access(directory, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids)


def file_limit_text() -> str:
    """`; files may have at most 1024 bytes here (ulimit -f)`, or "" if this process has no such limit."""
    if sys.platform == "win32":
        return ""
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    if limit == resource.RLIM_INFINITY:
        return ""
    return f"; files may have at most {limit} bytes here (ulimit -f)"
