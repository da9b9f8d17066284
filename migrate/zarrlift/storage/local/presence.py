"""Whether something is at a path: an error of the system is raised, not taken for its absence.

`exists`, `is_dir` and `is_file` of pathlib did so until Python 3.14, in which they are False for a path
that cannot be looked at: https://docs.python.org/3.14/whatsnew/3.14.html#pathlib
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

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
