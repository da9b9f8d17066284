"""Files that appear complete or not at all: created under a name that identifies the process, then renamed.

The next process that creates the same file removes what a killed process has left under such a name.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from typing import Final

from .owner_process import OwnerProcess, state_of

_NAME: Final = re.compile(
    r"\.(?P<place>[0-9a-f]+)-(?P<boot>[0-9a-f]*)-(?P<pid>[0-9]+)-(?P<started>[0-9]*)\.partial(-journal|-wal|-shm)?"
)
"""Suffix of the file's own name; SQLite adds to it."""
_NO_LINKS: Final = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
"""Errors of systems without hard links: FAT, and some network and user-space file systems."""


def partial_name(path: str) -> str:
    """The temporary path, in the same directory, at which this process creates the file."""
    here = OwnerProcess.of_this_process()
    return f"{path}.{here.place}-{_hexadecimal(here.boot)}-{here.pid}-{here.started}.partial"


def sweep_partial(path: str) -> None:
    """Remove files left by ended processes of this host that were creating this file."""
    directory, name = os.path.split(path)
    place = OwnerProcess.of_this_process().place
    try:
        with os.scandir(directory or ".") as entries:
            names = [entry.name for entry in entries if entry.name.startswith(name + ".")]
    except OSError:
        return
    for other in names:
        parts = _NAME.fullmatch(other, len(name))
        if parts is not None and parts["place"] == place and _ended(parts):
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(directory, other))


def create_file(path: str, data: bytes) -> bool:
    """Create a file if there is none; False if there is one. Of several callers, one succeeds. OSError."""
    partial = partial_name(path)
    try:
        with open(partial, "wb") as file:
            file.write(data)
        try:
            os.link(partial, path)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            return _create_slowly(path, data)
        return True
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(partial)


def _create_slowly(path: str, data: bytes) -> bool:
    """Like `create_file`, except that the file is briefly visible without content."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    except FileExistsError:
        return False
    with open(descriptor, "wb") as file:
        file.write(data)
    return True


def _ended(parts: re.Match[str]) -> bool:
    here = OwnerProcess.of_this_process()
    if parts["boot"] != _hexadecimal(here.boot):
        return True
    return state_of(int(parts["pid"]), parts["started"], here.boot) == "ended"


def _hexadecimal(boot: str) -> str:
    return boot.partition("-")[0]
