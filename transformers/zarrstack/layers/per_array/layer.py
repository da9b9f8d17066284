"""`PerArray`: applies each array's `storage_transformers`, independently of zarr-python.

zarr-python refuses to open an array whose metadata names storage transformers (but opens it through its
group, ignoring them), and drops the field when it rewrites metadata without having seen it (3.1.6 and 3.4.2).
This layer hides the field from zarr-python, routes the chunks of such an array through the stack that the
field describes, and restores the field in every document that is written, together with a member that makes
zarr-python alone refuse the array (`base.array_documents`).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Self

from zarr.abc.store import ByteRequest, Store
from zarr.core.buffer import Buffer, BufferPrototype, default_buffer_prototype

from ...base.array_documents import (
    DOCUMENT,
    FIELD,
    arrays_in,
    entries_of,
    guarded,
    is_array,
    key_of,
    node_of,
    parse,
    put_together,
    set_apart,
    without_transformers,
)
from ...base.byte_ranges import cut
from ...base.descend import UNBOUND, remove_below
from ...base.locations import same_location
from ...core.errors import UsageError
from ...core.json_text import JSON, JSONObject
from ...core.paths import ancestors, folder_prefix
from .described import BufferedArrays, DescribedArray, Members, describe


class PerArray(BufferedArrays):
    """Applies to each array the stack that its `storage_transformers` name.

    Metadata may name only layers with `in_metadata`. Layers see the chunk keys of their array, never
    `zarr.json`. Changes by other processes to the metadata of an array that is already open are not detected.

    Examples
    --------
    >>> store = zarrstack.stack(MemoryStore(), zarrstack.PerArray())
    >>> zarr.create_group(store).store.describe()
    'PerArray()'
    """

    name = "per-array"

    def __init__(self, store: Store | None = None) -> None:
        super().__init__(store)
        self._arrays = {}
        self._declared: dict[str, list[JSON]] = {}
        self._members = Members(self._array_again)

    def _with_store(self, store: Store) -> Self:
        # The arrays' stacks are built on this view's store: a copy builds its own.
        copy = type(self)(store)
        copy._own_buffer = self._own_buffer  # noqa: SLF001 - of the same class
        if self._store is not UNBOUND:
            same_location(store, self._store)
        return copy

    # -- the arrays ----------------------------------------------------------------------------------

    @contextmanager
    def declared(self, path: str, entries: list[JSON]) -> Iterator[None]:
        """Add these transformers to documents of this array that are written in this context."""
        self._declared[path] = entries
        try:
            yield
        finally:  # an existing array that was not replaced keeps its own
            del self._declared[path]

    async def _stored(self, path: str) -> JSONObject | None:
        """Return the document stored below, unchanged; None if there is none."""
        value = await self._store.get(key_of(path), default_buffer_prototype())
        return None if value is None else parse(value.to_bytes())

    async def _array_at(self, path: str) -> DescribedArray | None:
        """Return the array at exactly this path."""
        if (array := self._arrays.get(path)) is not None:
            return array
        document = await self._stored(path)
        return self._learn(path, document) if document is not None and is_array(document) else None

    async def _array_again(self, path: str) -> DescribedArray | None:
        """Return the array at exactly this path, as its document is now if it could not be opened before."""
        array = self._arrays.get(path)
        if array is not None and array.refusal is not None:
            self._arrays.pop(path, None)
        return await self._array_at(path)

    def _learn(self, path: str, document: JSONObject) -> DescribedArray:
        """Record the array of a document; a known stack is kept if the layers are equal."""
        previous = self._arrays.get(path)
        array = describe(self._store, path, document, self._buffer)
        if previous is not None and previous.has_same_layers(array):
            array = replace(array, layers=previous.layers, store=previous.store)
        self._arrays[path] = array
        return array

    async def _array_of(self, key: str) -> DescribedArray | None:
        """Return the array that contains a key, or the contents of a folder `key + "/"`."""
        paths = tuple(ancestors(key))
        for path in paths:
            if (array := self._arrays.get(path)) is not None:
                return array
        for path in paths:
            if (array := await self._array_at(path)) is not None:
                return array
        return None

    async def _target(self, key: str, *, writes: bool = False) -> Store:
        """The store that holds a key other than a document."""
        array = await self._array_of(key)
        if array is None:
            return self._store
        array.check(writes=writes)
        return array.store

    def cache_of(self, key: str) -> Any:
        """The state of the cache below the array that contains a key, if the array is known."""
        arrays = (self._arrays.get(path) for path in ancestors(key))
        below = next((getattr(array.store, "cache_of", None) for array in arrays if array is not None), None)
        return None if below is None else below(key)

    def _forget(self, folder: str) -> None:
        for path in list(self._arrays):  # other threads may add entries concurrently
            if f"{path}/".startswith(folder):
                self._arrays.pop(path, None)

    async def _get_document(self, path: str, prototype: BufferPrototype) -> Buffer | None:
        """Return a document as shown to zarr-python: without transformers."""
        value = await self._store.get(key_of(path), prototype)
        document = None if value is None else parse(value.to_bytes())
        if value is None or document is None:
            self._arrays.pop(path, None)
            return value
        hidden = put_together(document)
        hidden = await self._members.leave_out(document, path) or hidden
        for where, member in arrays_in(document, path):
            # Consolidated metadata may be outdated: the array's own document is used.
            array = self._learn(where, dict(member)) if where == path else await self._array_at(where)
            if where == path and array is not None:
                array.check(writes=False)
            hidden = without_transformers(member) or hidden
        if not hidden:
            return value
        return prototype.buffer.from_bytes(json.dumps(document).encode())

    async def _set_document(self, path: str, value: Buffer) -> None:
        """Write a document, including its arrays' transformers."""
        document = parse(value.to_bytes())
        arrays = [] if document is None else list(arrays_in(document, path))
        changed = False
        for where, member in arrays:
            if not member.get(FIELD) and (entries := await self._entries(where, path)):
                member[FIELD] = entries
            changed = guarded(member) or changed
        if document is not None:
            changed = await self._members.keep(document, path, self._stored) or changed
            set_apart(document)
        own = document if document is not None and is_array(document) else None
        if own is not None:
            array = describe(self._store, path, own, self._buffer)
            array.check(writes=True)
            if (before := await self._array_at(path)) is not None:
                self._check_change(path, before, array)
        if changed:
            value = type(value).from_bytes(json.dumps(document, indent=2).encode())
        await self.store_waiting(path)
        await self._store.set(key_of(path), value)
        if own is None:
            self._arrays.pop(path, None)
        else:
            self._learn(path, own)

    async def _entries(self, path: str, written: str) -> list[JSON]:
        """The transformers of an array: as declared for a new document, otherwise as stored."""
        if path == written and path in self._declared:
            return self._declared[path]
        document = await self._stored(path)
        return entries_of(document, path) if document is not None and is_array(document) else []

    def _check_change(self, path: str, before: DescribedArray, after: DescribedArray) -> None:
        for layer in before.layers if before.entries == after.entries else ():
            if (reason := layer.check_change(before.document, after.document)) is not None:
                raise UsageError(
                    f"layer {layer.name!r} cannot follow this change of the array: {reason}",
                    node=path,
                    key=key_of(path),
                    found=f"shape {after.document.get('shape')}",
                    expected=f"shape {before.document.get('shape')}, or another that the layer can follow",
                )

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Return the value or a byte range of it; documents are shown without transformers."""
        path = node_of(key)
        if path is None:
            return await (await self._target(key)).get(key, prototype, byte_range)
        value = await self._get_document(path, prototype)
        return None if value is None else cut(value, byte_range)

    async def set(self, key: str, value: Buffer) -> None:
        """Write a value; documents include their arrays' transformers."""
        self._check_writable()
        path = node_of(key)
        if path is None:
            await (await self._target(key, writes=True)).set(key, value)
        else:
            await self._set_document(path, value)

    async def delete(self, key: str) -> None:
        self._check_writable()
        path = node_of(key)
        if path is None:
            await (await self._target(key, writes=True)).delete(key)
        else:
            await self.store_waiting(path)
            await self._store.delete(key)
            self._arrays.pop(path, None)

    async def exists(self, key: str) -> bool:
        return await (self._store if node_of(key) is not None else await self._target(key)).exists(key)

    async def getsize(self, key: str) -> int:
        """Length of the value in bytes; for a document, as it is shown."""
        if node_of(key) is not None:
            return await super().getsize(key)
        return await (await self._target(key)).getsize(key)

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Write a value if the key is missing; an array's document is checked with `exists`."""
        self._check_writable()
        path = node_of(key)
        if path is None:
            await (await self._target(key, writes=True)).set_if_not_exists(key, value)
        elif (document := parse(value.to_bytes())) is not None and any(arrays_in(document, path)):
            await super().set_if_not_exists(key, value)
        else:  # written unchanged, so the store below can do it atomically: zarr creates groups this way
            await self._store.set_if_not_exists(key, value)
            self._arrays.pop(path, None)

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Every key with this prefix, as listed by the arrays' stacks."""
        array = await self._array_of(prefix)
        if array is not None:
            array.check(writes=False)
            async for key in array.store.list_prefix(prefix):
                yield key
            return
        keys = [key async for key in self._store.list_prefix(prefix)]
        own = await self._transformed(keys)
        for key in keys:
            if not any(path in own for path in ancestors(key)):
                yield key
        for path, array in own.items():
            array.check(writes=False)
            async for key in array.store.list_prefix(f"{path}/" if path else ""):
                yield key

    async def _transformed(self, keys: list[str]) -> dict[str, DescribedArray]:
        """The arrays with transformers whose documents are among these keys."""
        paths = [path for path in map(node_of, keys) if path is not None]
        described = await asyncio.gather(*(self._array_at(path) for path in paths))
        arrays = zip(paths, described, strict=True)
        return {path: array for path, array in arrays if array is not None and array.entries}

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """The names directly below a path, as listed by the array's stack.

        Arrays that cannot be opened are left out, with a warning: `members()` of their group would fail.
        """
        array = await self._array_of(prefix.rstrip("/") + "/")
        if array is None:
            for name in await self._members.openable(prefix.strip("/"), self._store.list_dir(prefix)):
                yield name
            return
        array.check(writes=False)
        async for name in array.store.list_dir(prefix):
            yield name

    async def delete_dir(self, prefix: str) -> None:
        """Remove every key below a path: first through the arrays' stacks, then the rest."""
        self._check_writable()
        folder = folder_prefix(prefix)
        array = await self._array_of(folder)
        if array is not None:
            array.check(writes=True)
            await array.store.delete_dir(prefix)
        else:
            keys = [key async for key in self._store.list_prefix(folder) if key.endswith(DOCUMENT)]
            for path, each in (await self._transformed(keys)).items():
                each.check(writes=True)
                await each.store.delete_dir(path)
            await remove_below(self._store, prefix)
        self._forget(folder)
