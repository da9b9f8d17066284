"""`Sharding`: maps chunk keys to shards; the sharding storage transformer of the 2022 draft.

Source: `https://purl.org/zarr/spec/storage_transformers/sharding/1.0`, type `indexed`, as zarr-python 2.18.7
reads and writes it; see `core.shard_index` for the bytes, `base.chunks` for the keys.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, Self

from zarr.abc.store import ByteRequest, Store
from zarr.core.buffer import Buffer, BufferPrototype

from ...base.array_documents import is_document
from ...base.byte_ranges import content, cut, immutable
from ...base.chunks import ChunkNames
from ...base.descend import remove_below
from ...base.option_checks import size
from ...base.transformer import Values
from ...core.chunk_keys_v3 import KeyEncoding
from ...core.errors import UsageError
from ...core.json_text import JSON, JSONObject
from ...core.shard_index import IndexFormat
from ...system.shared_locks import run_to_completion
from .buffer import ShardBuffer, flush, open_shard, open_shards, settle
from .buffered import STORED, BufferedArray
from .listing import list_below, list_names
from .shard import ChunkChange, Place, ShardForm
from .stored_shard import ShardWriters


class Sharding(BufferedArray):
    """Stores the chunks of one array in shards; every other key passes through.

    `chunks_per_shard` has one number per axis (with `ndim`, missing trailing numbers are 1). `path` is the
    array's path in the store below. `chunk_key_encoding` is the encoding of the chunk keys above; shards use
    the same one. By default the index has the draft's form, without a checksum; `index_codecs` and
    `index_location` are those of the ratified `sharding_indexed`.

    Within a process, a shard has one writer at a time and readers wait for it: across all layers over the
    same location, in any thread or event loop. Concurrent writer processes must not share shards.

    With `memory_bytes`, a number or a text such as "64MB", chunks wait in memory until their shard is whole,
    this budget is full, or the layer is flushed or closed. All stacks over the same location in this process
    see them; a crash loses those that were not flushed, never a stored shard.

    An invalid shard raises a ChunkError that names its key, when it is read or partly rewritten. Listings and
    `exists` read only the index and do not compare it with the length of the object. Replacing or removing
    all chunks of a shard at once does not read it.

    Examples
    --------
    >>> below = {}
    >>> store = zarrstack.stack(MemoryStore(below), zarrstack.Sharding(chunks_per_shard=[2], path="a"))
    >>> array = zarr.create_array(store, name="a", shape=(4,), chunks=(1,), dtype="i4")
    >>> array[:] = 7
    >>> sorted(below)
    ['a/c/0', 'a/c/1', 'a/zarr.json', 'zarr.json']
    """

    name = "sharding"
    in_metadata = True

    def __init__(
        self,
        store: Store | None = None,
        *,
        chunks_per_shard: Sequence[int],
        path: str = "",
        chunk_key_encoding: JSON = "default",
        index_codecs: JSON = None,
        index_location: JSON = "end",
        ndim: int | None = None,
        memory_bytes: int | str | None = None,
    ) -> None:
        super().__init__(store)
        form = IndexFormat.DRAFT.to_json() | {"index_location": index_location}
        if index_codecs is not None:
            form["index_codecs"] = index_codecs
        self._form = ShardForm.of(chunks_per_shard, ndim, IndexFormat.from_json(form))
        encoding = KeyEncoding.from_json(chunk_key_encoding)
        self._names = ChunkNames(path, len(self._form.chunks), encoding)
        self._options = self._normal_options()
        self._writers = ShardWriters()
        if memory_bytes is not None:
            budget = size(self, "memory_bytes", memory_bytes)
            self._options["memory_bytes"] = budget
            self.use_buffer(ShardBuffer(budget))

    def _normal_options(self) -> dict[str, Any]:
        """The options as JSON, without those that have their default value."""
        options: dict[str, Any] = {"chunks_per_shard": list(self._form.chunks)}
        if self._names.path:
            options["path"] = self._names.path
        if self._names.encoding != KeyEncoding("default", "/"):
            options["chunk_key_encoding"] = self._names.encoding.to_json()
        usual = IndexFormat.DRAFT.to_json()
        return options | {
            name: value for name, value in self._form.index.to_json().items() if value != usual[name]
        }

    @classmethod
    def for_array(cls, configuration: JSONObject, path: str, document: JSONObject) -> Self:
        """Return the layer for one array; path, axes and chunk key encoding come from the array's metadata.

        UsageError if the configuration sets one of these or `memory_bytes`, or has more axes than the array.
        """
        own = {"path", "ndim", "chunk_key_encoding", "memory_bytes"}
        if names := sorted(own & set(configuration)):
            raise UsageError(
                f"layer {cls.name!r}: option {names[0]!r} is not allowed in an array's metadata",
                node=path,
                expected=", ".join(sorted(set(cls.option_names()) - own)),
                advice="Pass it to zarrstack.open." if names[0] == "memory_bytes" else None,
            )
        whole = {
            "path": path,
            "ndim": len(document["shape"]),
            "chunk_key_encoding": document["chunk_key_encoding"],
        }
        return cls.from_json({"name": cls.name, "configuration": configuration | whole})

    def check_change(self, old: JSONObject, new: JSONObject) -> str | None:
        """Accept any new shape, but no other number of axes or chunk key encoding."""
        if len(new["shape"]) != len(self._form.chunks):
            return f"chunks_per_shard is for {len(self._form.chunks)} axes"
        if KeyEncoding.from_json(new["chunk_key_encoding"]) != self._names.encoding:
            return f"its shards are named by the chunk key encoding {self._names.encoding}"
        return None

    # -- reading ------------------------------------------------------------------------------

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Return the value or a byte range of it.

        A chunk takes one ranged read for the shard's index and one for its bytes.
        """
        chunk = self._names.coordinates(key)
        if chunk is None:
            return await self._store.get(key, prototype, byte_range)
        where, place = self._form.locate(chunk)
        if (value := await self._waiting(where, place)) is not STORED:
            return None if value is None else cut(prototype.buffer.from_bytes(value), byte_range)
        shard = self._names.key(where)
        async with self._lock(shard).reading():
            return await (await self._shard(shard).open()).get(place, prototype, byte_range)

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> Values:
        """Return values or ranges in the requested order; the index of each shard is read once."""
        wanted: dict[str, list[tuple[int, Place, ByteRequest | None]]] = {}
        others: list[tuple[int, str, ByteRequest | None]] = []
        requests = list(key_ranges)
        values: Values = [None] * len(requests)
        for number, (key, part) in enumerate(requests):
            if (chunk := self._names.coordinates(key)) is None:
                others.append((number, key, part))
                continue
            where, place = self._form.locate(chunk)
            if (value := await self._waiting(where, place)) is STORED:
                wanted.setdefault(self._names.key(where), []).append((number, place, part))
            elif value is not None:
                values[number] = cut(prototype.buffer.from_bytes(value), part)

        async def plain(number: int, key: str, part: ByteRequest | None) -> None:
            values[number] = await self._store.get(key, prototype, part)

        async def sharded(shard: str, parts: list[tuple[int, Place, ByteRequest | None]]) -> None:
            async with self._lock(shard).reading():
                opened = await self._shard(shard).open()
                wanted_parts = (opened.get(place, prototype, part) for _, place, part in parts)
                results = await asyncio.gather(*wanted_parts)
            for (number, _, _), value in zip(parts, results, strict=True):
                values[number] = value

        await asyncio.gather(
            *(plain(*other) for other in others), *(sharded(shard, parts) for shard, parts in wanted.items())
        )
        return values

    async def exists(self, key: str) -> bool:
        """Whether the key has a value; for a chunk, according to the index of its shard."""
        chunk = self._names.coordinates(key)
        if chunk is None:
            return await self._store.exists(key)
        where, place = self._form.locate(chunk)
        if (value := await self._waiting(where, place)) is not STORED:
            return value is not None
        shard = self._names.key(where)
        async with self._lock(shard).reading():
            return place in await self._shard(shard).open()

    async def getsize(self, key: str) -> int:
        """Length of the value in bytes; for a chunk, according to the index of its shard."""
        chunk = self._names.coordinates(key)
        if chunk is None:
            return await self._store.getsize(key)
        where, place = self._form.locate(chunk)
        if (value := await self._waiting(where, place)) is STORED:
            shard = self._names.key(where)
            async with self._lock(shard).reading():
                length = await (await self._shard(shard).open()).getsize(place)
        else:
            length = None if value is None else len(value)
        if length is None:
            raise FileNotFoundError(key)
        return length

    # -- writing ------------------------------------------------------------------------------

    async def set(self, key: str, value: Buffer) -> None:
        """Write a whole value; a chunk waits in the buffer, or else its shard is rewritten."""
        await self._set(key, value)

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Write a value if the key is missing; for a chunk, atomically within this process."""
        await self._set(key, value, if_absent=True)

    async def _set(self, key: str, value: Buffer, *, if_absent: bool = False) -> None:
        self._check_writable()
        chunk = self._names.coordinates(key)
        if chunk is None:
            await self._barrier(key)
            await (self._store.set_if_not_exists if if_absent else self._store.set)(key, value)
            return
        shard, place = self._form.locate(chunk)
        change = self._change_of(place, value, if_absent=if_absent)
        if self._buffer is None:
            await self._change(shard, change)
        elif if_absent:
            await self._put_missing(self._buffer, shard, change)
        else:
            await self._buffer.put(change, self._at(shard))

    def _change_of(self, place: Place, value: Buffer, *, if_absent: bool = False) -> ChunkChange:
        # What waits is copied: the caller may change its array.
        data = content(value)
        return ChunkChange(place, data if self._buffer is None else immutable(value), if_absent)

    async def delete(self, key: str) -> None:
        """Remove a key; a missing key is not an error. Removing a shard's last chunk removes the shard."""
        self._check_writable()
        chunk = self._names.coordinates(key)
        if chunk is None:
            await self._barrier(key)
            await self._store.delete(key)
            return
        shard, place = self._form.locate(chunk)
        if self._buffer is None:
            await self._change(shard, ChunkChange(place, None))
        else:
            await self._buffer.put(ChunkChange(place, None), self._at(shard))

    async def _barrier(self, key: str) -> None:
        """Store what waits before a document changes, which may describe it."""
        if is_document(key):
            await flush(self._array)

    async def delete_dir(self, prefix: str) -> None:
        """Remove every key below a path; all shards of an array at once, without reading them."""
        self._check_writable()
        folder = prefix.rstrip("/") + "/" if prefix.strip("/") else ""
        if self._names.region.startswith(folder):
            async with self._lock("").writing():
                await run_to_completion(self._remove_all(folder))
        else:  # Empty folders remain: another writer may be creating a shard there. Listings omit them.
            await super().delete_dir(prefix)

    async def _remove_all(self, folder: str) -> None:
        waiting = [(each, dict(each.changes)) for each in open_shards(self._array)]
        await remove_below(self._store, folder.rstrip("/"))
        for each, changes in waiting:
            settle(each, changes)

    async def _change(self, shard: Place, change: ChunkChange) -> None:
        """Write a change into its shard, after those that wait."""
        waiting = open_shard(self._array, shard)
        if waiting is not None:
            await waiting.buffer.store(waiting)
        key = self._names.key(shard)
        # `delete_dir` holds this lock, which covers all shards of the array, exclusively.
        async with self._lock("").reading():
            await self._writers.change(self._shard(key), self._lock(key), change)

    # -- listing ------------------------------------------------------------------------------

    def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Every key with this prefix; chunk keys come from the indexes of their shards."""
        keys = list_below(self._store, prefix, self._names, self._form, self._keys_in)
        return self._flushed(prefix, keys)

    def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """The distinct names directly below a path, except those that lead only to empty shards."""
        names = list_names(self._store, prefix, self._names, self._list_dir, self.is_empty)
        return self._flushed(prefix, names)

    async def _keys_in(self, key: str, shard: Place) -> list[str]:
        """The keys of the chunks in a shard."""
        async with self._lock(key).reading():
            index = (await self._shard(key).open()).index
        return [] if index is None else [self._names.key(c) for c in self._form.members(shard, index)]
