"""`PerArray`: applies each array's `storage_transformers`, independently of zarr-python.

zarr-python refuses to open an array whose metadata names storage transformers (but opens it through its
group, ignoring them), and drops the field when it rewrites metadata without having seen it (3.1.6 and 3.4.2).
This layer hides the field from zarr-python, routes the chunks of such an array through the stack that the
field describes, and restores the field in every document that is written, together with a member that makes
zarr-python alone refuse the array. A group with such an array has no consolidated metadata
(`base.array_documents`).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Self

from zarr.abc.buffer import Buffer, BufferPrototype
from zarr.abc.store import ByteRequest, Store
from zarr.buffer import default_buffer_prototype

from ...base.array_documents import (
    CONSOLIDATED,
    DOCUMENT,
    FIELD,
    GUARD,
    V2_DOCUMENTS,
    consolidated_in,
    entries_of,
    is_array,
    key_of,
    names_transformers,
    node_of,
    parse,
)
from ...base.byte_ranges import cut
from ...base.descend import UNBOUND, remove_below
from ...base.description import split_entry
from ...base.locations import same_location
from ...base.registry import find
from ...base.stack import stack
from ...base.transformer import StorageTransformer
from ...core.errors import MetadataError, UnsupportedError, UsageError, ZarrstackError
from ...core.json_text import JSON, JSONObject, excerpt
from ...core.paths import ancestors, parents, prefix_of
from ...system.shared_locks import SharedLock, lock_of


@dataclass(frozen=True, kw_only=True)
class DescribedArray:
    """An array as described by its stored document."""

    document: JSONObject
    entries: list[JSON]
    layers: tuple[StorageTransformer, ...] = ()
    store: Store
    """The array's stack over the store below; the store below itself for an array without transformers."""

    def has_same_layers(self, other: DescribedArray) -> bool:
        """Whether both have equal layers, and can share one stack."""
        mine, theirs = ([(type(each), each.options) for each in array.layers] for array in (self, other))
        return mine == theirs


def describe(below: Store, path: str, document: JSONObject) -> DescribedArray:
    """Return a document's array with its layers; an error for one that cannot be used."""
    layers: list[StorageTransformer] = []
    try:
        entries = entries_of(document, path)
        if entries:
            _check_members(document)
        for entry in entries:
            name, configuration = split_entry(entry)
            try:
                kind = find(name)
            except UsageError as error:
                raise UnsupportedError(
                    f"the array is stored through {name!r}, which cannot be used here",
                    found=error.problem.message,
                    expected=error.problem.expected,
                    advice=error.problem.advice,
                ) from error
            if not kind.in_metadata:
                raise UnsupportedError(
                    f"storage transformer {name!r} may not be named by metadata",
                    advice=(
                        "It could access data outside the store: add it to the stack yourself. A layer that "
                        "never does so may set `in_metadata = True` in its class."
                    ),
                )
            layers.append(kind.for_array(configuration, path, document))
            if layers[-1].buffers:
                raise UnsupportedError(
                    f"storage transformer {name!r} keeps values in memory, and may not be named by metadata",
                    advice="Put it into the stack yourself, above PerArray, and flush or close that.",
                )
        store = stack(below, *layers)
    except UsageError as error:
        raise MetadataError.of(error.problem).at(node=path, key=key_of(path)) from None
    except ZarrstackError as error:
        error.at(node=path, key=key_of(path))
        raise
    return DescribedArray(document=document, entries=entries, layers=tuple(layers), store=store)


def _check_members(document: JSONObject) -> None:
    """Raise MetadataError unless a document has the members that layers read, in their general form."""
    forms: dict[str, tuple[type | tuple[type, ...], str]] = {
        "shape": (list, "a list of lengths"),
        "chunk_key_encoding": ((dict, str), "an object or a name"),
    }
    for name, (form, expected) in forms.items():
        if not isinstance(document.get(name), form):
            raise MetadataError(
                f"the array's document has no valid {name}",
                found=excerpt(document.get(name)),
                expected=expected,
            )


class PerArray(StorageTransformer):
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
        self._arrays: dict[str, DescribedArray] = {}
        self._without_array: set[str] = set()
        """Paths of groups, and those at which no array was found when chunks were requested."""
        self._of_v2: set[str] = set()
        """Paths of arrays of Zarr v2, below which no other array is."""
        self._declared: dict[str, list[JSON]] = {}

    def _with_store(self, store: Store) -> Self:
        # The arrays' stacks are built on this view's store: a copy builds its own.
        copy = type(self)(store)
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

    def _learn(self, path: str, document: JSONObject) -> DescribedArray:
        """Record the array of a document; a known stack is kept if the layers are equal."""
        previous = self._arrays.pop(path, None)
        array = describe(self._store, path, document)
        if previous is not None and previous.has_same_layers(array):
            array = replace(array, layers=previous.layers, store=previous.store)
        self._arrays[path] = array
        self._without_array.discard(path)
        return array

    async def _array_of(self, key: str, *, again: bool = True) -> DescribedArray | None:
        """Return the array that contains a key, or the contents of a folder `key + "/"`.

        With `again`, documents are also read at paths that had none, or that of a group.
        """
        paths = tuple(ancestors(key))
        for path in paths:
            if (array := self._arrays.get(path)) is not None:
                return array
        for path in paths:
            if again or path not in self._without_array:
                if (array := await self._array_at(path)) is not None:
                    return array
                self._without_array.add(path)
            if not again and path in self._of_v2:
                break
        return None

    async def _target(self, key: str) -> Store:
        """The store that holds a key other than a document of Zarr v3.

        A document of Zarr v2 cannot name transformers, and is in no array that does.
        """
        if key.rpartition("/")[2] in V2_DOCUMENTS:
            return self._store
        array = await self._array_of(key, again=False)
        return self._store if array is None else array.store

    def cache_of(self, key: str) -> Any:
        below = getattr(self._known_store(key), "cache_of", None)
        return None if below is None else below(key)

    def stored_in(self, key: str) -> tuple[str, int] | None:
        below = getattr(self._known_store(key), "stored_in", None)
        return None if below is None else below(key)

    def _known_store(self, key: str) -> Store | None:
        """The stack of the known array that contains a key."""
        arrays = (self._arrays.get(path) for path in ancestors(key))
        return next((array.store for array in arrays if array is not None), None)

    def _forget(self, folder: str) -> None:
        for path in list(self._arrays):  # other threads may add entries concurrently
            if f"{path}/".startswith(folder):
                self._arrays.pop(path, None)
        self._without_array.clear()
        self._of_v2.clear()

    async def _get_document(self, path: str, prototype: BufferPrototype) -> Buffer | None:
        """Return a document as shown to zarr-python: without transformers, and without what hides them."""
        value = await self._store.get(key_of(path), prototype)
        document = None if value is None else parse(value.to_bytes())
        if document is None or not is_array(document):
            self._arrays.pop(path, None)
            if document is None:
                return value
            self._without_array.add(path)
            if not self._hides_transformers(document, path):
                return value
            del document[CONSOLIDATED]
        else:
            self._learn(path, document)
            if not names_transformers(document):
                return value
            document = {name: member for name, member in document.items() if name != GUARD} | {FIELD: []}
        return prototype.buffer.from_bytes(json.dumps(document).encode())

    def _hides_transformers(self, group: JSONObject, path: str) -> bool:
        """Whether a group has consolidated metadata, and below it is known to be an array with transformers.

        The documents of the arrays that it lists are not read. An array that has transformers by now is read
        through them nevertheless: its own document is read for the first of its chunks.
        """
        if not isinstance(group.get(CONSOLIDATED), dict):
            return False
        known = [array for where, array in list(self._arrays.items()) if where.startswith(prefix_of(path))]
        documents = [*dict(consolidated_in(group, path)).values(), *(array.document for array in known)]
        return any(map(names_transformers, documents))

    async def check_set(self, key: str, value: Buffer) -> None:
        if (path := node_of(key)) is not None:
            await self._prepared(path, value)

    async def _prepared(self, path: str, value: Buffer) -> tuple[Buffer, DescribedArray | None]:
        """A document with its array's transformers, and its array; UsageError if they cannot follow it."""
        document = parse(value.to_bytes())
        array = None
        if document is not None and is_array(document):
            entries = document.get(FIELD) or await self._entries(path)
            if entries:
                document |= {FIELD: entries, GUARD: {"must_understand": True}}
                value = type(value).from_bytes(json.dumps(document, indent=2).encode())
            array = describe(self._store, path, document)
            before = None
            with suppress(MetadataError, UnsupportedError):  # one that cannot be used may be repaired
                before = await self._array_at(path)
            if before is not None:
                self._check_change(path, before, array)
        elif document is not None and self._hides_transformers(document, path):
            del document[CONSOLIDATED]
            value = type(value).from_bytes(json.dumps(document, indent=2).encode())
        return value, array

    async def _set_document(self, path: str, value: Buffer) -> None:
        """Write a document, including its array's transformers."""
        value, array = await self._prepared(path, value)
        if array is not None and array.entries:
            await self._remove_consolidated(path)
        async with self._lock(path).writing():
            await self._store.set(key_of(path), value)
        if array is None:
            self._arrays.pop(path, None)
        else:
            self._learn(path, array.document)

    async def _remove_consolidated(self, path: str) -> None:
        """Remove the consolidated metadata of the groups above an array, which would hide its guard."""
        for group in parents(path):
            lock = self._lock(group)
            async with lock.reading():
                document = await self._stored(group)
            if document is None or CONSOLIDATED not in document:
                continue
            async with lock.writing():
                document = await self._stored(group)
                if document is not None and document.pop(CONSOLIDATED, None) is not None:
                    content = json.dumps(document, indent=2).encode()
                    buffer = default_buffer_prototype().buffer.from_bytes(content)
                    await self._store.set(key_of(group), buffer)

    def _lock(self, path: str) -> SharedLock:
        """This layer's lock of a document.

        zarr-python writes the groups above a new array at the same time as its document, for which they are
        read: on Windows, a file that is just being written cannot be read.
        """
        return lock_of((PerArray, id(self)), path)

    async def _entries(self, path: str) -> list[JSON]:
        """The transformers of an array: as declared for a new document, otherwise as stored."""
        if path in self._declared:
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
        path = node_of(key)
        if path is None:
            value = await (await self._target(key)).get(key, prototype, byte_range)
            folder, _, name = key.rpartition("/")
            if name == ".zarray" and value is not None:
                self._of_v2.add(folder)
            return value
        value = await self._get_document(path, prototype)
        return None if value is None else cut(value, byte_range)

    async def set(self, key: str, value: Buffer) -> None:
        self._check_writable()
        path = node_of(key)
        if path is None:
            await (await self._target(key)).set(key, value)
        else:
            await self._set_document(path, value)

    async def delete(self, key: str) -> None:
        self._check_writable()
        path = node_of(key)
        if path is None:
            await (await self._target(key)).delete(key)
        else:
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
            await (await self._target(key)).set_if_not_exists(key, value)
        elif (document := parse(value.to_bytes())) and (is_array(document) or CONSOLIDATED in document):
            await super().set_if_not_exists(key, value)
        else:  # written unchanged, so the store below can do it atomically: zarr creates groups this way
            async with self._lock(path).writing():
                await self._store.set_if_not_exists(key, value)
            self._arrays.pop(path, None)

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        array = await self._array_of(prefix)
        if array is not None:
            async for key in array.store.list_prefix(prefix):
                yield key
            return
        keys = [key async for key in self._store.list_prefix(prefix)]
        own = await self._transformed(keys)
        for key in keys:
            if not any(path in own for path in ancestors(key)):
                yield key
        for path, array in own.items():
            async for key in array.store.list_prefix(f"{path}/" if path else ""):
                yield key

    async def _transformed(self, keys: list[str]) -> dict[str, DescribedArray]:
        """The arrays with transformers whose documents are among these keys."""
        paths = [path for path in map(node_of, keys) if path is not None]
        described = await asyncio.gather(*(self._array_at(path) for path in paths))
        arrays = zip(paths, described, strict=True)
        return {path: array for path, array in arrays if array is not None and array.entries}

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        store = await self._target(prefix.rstrip("/") + "/")
        async for name in store.list_dir(prefix):
            yield name

    async def delete_dir(self, prefix: str) -> None:
        """Remove every key below a path: first through the arrays' stacks, then the rest."""
        self._check_writable()
        folder = prefix_of(prefix)
        array = await self._array_of(folder)
        if array is not None:
            await array.store.delete_dir(prefix)
        else:
            keys = [key async for key in self._store.list_prefix(folder) if key.endswith(DOCUMENT)]
            for path, each in (await self._transformed(keys)).items():
                await each.store.delete_dir(path)
            await remove_below(self._store, prefix)
        self._forget(folder)
