"""Paths of nodes: names joined by "/", "" for the root; the prefix of keys.

Source: Zarr v3.0 core specification, "Node names" and "Path"
(https://zarr-specs.readthedocs.io/en/latest/v3/core/index.html#path), without the leading "/", which keys do
not have.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

T = TypeVar("T")


def local_path(path: str, *, windows: bool = sys.platform == "win32") -> str:
    """The path in the file system for that of a file's URL: Windows has no `/` before a drive."""
    return path[1:] if windows and path[:1] == "/" and path[2:3] == ":" else path


def join(path: str, name: str) -> str:
    """Append a name to a path."""
    return f"{path}/{name}" if path else name


def prefix_of(path: str) -> str:
    """Common prefix of all keys below a path: the path and a "/", or "" for the root."""
    return f"{path}/" if path else ""


def ancestors(key: str) -> Iterator[str]:
    """Every path that may contain a key, from the root down."""
    yield ""
    at = key.find("/")
    while at >= 0:
        yield key[:at]
        at = key.find("/", at + 1)


def parents(path: str) -> tuple[str, ...]:
    """The paths above a path, nearest first, the root ("") last; empty for the root."""
    result = []
    while path:
        path = path.rpartition("/")[0]
        result.append(path)
    return tuple(result)


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
