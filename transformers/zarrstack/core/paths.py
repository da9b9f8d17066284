"""Paths of nodes: names joined by "/", and "" for the root; keys begin with them.

Source: Zarr v3.0 core specification, "Node names" and "Path"
(https://zarr-specs.readthedocs.io/en/latest/v3/core/index.html#path), without the "/" at the
start, which keys do not have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

T = TypeVar("T")


def join(path: str, name: str) -> str:
    """A path or key below a path."""
    return f"{path}/{name}" if path else name


def prefix_of(path: str) -> str:
    """What everything below a path begins with: the path and a "/", or "" for the root."""
    return f"{path}/" if path else ""


def parents(path: str) -> tuple[str, ...]:
    """The paths above one, nearest first, the root ("") last; none for the root."""
    result = []
    while path:
        path = path.rpartition("/")[0]
        result.append(path)
    return tuple(result)


def nearest(path: str, known: Mapping[str, T]) -> T | None:
    """What is known of a path, or else of the first one above it; None where nothing is."""
    while path not in known:
        if not path:
            return None
        path = path.rpartition("/")[0]
    return known[path]


def names_below(paths: Iterable[str]) -> dict[str, frozenset[str]]:
    """The names directly below every path that one of these lies below, at any depth."""
    result: dict[str, set[str]] = {}
    for path in paths:
        below = path
        while below:
            above, _, name = below.rpartition("/")
            names = result.setdefault(above, set())
            if name in names:
                break  # and so is all that is above
            names.add(name)
            below = above
    return {above: frozenset(names) for above, names in result.items()}
