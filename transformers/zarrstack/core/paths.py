"""Paths of nodes: names joined by "/", "" for the root; the prefix of keys.

Source: Zarr v3.0 core specification, "Node names" and "Path"
(https://zarr-specs.readthedocs.io/en/latest/v3/core/index.html#path), without the leading "/", which keys do
not have.
"""

from __future__ import annotations

from collections.abc import Iterator


def join(path: str, name: str) -> str:
    """Append a name to a path."""
    return f"{path}/{name}" if path else name


def prefix_of(path: str) -> str:
    """Common prefix of all keys below a path, with or without a "/" at its end; "" for the root."""
    return path if not path or path.endswith("/") else path + "/"


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
