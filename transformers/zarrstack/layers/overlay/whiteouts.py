"""Deletions of an `Overlay`, recorded in the store for its changes.

    .overlay/keys/<key>/.gone         this key of the store below is deleted
    .overlay/folders/<folder>/.gone   everything in this folder of the store below is deleted

The markers are empty objects, and are never removed: a key that is written after its deletion is in the upper
store, which is read first. A process that has seen a marker may therefore rely on it. The layout is this
project's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from zarr.abc.store import Store
from zarr.core.buffer import cpu

from ...core.errors import UsageError
from ...core.paths import ancestors, prefix_of

RESERVED: Final = ".overlay"
KEYS: Final = RESERVED + "/keys/"
FOLDERS: Final = RESERVED + "/folders/"
_MARKER_NAME: Final = ".gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Whiteouts:
    """Deletions in the store below."""

    keys: frozenset[str]
    folders: frozenset[str]
    """Folders without a trailing slash; "" is everything."""

    def hides(self, key: str) -> bool:
        """Whether a key of the store below is deleted."""
        return key in self.keys or (
            bool(self.folders) and any(folder in self.folders for folder in ancestors(key))
        )

    def touches(self, path: str) -> bool:
        """Whether a path, a folder above it, or anything below it is deleted."""
        start = prefix_of(path)
        return (
            self.hides(path)
            or path in self.folders
            or any(key.startswith(start) for key in (*self.keys, *self.folders))
        )


async def of(upper: Store, key: str) -> bool:
    """Whether a key of the store below is deleted; takes one `exists` and one listing of folders."""
    by_key, folders = await asyncio.gather(upper.exists(_marker(KEYS, key)), _paths(upper, FOLDERS))
    return by_key or any(folder in folders for folder in ancestors(key))


async def load(upper: Store, prefix: str = "") -> Whiteouts:
    """Read the markers that apply below a prefix, which is "" or ends with a slash."""
    keys, folders = await asyncio.gather(_paths(upper, KEYS, prefix), _paths(upper, FOLDERS))
    return Whiteouts(keys=frozenset(keys), folders=frozenset(folders))


async def hide(upper: Store, tree: str, path: str) -> None:
    """Record as deleted a key of the store below (in KEYS), or everything in a folder of it (in FOLDERS)."""
    await upper.set(_marker(tree, path), cpu.Buffer.from_bytes(b""))


def is_own(key: str) -> bool:
    """Whether a key is reserved for the layer."""
    return key.startswith(RESERVED) and (key == RESERVED or key.startswith(RESERVED + "/"))


def check_key(key: str) -> None:
    """Raise UsageError for a key that would be indistinguishable from a marker."""
    if is_own(key) or (_MARKER_NAME in key and _MARKER_NAME in key.split("/")):
        raise UsageError(
            f"layer 'overlay': names such as {RESERVED} and {_MARKER_NAME} are reserved",
            key=key,
            expected="another name",
        )


def _marker(tree: str, path: str) -> str:
    return f"{tree}{path}/{_MARKER_NAME}" if path else tree + _MARKER_NAME


async def _paths(upper: Store, tree: str, prefix: str = "") -> set[str]:
    keys: Iterable[str] = [key async for key in upper.list_prefix(tree + prefix)]
    end = "/" + _MARKER_NAME
    return {
        key.removeprefix(tree[:-1]).removesuffix(end).removeprefix("/") for key in keys if key.endswith(end)
    }
