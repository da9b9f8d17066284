"""Lists stores that have no library of ours below them, and trees of keys."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
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
