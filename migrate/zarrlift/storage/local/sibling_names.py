"""Names of files next to another file or directory, short enough for the file system."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Final

_KEPT: Final = 200
"""Bytes of the longest name to which suffixes are added: its job file gets further ones, such as SQLite's."""
_START: Final = 120
"""Bytes of a longer name that precede its digest."""


def sibling(path: Path, suffix: str) -> Path:
    """The path of a file next to `path`, for example its job file."""
    return path.with_name(with_suffix(path.name, suffix))


def with_suffix(name: str, suffix: str, most: int = _KEPT) -> str:
    """A name with a suffix; of a name longer than `most` bytes, its start and its digest replace it."""
    encoded = os.fsencode(name)
    if len(encoded) <= most:
        return name + suffix
    start = encoded[:_START].decode("utf-8", "ignore")
    return f"{start}~{hashlib.blake2b(encoded, digest_size=8).hexdigest()}{suffix}"
