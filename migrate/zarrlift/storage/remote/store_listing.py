"""Lists stores that have no library of ours below them: any store, and zip files."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import AsyncIterator, Iterable
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING

from ..listing import ListedObject

if TYPE_CHECKING:
    from zarr.abc.store import Store


class ListedKeys:
    """Collects the keys of a listing."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    def take(self, objects: Iterable[ListedObject]) -> None:
        """Add the keys of some objects."""
        self.keys += [item.key for item in objects]


async def any_names(store: Store, prefix: str) -> AsyncIterator[list[ListedObject]]:
    """The keys from any store, without other properties."""
    yield [ListedObject(key) async for key in store.list_prefix(prefix)]


def tree_of(keys: Iterable[str]) -> dict[str, dict[str, bool]]:
    """Directory -> its names -> whether each is a directory; "" is the root."""
    tree: dict[str, dict[str, bool]] = {}
    for key in keys:
        # Zip files by archivers have entries for directories, which end with "/".
        directory, _, name = key.removesuffix("/").rpartition("/")
        tree.setdefault(directory, {})[name] = key.endswith("/")
        while directory:
            parent, _, name = directory.rpartition("/")
            below = tree.setdefault(parent, {})
            if below.get(name):
                break
            below[name] = True
            directory = parent
    return tree


async def zip_members(path: str | os.PathLike[str], prefix: str) -> AsyncIterator[list[ListedObject]]:
    """The objects below a prefix; the directory is read again if the file has been replaced."""
    facts = os.stat(path)
    found = _directory(os.fspath(path), facts.st_ino, facts.st_size, facts.st_mtime_ns)
    at = end = bisect_left(found, prefix, key=itemgetter(0))
    while end < len(found) and found[end].key.startswith(prefix):
        end += 1
    yield found[at:end]


@lru_cache(maxsize=2)
def _directory(path: str, *_: int) -> list[ListedObject]:
    """The objects in a zip file, by key; the checksum of each is its version."""
    import zipfile

    with zipfile.ZipFile(path) as archive:
        found = {
            item.filename: ListedObject(item.filename, item.file_size, f"{item.CRC:08x}")
            for item in archive.infolist()
        }
    return sorted(found.values())
