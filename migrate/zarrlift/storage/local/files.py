"""Reads local files: regular files only, with the size limit of a document or a chunk.

A pipe, socket or device in place of a file would block the process or never end.
"""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Final, Literal

from zarrstack.core.errors import ChunkError, Problem, StorageError, ZarrstackError
from zarrstack.system.this import system

from ..versions import Version, require_version

if TYPE_CHECKING:
    from pathlib import Path

CREATING: Final = (
    os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)
)
"""For `os.open`, not through a link. Without O_BINARY, Windows would convert line ends."""


class BadObjectError(StorageError):
    """An existing object that cannot be read, however often it is tried."""


@dataclass(frozen=True, slots=True)
class ReadLimit:
    """The maximum size of an object for reading, and what it is read as."""

    most: int
    kind: Literal["document", "chunk"] = "chunk"

    def too_large(self, found: str) -> ZarrstackError:
        """The error for a larger object."""
        expected = f"at most {self.most} bytes"
        if self.kind == "chunk":
            message = "the object is larger than a chunk of this array can be"
            return ChunkError(message, found=found, expected=expected)
        advice = "Leave the node out with --exclude, or raise the limit in Python with max_document_size."
        return BadObjectError("the document is too large", found=found, expected=expected, advice=advice)

    def check(self, size: int) -> None:
        """Raise ChunkError or BadObjectError for an object that is larger."""
        if size > self.most:
            raise self.too_large(f"{size} bytes")


DOCUMENT: Final = ReadLimit(64 << 20, "document")
"""Default size limit of a metadata document."""

WRITTEN: Final = ReadLimit(4 << 30, "document")
"""Size limit of documents written by a job: consolidated metadata contains all documents of an archive."""

READING: Final = (
    os.O_RDONLY
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_CLOEXEC", 0)
)
"""For `os.open`. Windows would convert line ends; a pipe would block, a terminal would take control."""

_OPEN_FILES: Final = "/proc/self/fd"
"""A directory with a name for each open file, on Linux."""
_PIECE: Final = 64 << 20
_KINDS: Final = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def open_regular(path: str | os.PathLike[str]) -> tuple[int, os.stat_result]:
    """The descriptor of a regular file, and its `stat` result.

    Raises OSError, including IsADirectoryError, and BadObjectError for a pipe, a socket or a device.
    """
    try:
        descriptor = os.open(path, READING)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket, or a device that does not exist
            raise not_regular(os.stat(path).st_mode) from error
        raise
    facts = os.fstat(descriptor)
    if stat.S_ISREG(facts.st_mode):
        return descriptor, facts
    os.close(descriptor)
    if stat.S_ISDIR(facts.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    raise not_regular(facts.st_mode)


def kind_of(mode: int) -> str:
    """A description of an object that is not a file, from the mode in its `stat` result."""
    return _KINDS.get(stat.S_IFMT(mode), "something else")


def not_regular(mode: int) -> BadObjectError:
    """The error for an object that is neither a file nor a directory."""
    return BadObjectError(
        "not a regular file",
        found=kind_of(mode),
        expected="a regular file",
        advice="Remove it, or leave the node out with --exclude.",
    )


def is_directory(path: str, error: OSError) -> bool:
    """Whether an open failed because the path is a directory; Windows reports denied access."""
    return error.errno == errno.EISDIR or (error.errno == errno.EACCES and os.path.isdir(path))


def read_file(path: str | os.PathLike[str], bound: ReadLimit, version: Version | None = None) -> bytes:
    """A whole file; raises as `open_regular` does, and the error of `bound` if it is too large.

    SourceChangedError if it has another version. One more byte than expected is requested, so the end of the
    file is known from the same call.
    """
    descriptor, facts = open_regular(path)
    try:
        size = facts.st_size
        bound.check(size)
        data = os.read(descriptor, size + 1)
        if len(data) != size:
            parts, size = [data], len(data)  # it grew, or exceeds one call (2 GiB on Linux)
            while part := os.read(descriptor, _PIECE):
                parts.append(part)
                size += len(part)
                bound.check(size)
            data = b"".join(parts)
        require_version(descriptor, version)
        return data
    finally:
        os.close(descriptor)


def read_at(descriptor: int, length: int, start: int) -> bytes:
    """Bytes of an open file from `start` on, fewer only at its end, without a change of its position."""
    data = system.read_at(descriptor, length, start)  # at most 2 GiB on Linux
    while 0 < len(data) < length and (
        more := system.read_at(descriptor, length - len(data), start + len(data))
    ):
        data += more
    return data


def temporary_file() -> IO[bytes]:
    """A file that a killed process does not leave behind, if the system supports files without a name."""
    import tempfile

    if os.path.isdir(_OPEN_FILES):
        return tempfile.TemporaryFile()
    return tempfile.NamedTemporaryFile(prefix="zarrlift-")


def path_of(file: IO[bytes]) -> str | None:
    """A path that opens an open file again from its start; None for a file in memory, or on Windows."""
    name = getattr(file, "name", None)
    if isinstance(name, int):
        return f"{_OPEN_FILES}/{name}"
    return name if isinstance(name, str) and system.reopens else None


_ABSENT: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EBADF, errno.ELOOP})


def exists(path: Path) -> bool:
    """Whether the path, or what its link leads to, exists; OSError."""
    return _mode(path) is not None


def is_dir(path: Path) -> bool:
    """Whether the path is a directory or a link to one; OSError."""
    mode = _mode(path)
    return mode is not None and stat.S_ISDIR(mode)


def is_file(path: Path) -> bool:
    """Whether the path is a regular file or a link to one; OSError."""
    mode = _mode(path)
    return mode is not None and stat.S_ISREG(mode)


def existing_directory(path: Path) -> Path:
    """The directory at a path, or the nearest one above it; OSError."""
    while not is_dir(path) and path != path.parent:
        path = path.parent
    return path


def _mode(path: Path) -> int | None:
    try:
        return os.stat(path).st_mode
    except OSError as error:
        if error.errno in _ABSENT or getattr(error, "winerror", None) in (21, 123, 1921):
            return None  # on Windows: a drive that is not ready, a name that is invalid, a link in a circle
        raise
    except ValueError:  # a null character
        return None


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
    if error.errno == errno.EACCES and getattr(error, "winerror", None):
        advice = "Close the program that has the file open, or check the permissions, then resume."
    found = error.strerror or str(error)
    if error.errno == errno.EFBIG:
        found += file_limit_text()
    return StorageError(what, key=key, found=found, advice=advice)


def may_create_in(directory: str | os.PathLike[str]) -> bool:
    """Whether this process has the permission to create files in a directory."""
    return os.access(directory, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids)


def file_limit_text() -> str:
    """`; files may have at most 1024 bytes here (ulimit -f)`, or "" if this process has no such limit."""
    limit = system.limit("RLIMIT_FSIZE")
    return "" if limit is None else f"; files may have at most {limit} bytes here (ulimit -f)"
