"""`Draft`: Zarr v3 above, an archive of the 2022 draft below, read and written as it lies.

Text: zarr-v3-core-draft-2022-05; section "Storage" is what the methods here carry out. Keys are in
`keys`, documents in `documents`; the bytes of chunks and shards are the same on both sides.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from zarr.abc.store import ByteRequest
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.core.buffer.core import default_buffer_prototype

from ...base.array_documents import node_of
from ...base.byte_ranges import cut
from ...core.draft_v3.nodes import ENTRY
from ...core.errors import MetadataError
from ...core.json_text import JSONObject
from .archive import ArchiveLayer, buffer_of
from .documents import entry_bytes, parse
from .keys import DraftArchive
from .listing import any_node, is_ghost, list_below, list_names


class Draft(ArchiveLayer):
    """Shows an archive in the layout of the 2022 draft as Zarr v3, and writes it as such.

    `dialect` is that of an archive made here: "text", as the text of May 2022 says, or "zarr-python",
    as zarr-python 2.13 to 2.18 reads and writes; an archive that is there keeps its own. With
    `allow_fallback`, data types that are not known are read as their fallbacks.

    Documents are translated. What the draft cannot say is refused when it is written, and what
    zarr-python 3 cannot read as it lies when it is read, by an error that names node and key. Groups
    without a document are shown where nodes lie below them. Other keys are kept below `data/`.
    """

    name = "draft"
    short = "dialect"

    @property
    def supports_consolidated_metadata(self) -> bool:
        """Never: the draft has no place for them in a group's document."""
        return False

    # -- reading --------------------------------------------------------------------------------

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """The value or a range of it; of a `zarr.json`, what its document in the draft says."""
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
        """As `get`; chunks without an event loop, documents through zarr's."""
        prototype = prototype or default_buffer_prototype()
        if node_of(key) is not None:
            found: Buffer | None = _sync(self.get(key, prototype, byte_range))
            return found
        below: Any = self._store
        for place in self._places_sync(key):
            value: Buffer | None = below.get_sync(place, prototype=prototype, byte_range=byte_range)
            if value is not None:
                if len(value) == 0:
                    self._check_empty_sync(key)
                return value
        return None

    async def _document(self, path: str) -> bytes | None:
        """The `zarr.json` of a node, in the order of "Determine if a node exists"; None if there is none."""
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
        """Whether nodes lie below a path that has no document."""
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
        """Whether a node, or what is none, is kept under its own name; an implicit group is not."""
        places = [archive.raw(path), archive.dialect.array_key(path)]
        if not await is_ghost(self._store, archive, path):
            places.append(archive.dialect.group_key(path))
        return any(await asyncio.gather(*(self._store.exists(place) for place in places)))

    async def getsize(self, key: str) -> int:
        """Length of the value in bytes; FileNotFoundError when it is missing."""
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
        """Write a whole value. A `zarr.json` becomes a document of the draft, or is refused."""
        self._check_writable()
        path = node_of(key)
        if path is None:
            await self._store.set(await self._home(key), value)
        elif (data := _node(value)) is not None:
            await self._make(path, data)
        else:
            # No document: whoever opens the node is told so, as over any other store.
            archive = await self._archive()
            await self._erase(archive, path)
            await self._store.set(archive.raw(path), value)

    def set_sync(self, key: str, value: Buffer) -> None:
        """As `set`; chunks without an event loop, documents through zarr's."""
        self._check_writable()
        if node_of(key) is not None:
            _sync(self.set(key, value))
        else:
            below: Any = self._store
            below.set_sync(self._home_sync(key), value)

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Write a value where there is none, as safely as the store below does; documents by `exists`.

        An implicit group becomes an explicit one if that changes nothing of what is shown: zarr writes an
        array and the groups it lies in at the same time, and zarr 2.18 wants the root's document.
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
        await self._store.delete(other)  # a node is one or the other
        self._remember(made, path, buffer_of(kept) if is_array else None)

    async def delete(self, key: str) -> None:
        """Remove a key; a missing one is no error, and an implicit group stays while nodes lie below it."""
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
        """As `delete`; chunks without an event loop, documents through zarr's."""
        self._check_writable()
        if node_of(key) is not None:
            _sync(self.delete(key))
            return
        below: Any = self._store
        for place in self._places_sync(key):
            below.delete_sync(place)

    async def _erase(self, archive: DraftArchive, path: str) -> None:
        """Remove the document of a node, be it an array or a group."""
        archive.arrays.pop(path, None)
        dialect = archive.dialect
        await asyncio.gather(
            self._store.delete(dialect.array_key(path)), self._store.delete(dialect.group_key(path))
        )

    async def delete_dir(self, prefix: str) -> None:
        """Remove every key below a path: "Erase a group or array". Without a path, the whole archive."""
        self._check_writable()
        archive = await self._archive()
        path = prefix.strip("/")
        whole = archive.is_whole(path)
        # Chunks in `a/c/` lie in `data/a/`, with the rest of the array.
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
        """Every key that starts with this text: documents of explicit and implicit nodes, and the rest."""
        archive = await self._archive()
        async for key in list_below(self._store, archive, prefix, lambda path: self._learn(archive, path)):
            yield key

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """The names right below a path, each once: "Discover children of a group"."""
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
    """The document of a node, or None for a value that is none."""
    try:
        data = parse(value.to_bytes(), "")
    except MetadataError:
        return None
    return data if "node_type" in data else None


def _is_plain_group(value: Buffer) -> bool:
    """Whether this is the document of a group that says no more than an implicit group does."""
    data = _node(value)
    if data is None or data["node_type"] != "group":
        return False
    return not any(said for member, said in data.items() if member not in {"zarr_format", "node_type"})


def _sync(work: Any) -> Any:
    from zarr.core.sync import sync

    return sync(work)
