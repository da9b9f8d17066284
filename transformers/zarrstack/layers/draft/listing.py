"""Listings of Zarr v3 keys over a 2022-draft archive: nodes from `meta/`, other keys from `data/`."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from zarr.abc.store import Store
from zarr.core.buffer.core import default_buffer_prototype

from ...base.array_documents import DOCUMENT, key_of, node_of
from ...core.draft_v3.nodes import CONSOLIDATED
from ...core.paths import join, prefix_of
from .keys import GHOST, DraftArchive, has_attributes

Learn = Callable[[str], Awaitable[None]]
"""Adds the array at a path, if there is one, to the archive's known arrays."""

_CHUNKS: Final = re.compile(r"c(?:[./]?[0-9][0-9.]*)?")
"""First segments below of draft chunk keys, and of keys that were renamed to avoid them."""


async def any_node(store: Store, archive: DraftArchive, path: str) -> bool:
    """Whether a path contains nodes."""
    async for place in store.list_prefix(archive.dialect.below(path)):
        node = archive.dialect.node(place)
        if node is not None and node.path != path:
            return True
    return False


async def is_ghost(store: Store, archive: DraftArchive, path: str) -> bool:
    """Whether this apparent group exists only because of zarr-python 2's consolidated metadata.

    A group of this name with attributes or nodes is the user's.
    """
    is_named_so = archive.dialect.name == "zarr-python" and path == GHOST
    if not is_named_so or not await store.exists(CONSOLIDATED):
        return False
    content = await store.get(archive.dialect.group_key(path), default_buffer_prototype())
    own = content is not None and has_attributes(content.to_bytes())
    return not own and not await any_node(store, archive, path)


async def nodes_at(store: Store, archive: DraftArchive, path: str) -> set[str]:
    """The paths of all nodes at or below a path: "Discover all nodes in a hierarchy"."""
    dialect = archive.dialect
    places = [place async for place in store.list_prefix(dialect.below(path))]
    if path or dialect.name == "zarr-python":  # otherwise the listing includes the root's documents
        own = (dialect.array_key(path), dialect.group_key(path))
        places += [place for place in own if await store.exists(place)]
    ghost = dialect.group_key(GHOST)
    if ghost in places and await is_ghost(store, archive, GHOST):
        places.remove(ghost)
    return archive.nodes_in(places, path)


async def list_below(store: Store, archive: DraftArchive, prefix: str, learn: Learn) -> AsyncIterator[str]:
    """Every distinct key above that starts with `prefix`."""
    folder = prefix[: prefix.rfind("/") + 1].rstrip("/")
    nodes = await nodes_at(store, archive, folder)
    for document in map(key_of, sorted(nodes)):
        if document.startswith(prefix):
            yield document
    twice = set()
    for below in archive.folders(prefix):
        async for place in store.list_prefix(below):
            key = await _shown(archive, place, learn)
            if key is None or not key.startswith(prefix) or node_of(key) in nodes:
                continue
            if key == "c" or key.endswith("/c"):  # the chunk of a 0-d array may have two locations
                if key in twice:
                    continue
                twice.add(key)
            yield key


async def _shown(archive: DraftArchive, place: str, learn: Learn) -> str | None:
    if not place.startswith(archive.data):
        return None
    if (path := archive.asks(place[len(archive.data) :])) is not None:
        await learn(path)
    return archive.shown(place)


async def list_names(store: Store, archive: DraftArchive, path: str, learn: Learn) -> set[str] | None:
    """The names directly below a node, without listing their contents; None if `path` is not a node.

    Only folders whose names look like chunk keys are listed, unless they are nodes.
    """
    dialect = archive.dialect
    is_array = await store.exists(dialect.array_key(path))
    children = await _children(store, archive, path)
    if not is_array and not children and not await store.exists(dialect.group_key(path)):
        return None
    names = children | {DOCUMENT}
    if is_array:
        await learn(path)
    folder = dialect.data(path)
    async for name in store.list_dir(folder.rstrip("/")):
        if name in children:
            continue
        if is_array and re.fullmatch(r"c[0-9][0-9.]*", name):
            key = archive.shown(folder + name)
            names.add((key or name)[len(prefix_of(path)) :].split("/", 1)[0])
        elif _CHUNKS.fullmatch(name):
            names |= await _names_from(store, archive, path, name, learn)
        elif await _holds(store, folder + name):  # zarr 2.18 leaves empty folders where it erases
            names.add(name)
    return names


async def _children(store: Store, archive: DraftArchive, path: str) -> set[str]:
    """The names of the nodes directly below a path, explicit and implied."""
    below = archive.dialect.below(path)
    found, folders = set(), set()
    async for name in store.list_dir(below.rstrip("/")):
        node = archive.dialect.node(below + name)
        if node is None:
            folders.add(name)
        elif node.path != path and not await is_ghost(store, archive, node.path):
            found.add(node.path.rpartition("/")[2])
    for name in folders - found:
        if await any_node(store, archive, join(path, name)):
            found.add(name)
    return found


async def _holds(store: Store, place: str) -> bool:
    """Whether a key exists at or below this location."""
    async for _ in store.list_prefix(place + "/"):
        return True
    # LocalStore's `exists` is true for folders too.
    return await store.get(place, default_buffer_prototype()) is not None


async def _names_from(store: Store, archive: DraftArchive, path: str, name: str, learn: Learn) -> set[str]:
    """First segments above, within a path, of all keys at or below one name in its data folder."""
    folder = archive.dialect.data(path)
    places = [place async for place in store.list_prefix(f"{folder}{name}/")]
    if await store.exists(folder + name):
        places.append(folder + name)
    prefix = prefix_of(path)
    keys = [await _shown(archive, place, learn) for place in places]
    return {key[len(prefix) :].split("/", 1)[0] for key in keys if key is not None and key.startswith(prefix)}
