"""Lists stores that have no library of ours below them: any store, and zip files."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import AsyncIterator, Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

from ..listing import ListedPage

if TYPE_CHECKING:
    from zarr.abc.store import Store


class ListedKeys:
    """Collects the keys of a listing."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    def take(self, page: ListedPage) -> None:
        """Add the keys of some objects."""
        self.keys += page.keys


async def any_names(store: Store, prefix: str) -> AsyncIterator[ListedPage]:
    """The keys from any store, without other properties."""
    yield ListedPage([key async for key in store.list_prefix(prefix)])


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


async def zip_members(path: str | os.PathLike[str], prefix: str) -> AsyncIterator[ListedPage]:
    """The objects below a prefix; the directory is read again if the file has been replaced."""
    facts = os.stat(path)
    found = _directory(os.fspath(path), facts.st_ino, facts.st_size, facts.st_mtime_ns)
    at = end = bisect_left(found.keys, prefix)
    while end < len(found.keys) and found.keys[end].startswith(prefix):
        end += 1
    assert found.sizes is not None
    assert found.versions is not None
    yield ListedPage(found.keys[at:end], found.sizes[at:end], found.versions[at:end])


@lru_cache(maxsize=2)
def _directory(path: str, *_: int) -> ListedPage:
    """The objects in a zip file, by key; the checksum of each is its version."""
    import zipfile

    with zipfile.ZipFile(path) as archive:
        found = {item.filename: item for item in archive.infolist()}
    members = [found[name] for name in sorted(found)]
    return ListedPage(
        [item.filename for item in members],
        [item.file_size for item in members],
        [f"{item.CRC:08x}" for item in members],
    )
