"""What archives ask of the paths of nodes (`zarrstack.core.paths`), and of those in URLs of files."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

T = TypeVar("T")
WINDOWS: Final = sys.platform == "win32"
"""Whether paths, and the words of shells, are those of Windows."""


def local_path(path: str, server: str = "", *, windows: bool = WINDOWS) -> str:
    """The path in the file system for that of a file's URL: on Windows one with a drive, or on a server."""
    if server not in ("", "localhost"):
        return f"//{server}{path}"
    return path[1:] if windows and path[:1] == "/" and path[2:3] == ":" else path


def nearest(path: str, entries: Mapping[str, T]) -> T | None:
    """The entry of a path, or of its nearest parent; None if there is none."""
    while path not in entries:
        if not path:
            return None
        path = path.rpartition("/")[0]
    return entries[path]


def names_below(paths: Iterable[str]) -> dict[str, frozenset[str]]:
    """The names directly below each ancestor of these paths."""
    result: dict[str, set[str]] = {}
    for path in paths:
        below = path
        while below:
            above, _, name = below.rpartition("/")
            names = result.setdefault(above, set())
            if name in names:
                break  # all parents are known too
            names.add(name)
            below = above
    return {above: frozenset(names) for above, names in result.items()}
