"""Names of a job's own directories and files.

Its directories are in the root of a local storage, for objects that are not visible yet. A killed run leaves
them behind; the job's next run removes them. They are not nodes of an archive. Its files are next to another
file or directory, with names short enough for the file system.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import Final

_START: Final = ".zarrlift-"
PASSES: Final = f"{_START}passes"
"""Directory of intermediate arrays."""
LAYERED: Final = f"{_START}layered"
"""Directory of objects being written through storage transformers."""
MODEL: Final = "model"
"""Used in place of a job's id by `model create`, which runs once at a time."""
_OWN: Final = re.compile(rf"\.zarrlift-(passes|layered|{MODEL}|[0-9a-f]{{8}})")


def directory_of(job_id: str) -> str:
    """The directory in which objects of a job are written before they are renamed."""
    return f"{_START}{job_id}"


def is_own(name: str) -> bool:
    """Whether a name is that of one of these directories."""
    return _OWN.fullmatch(name) is not None


_KEPT: Final = 200
"""Bytes of the longest name to which suffixes are added: its job file gets further ones, such as SQLite's."""
_DIGESTED: Final = 120
"""Bytes of a longer name that precede its digest."""


def sibling(path: Path, suffix: str) -> Path:
    """The path of a file next to `path`, for example its job file."""
    return path.with_name(with_suffix(path.name, suffix))


def with_suffix(name: str, suffix: str, most: int = _KEPT) -> str:
    """A name with a suffix; of a name longer than `most` bytes, its start and its digest replace it."""
    encoded = os.fsencode(name)
    if len(encoded) <= most:
        return name + suffix
    start = encoded[:_DIGESTED].decode("utf-8", "ignore")
    return f"{start}~{hashlib.blake2b(encoded, digest_size=8).hexdigest()}{suffix}"
