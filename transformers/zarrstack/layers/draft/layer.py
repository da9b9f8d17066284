"""`Draft`: shows a 2022-draft archive as Zarr v3, and writes it in the draft's format.

Text: zarr-v3-core-draft-2022-05; the methods implement its section "Storage". Keys are mapped in `keys`,
documents in `documents`; the bytes of chunks and shards are the same on both sides.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Self, TypeVar, cast

from zarr.abc.store import ByteRequest, Store
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.core.buffer.core import default_buffer_prototype

from ...base.array_documents import node_of
from ...base.byte_ranges import cut
from ...base.sync_calls import Synchronous, complete
from ...core.draft_v3.nodes import ENTRY
from ...core.errors import MetadataError
from ...core.json_text import JSONObject
from .archive import ArchiveLayer, buffer_of
from .documents import entry_bytes, parse
from .keys import DraftArchive
from .listing import any_node, is_ghost, list_below, list_names

T = TypeVar("T")


class Draft(ArchiveLayer):
    """Presents an archive in the layout of the 2022 draft as Zarr v3, and writes it in that layout.

    `dialect` applies to new archives: "text", as in the text of May 2022, or "zarr-python", as in zarr-python
    2.13 to 2.18; an existing archive keeps its own. With `allow_fallback`, unknown data types are read as
    their fallbacks.

    Documents are translated. Metadata that the draft cannot express is refused on write, and metadata that
    zarr-python 3 cannot represent is refused on read, with an error that names node and key. Groups without a
    document are shown if they contain nodes. Other keys are stored below `data/`.

    Examples
    --------
    >>> below = {}
    >>> store = zarrstack.stack(MemoryStore(below), zarrstack.Draft())
    >>> array = zarr.create_array(store, name="a", shape=(4,), dtype="i4")
    >>> sorted(below)
    ['meta/a.array.json', 'meta/group.json', 'zarr.json']
    """

    name = "draft"
    short = "dialect"

    @property
    def supports_consolidated_metadata(self) -> bool:
        """False: group documents of the draft cannot hold consolidated metadata."""
        return False

    # -- reading --------------------------------------------------------------------------------

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Return the value or a byte range of it; a `zarr.json` is translated from the draft."""
        path = node_of(key)
        if path is not None:
            content = await self._document(path)
            return None if content is None else cut(prototype.buffer.from_bytes(content), byte_range)
        for place in await self._places(key):
            value = await self._store.get(place, prototype, byte_range)
            if value is not None:
                if len(value) == 0:
                    await self._check_empty(key)
                return value
        return None

    def get_sync(
        self, key: str, *, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Synchronous `get`: chunks without an event loop, documents on zarr's."""
        prototype = prototype or default_buffer_prototype()
        return self._call_sync(key, lambda layer: layer.get(key, prototype, byte_range))

    def _call_sync(self, key: str, call: Callable[[Self], Coroutine[Any, Any, T]]) -> T:
        if node_of(key) is not None:
            from zarr.core.sync import sync

            return sync(call(self))
        return complete(call(self._with_store(cast("Store", Synchronous(self._store)))))

    async def _document(self, path: str) -> bytes | None:
        """Return a node's `zarr.json`, as in "Determine if a node exists"; None if there is no node."""
        archive = await self._archive()
        documents = self._documents(archive)
        array, group = await self._both(archive, path)
        self._remember(archive, path, array)
        if array is not None and group is not None:
            raise MetadataError(
                "a node is an array and a group",
                node=path,
                key=archive.dialect.group_key(path),
                found=archive.dialect.array_key(path) + " too",
            )
        if array is not None:
            return documents.shown_array(array.to_bytes(), path)
        if group is not None and not await is_ghost(self._store, archive, path):
            return documents.shown_group(group.to_bytes(), path)
        raw = await self._store.get(archive.raw(path), default_buffer_prototype())
        if raw is not None:
            return raw.to_bytes()
        if not await self._implied(archive, path):
            return None
        return documents.shown_group(None, path)

    async def _both(self, archive: DraftArchive, path: str) -> tuple[Buffer | None, Buffer | None]:
        prototype = default_buffer_prototype()
        array, group = await asyncio.gather(
            self._store.get(archive.dialect.array_key(path), prototype),
            self._store.get(archive.dialect.group_key(path), prototype),
        )
        return array, group

    async def _implied(self, archive: DraftArchive, path: str) -> bool:
        """Whether a path without a document contains nodes."""
        if not self._store.supports_listing:
            return False
        found = await any_node(self._store, archive, path)
        if found and self._state.archive is None:
            raise MetadataError(
                "an archive of the draft has no entry point",
                key=ENTRY,
                found=f"nodes in {archive.dialect.below('')}",
                expected=entry_bytes(self._new).decode().strip(),
            )
        return found

    async def exists(self, key: str) -> bool:
        """Whether the key has a value; documents are not read."""
        path = node_of(key)
        if path is None:
            return any([await self._store.exists(place) for place in await self._places(key)])
        archive = await self._archive()
        return await self._has_document(archive, path) or await self._implied(archive, path)

    async def _has_document(self, archive: DraftArchive, path: str) -> bool:
        """Whether a node, valid or not, has a document; false for implicit groups."""
        places = [archive.raw(path), archive.dialect.array_key(path)]
        if not await is_ghost(self._store, archive, path):
            places.append(archive.dialect.group_key(path))
        return any(await asyncio.gather(*(self._store.exists(place) for place in places)))

    async def getsize(self, key: str) -> int:
        """Length of the value in bytes; FileNotFoundError if the key is missing."""
        if node_of(key) is not None:
            return await super().getsize(key)
        for place in await self._places(key):
            try:
                return await self._store.getsize(place)
            except FileNotFoundError:
                continue
        raise FileNotFoundError(key)

    # -- writing --------------------------------------------------------------------------------

    async def set(self, key: str, value: Buffer) -> None:
        """Write a whole value. A `zarr.json` is translated to a draft document, or refused."""
        self._check_writable()
        path = node_of(key)
        if path is None:
            await self._store.set(await self._home(key), value)
        elif (data := _node(value)) is not None:
            await self._make(path, data)
        else:
            # Not a valid document: readers of the node report it, as with any other store.
            archive = await self._archive()
            await self._erase(archive, path)
            await self._store.set(archive.raw(path), value)

    def set_sync(self, key: str, value: Buffer) -> None:
        """Synchronous `set`: chunks without an event loop, documents on zarr's."""
        self._call_sync(key, lambda layer: layer.set(key, value))

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Write a value if the key is missing, as atomically as the store below; documents by `exists`.

        An implicit group becomes an explicit one if that does not change what is shown: zarr writes an array
        and its parent groups concurrently, and zarr 2.18 requires the root's document.
        """
        self._check_writable()
        if (path := node_of(key)) is not None:
            if not _is_plain_group(value):
                await super().set_if_not_exists(key, value)
            elif not await self._has_document(await self._archive(), path):
                await self.set(key, value)
            return
        await self._store.set_if_not_exists(await self._home(key), value)

    async def _make(self, path: str, data: JSONObject) -> None:
        """Create or change a node: "Create a group" and "Create an array"."""
        archive = await self._archive()
        is_array = data["node_type"] == "array"
        place, other = archive.dialect.array_key(path), archive.dialect.group_key(path)
        old = await self._store.get(place, default_buffer_prototype()) if is_array else None
        kept = self._documents(archive).kept(data, path, None if old is None else old.to_bytes())
        if (made := await self._made()) is not archive and made.dialect != archive.dialect:
            await self._make(path, data)
            return
        if not is_array:
            place, other = other, place
        await self._store.set(place, buffer_of(kept))
        await self._store.delete(other)  # a node has one kind only
        self._remember(made, path, buffer_of(kept) if is_array else None)

    async def delete(self, key: str) -> None:
        """Remove a key; a missing key is not an error.

        A group that contains nodes remains, as an implicit group.
        """
        self._check_writable()
        path = node_of(key)
        if path is not None:
            archive = await self._archive()
            await self._erase(archive, path)
            await self._store.delete(archive.raw(path))
            return
        for place in await self._places(key):
            await self._store.delete(place)

    def delete_sync(self, key: str) -> None:
        """Synchronous `delete`: chunks without an event loop, documents on zarr's."""
        self._call_sync(key, lambda layer: layer.delete(key))

    async def _erase(self, archive: DraftArchive, path: str) -> None:
        """Remove the document of a node, array or group."""
        archive.arrays.pop(path, None)
        dialect = archive.dialect
        await asyncio.gather(
            self._store.delete(dialect.array_key(path)), self._store.delete(dialect.group_key(path))
        )

    async def delete_dir(self, prefix: str) -> None:
        """Remove every key below a path: "Erase a group or array". "" removes the whole archive."""
        self._check_writable()
        archive = await self._archive()
        path = prefix.strip("/")
        whole = archive.is_whole(path)
        # Chunks in `a/c/` are stored in `data/a/`, with the rest of the array.
        keys = [] if whole else [key async for key in self.list_prefix(path + "/")]
        await self._erase(archive, path)
        await self._store.delete_dir(archive.dialect.below(path).rstrip("/"))
        if whole:
            await self._store.delete_dir(archive.dialect.data(path).rstrip("/"))
        await asyncio.gather(*(self.delete(key) for key in keys))
        for known in [known for known in archive.arrays if not path or f"{known}/".startswith(f"{path}/")]:
            archive.arrays.pop(known, None)
        if not path:
            await self._store.delete(ENTRY)
            self._state.archive = None

    # -- listing --------------------------------------------------------------------------------

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Every key with this prefix: documents of explicit and implicit nodes, and data keys."""
        archive = await self._archive()
        async for key in list_below(self._store, archive, prefix, lambda path: self._learn(archive, path)):
            yield key

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """The distinct names directly below a path: "Discover children of a group"."""
        archive = await self._archive()
        path = prefix.strip("/")
        names = await list_names(self._store, archive, path, lambda path: self._learn(archive, path))
        if names is None:
            async for name in self._list_dir(prefix):
                yield name
            return
        for name in names:
            yield name


def _node(value: Buffer) -> JSONObject | None:
    """Parse the document of a node; None for any other value."""
    try:
        data = parse(value.to_bytes(), "")
    except MetadataError:
        return None
    return data if "node_type" in data else None


def _is_plain_group(value: Buffer) -> bool:
    """Whether this is the document of a group without attributes, like an implicit one."""
    data = _node(value)
    if data is None or data["node_type"] != "group":
        return False
    return not any(said for member, said in data.items() if member not in {"zarr_format", "node_type"})
