"""Copies local files: by reflink, inside the kernel, or by read and write."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Final

from zarrstack.core.errors import ChunkError
from zarrstack.system.this import system

from ...core.codecs.base import HEAD_BYTES, TAIL_BYTES, Buffer, HeadAndTail, memory
from ..giving_up import check
from ..versions import Version, has_version
from .files import READING, read_at

if TYPE_CHECKING:
    from ..writer import PayloadCheck

_NEXT: Final = frozenset(
    {errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOTTY, errno.ENOSYS, errno.EPERM, errno.EBADF}
)
"""Errors of the kernel if a method of copying is not available between two files."""


IN_ONE_READ: Final = 256 << 10
"""Maximum size for which a read and a write are faster than setting up an in-kernel copy."""


_AT_ONCE: Final = 64 << 20
"""Bytes that the kernel copies before Ctrl-C is noticed."""


def write_all(descriptor: int, data: Buffer) -> None:
    """Write a whole buffer; a nearly full disk accepts less than it is given, without an error."""
    view = data if isinstance(data, bytes) else memory(data).cast("B") if len(data) else b""
    written = os.write(descriptor, view)
    while written < len(view):
        written += os.write(descriptor, view[written:])


def read_small(
    path: str, expected: int, version: Version | None, payload_check: PayloadCheck
) -> Buffer | None:
    """The content of a small file, checked by `payload_check`, with a minimum of system calls.

    Without bytes behind the payload's end.

    A single read suffices if the file is shorter than `expected` bytes. Returns None for a file that is
    empty, read in part, longer than `IN_ONE_READ`, unreadable, or not of this version: `LocalWriter.copy`
    handles all cases and reports errors. Raises the errors of `payload_check`.
    """
    try:
        descriptor = os.open(path, READING)
        try:
            data = os.read(descriptor, expected)
            if len(data) == expected:
                data += os.read(descriptor, max(IN_ONE_READ + 1 - expected, 0))
            # After the reads, so a write in between is detected.
            facts = os.fstat(descriptor)
            same = facts.st_size == len(data) and has_version(facts, version)
        finally:
            os.close(descriptor)
    except OSError:
        return None
    if not same or not 0 < len(data) <= IN_ONE_READ:
        return None
    return payload_check.check_whole(data)


def ends_of_file(descriptor: int, size: int) -> HeadAndTail:
    """The first and last bytes of an open file of this size."""
    head = read_at(descriptor, HEAD_BYTES, 0)
    tail = head[-TAIL_BYTES:] if size <= HEAD_BYTES else read_at(descriptor, TAIL_BYTES, size - TAIL_BYTES)
    return HeadAndTail(head, tail, size)


def reflink(reading: int, writing: int) -> bool:
    """Let a file share another's blocks; False if the file system does not support this. OSError."""
    try:
        return system.share_blocks(reading, writing)
    except OSError as error:
        if error.errno in _NEXT:
            return False
        raise


def copy_range(reading: int, writing: int, size: int) -> bool:
    """Copy the first bytes of a file to the current position of another, inside the kernel.

    False if the kernel does not support this; ChunkError if the file is shorter; OSError.
    """
    if not hasattr(os, "copy_file_range"):
        return False
    done = 0
    while done < size:
        try:
            count = os.copy_file_range(reading, writing, min(size - done, _AT_ONCE), done)
        except OSError as error:
            if done == 0 and error.errno in _NEXT:
                return False
            raise
        if count == 0:
            raise ChunkError("the source ended early", found=f"{done} bytes", expected=f"{size} bytes")
        done += count
        check()
    return True


def copy_by_hand(reading: int, writing: int, size: int) -> None:
    """Copy the first bytes of a file by read and write; ChunkError if it is shorter."""
    done = 0
    while done < size:
        piece = read_at(reading, 1 << 20, done)
        if not piece:
            raise ChunkError("the source ended early", found=f"{done} bytes", expected=f"{size} bytes")
        write_all(writing, piece)
        done += len(piece)
        check()
