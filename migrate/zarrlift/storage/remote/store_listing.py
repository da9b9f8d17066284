"""Lists stores that have no library of ours below them, and trees of keys."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Final, TypeVar

from ..base import ListedPage

if TYPE_CHECKING:
    from zarr.abc.store import Store


T = TypeVar("T")

_CHANGED: Final = re.compile(r"dictionary (keys )?changed (size )?during iteration")
"""Python's messages; no exception of its own distinguishes this error."""
_ATTEMPTS: Final = 1000


async def settled(listing: Callable[[], Awaitable[T]]) -> T:
    """The result of a listing, repeated if another thread has changed the dictionary that was listed.

    zarr's memory stores and fsspec's `memory://` iterate over a dictionary to which the user's threads may
    write at the same time; zarrlift itself does everything in one loop.
    """
    for _ in range(_ATTEMPTS):
        try:
            return await listing()
        except RuntimeError as error:
            if _CHANGED.fullmatch(str(error)) is None:
                raise
        await asyncio.sleep(0)
    return await listing()


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


async def entries_of(store: Store, path: str) -> dict[str, bool]:
    """Name -> whether it is a directory, for entries directly below a path of any store."""
    # zarr's `list_dir` does not provide types; a query for each name would cost a request per chunk, a
    # listing of everything below one per thousand.
    prefix = f"{path}/" if path else ""
    keys = [key.removeprefix(prefix) async for key in store.list_prefix(prefix)]
    return tree_of(keys).get("", {})


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
