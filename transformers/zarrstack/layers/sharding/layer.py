"""`Sharding`: chunk keys above, shards below; the sharding storage transformer of the 2022 draft.

Source: `https://purl.org/zarr/spec/storage_transformers/sharding/1.0`, type `indexed`, as
zarr-python 2.18.7 reads and writes it; see `core.shard` for the bytes, `base.chunk_names` for the keys.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable, Iterable, Sequence
from typing import Any, Self

from zarr.abc.store import ByteRequest, Store
from zarr.core.buffer import Buffer, BufferPrototype

from ...base.chunk_names import ChunkEncoding, ChunkNames
from ...base.descend import descend
from ...base.transformer import StorageTransformer, Values
from ...core.errors import UsageError
from ...core.grid.shard_index import IndexFormat
from ...core.json_text import JSON, JSONObject
from .listing import list_below, list_names
from .locks import SharedLock, lock_of, place_of
from .shard import Change, Place, ShardForm
from .stored_shard import StoredShard, content
from .writer import ShardWriters, to_the_end


class Sharding(StorageTransformer):
    """Keeps the chunks of one array in shards; every other key passes through.

    `chunks_per_shard` has a number for each axis (with `ndim`, missing trailing ones are 1).
    `path` is the array's path below the store, and `chunk_key_encoding` how its chunks are named
    above; shards have names of the same kind. The index has the draft's form by default, without
    checksum; `index_codecs` and `index_location` are those of the ratified `sharding_indexed`.

    In one process one writer at a time works on a shard, and readers wait for it: for all layers
    over the same place, whatever their thread or event loop. Several writing processes must each
    have shards of their own.

    A shard that is not one is a ChunkError that names its key: for reading, and for changing a part of
    it. Listings and `exists` see the index alone, not whether the object is as long as it says.
    Replacing or removing all of its chunks at once does not read it.
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
    ) -> None:
        super().__init__(store)
        form = IndexFormat.DRAFT.to_json() | {"index_location": index_location}
        if index_codecs is not None:
            form["index_codecs"] = index_codecs
        self._form = ShardForm.of(chunks_per_shard, ndim, IndexFormat.from_json(form))
        encoding = ChunkEncoding.from_json(chunk_key_encoding)
        self._names = ChunkNames(path, len(self._form.chunks), encoding)
        self._options = self._normal_options()
        self._writers = ShardWriters()
        self._place_below: Hashable = None

    def _normal_options(self) -> dict[str, Any]:
        """The options as JSON, without those that say what holds anyway."""
        options: dict[str, Any] = {"chunks_per_shard": list(self._form.chunks)}
        if self._names.path:
            options["path"] = self._names.path
        if self._names.encoding != ChunkEncoding("default", "/"):
            options["chunk_key_encoding"] = self._names.encoding.to_json()
        usual = IndexFormat.DRAFT.to_json()
        return options | {
            name: value for name, value in self._form.index.to_json().items() if value != usual[name]
        }

    @classmethod
    def for_array(cls, configuration: JSONObject, path: str, document: JSONObject) -> Self:
        """The layer for one array, whose path, axes and chunk keys its metadata says.

        UsageError for a configuration that says them too, or that names more axes than there are.
        """
        own = {"path", "ndim", "chunk_key_encoding"}
        if said := sorted(own & set(configuration)):
            raise UsageError(
                f"layer {cls.name!r}: option {said[0]!r} has no place in an array's metadata",
                node=path,
                expected=", ".join(sorted(set(cls.option_names()) - own)),
            )
        whole = {
            "path": path,
            "ndim": len(document["shape"]),
            "chunk_key_encoding": document["chunk_key_encoding"],
        }
        return cls.from_json({"name": cls.name, "configuration": configuration | whole})

    def check_change(self, old: JSONObject, new: JSONObject) -> str | None:
        """Any shape can be followed, but not another number of axes or other chunk keys."""
        if len(new["shape"]) != len(self._form.chunks):
            return f"chunks_per_shard is for {len(self._form.chunks)} axes"
        if ChunkEncoding.from_json(new["chunk_key_encoding"]) != self._names.encoding:
            return f"its shards are named by the chunk key encoding {self._names.encoding}"
        return None

    # -- reading ------------------------------------------------------------------------------

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """The value or a range of it: one ranged read for the index of a shard, one for the chunk."""
        chunk = self._names.coordinates(key)
        if chunk is None:
            return await self._store.get(key, prototype, byte_range)
        shard, place = self._locate(chunk)
        async with self._lock(shard).reading():
            return await (await self._shard(shard).open()).get(place, prototype, byte_range)

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> Values:
        """Values or ranges in the order asked for; the index of each shard is read once."""
        wanted: dict[str, list[tuple[int, Place, ByteRequest | None]]] = {}
        others: list[tuple[int, str, ByteRequest | None]] = []
        asked = list(key_ranges)
        for number, (key, part) in enumerate(asked):
            if (chunk := self._names.coordinates(key)) is None:
                others.append((number, key, part))
            else:
                shard, place = self._locate(chunk)
                wanted.setdefault(shard, []).append((number, place, part))
        values: Values = [None] * len(asked)

        async def plain(number: int, key: str, part: ByteRequest | None) -> None:
            values[number] = await self._store.get(key, prototype, part)

        async def sharded(shard: str, parts: list[tuple[int, Place, ByteRequest | None]]) -> None:
            async with self._lock(shard).reading():
                opened = await self._shard(shard).open()
                wanted_parts = (opened.get(place, prototype, part) for _, place, part in parts)
                found = await asyncio.gather(*wanted_parts)
            for (number, _, _), value in zip(parts, found, strict=True):
                values[number] = value

        await asyncio.gather(
            *(plain(*other) for other in others), *(sharded(shard, parts) for shard, parts in wanted.items())
        )
        return values

    async def exists(self, key: str) -> bool:
        """Whether the key has a value; of a chunk, by the index of its shard."""
        chunk = self._names.coordinates(key)
        if chunk is None:
            return await self._store.exists(key)
        shard, place = self._locate(chunk)
        async with self._lock(shard).reading():
            return place in await self._shard(shard).open()

    async def getsize(self, key: str) -> int:
        """Length of the value in bytes; of a chunk, by the index of its shard."""
        chunk = self._names.coordinates(key)
        if chunk is None:
            return await self._store.getsize(key)
        shard, place = self._locate(chunk)
        async with self._lock(shard).reading():
            size = await (await self._shard(shard).open()).getsize(place)
        if size is None:
            raise FileNotFoundError(key)
        return size

    # -- writing ------------------------------------------------------------------------------

    async def set(self, key: str, value: Buffer) -> None:
        """Write a whole value; what else its shard holds is read and written again."""
        await self._set(key, value)

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Write a value where there is none; of a chunk, nobody in this process comes between."""
        await self._set(key, value, if_absent=True)

    async def _set(self, key: str, value: Buffer, *, if_absent: bool = False) -> None:
        self._check_writable()
        chunk = self._names.coordinates(key)
        if chunk is None:
            await (self._store.set_if_not_exists if if_absent else self._store.set)(key, value)
            return
        shard, place = self._locate(chunk)
        await self._change(shard, [Change(place, content(value), if_absent)])

    async def _set_many(self, values: Iterable[tuple[str, Buffer]]) -> None:
        """Write several values, each shard once."""
        self._check_writable()
        shards: dict[str, list[Change]] = {}
        others = []
        for key, value in values:
            if (chunk := self._names.coordinates(key)) is None:
                others.append((key, value))
            else:
                shard, place = self._locate(chunk)
                shards.setdefault(shard, []).append(Change(place, content(value)))
        await asyncio.gather(
            *(self._store.set(key, value) for key, value in others),
            *(self._change(shard, changes) for shard, changes in shards.items()),
        )

    async def delete(self, key: str) -> None:
        """Remove a key; the last chunk takes its shard with it. A missing one is no error."""
        self._check_writable()
        chunk = self._names.coordinates(key)
        if chunk is None:
            await self._store.delete(key)
        else:
            shard, place = self._locate(chunk)
            await self._change(shard, [Change(place, None)])

    async def delete_dir(self, prefix: str) -> None:
        """Remove every key below a path; all of an array's shards at once, without reading them."""
        self._check_writable()
        folder = prefix.rstrip("/") + "/" if prefix.strip("/") else ""
        if self._names.region.startswith(folder):
            async with self._lock("").writing():
                await to_the_end(self._remove_all(folder))
            return
        keys = [key async for key in self.list_prefix(folder)]
        # Empty folders stay: another writer may be putting a shard there. No listing shows them.
        await asyncio.gather(*(self.delete(key) for key in keys))

    async def _remove_all(self, folder: str) -> None:
        if folder:
            await self._store.delete_dir(folder.rstrip("/"))
        else:
            await self._store.clear()  # `delete_dir("")` of a LocalStore removes its root

    async def _change(self, shard: str, changes: list[Change]) -> None:
        # All shards of the array have a lock too: `delete_dir` takes it alone.
        async with self._lock("").reading():
            await self._writers.change(self._shard(shard), self._lock(shard), changes)

    # -- listing ------------------------------------------------------------------------------

    def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Every key that starts with this text; chunks by the indexes of their shards."""
        return list_below(self._store, prefix, self._names, self._form, self._keys_in)

    def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """The names right below a path, each once; never one that leads to nothing but empty shards."""
        return list_names(self._store, prefix, self._names, self.list_prefix)

    async def _keys_in(self, key: str, shard: Place) -> list[str]:
        """The keys of the chunks that a shard holds."""
        async with self._lock(key).reading():
            index = (await self._shard(key).open()).index
        return [] if index is None else [self._names.key(c) for c in self._form.members(shard, index)]

    # -- helpers ------------------------------------------------------------------------------

    def _locate(self, chunk: Place) -> tuple[str, Place]:
        shard, place = self._form.locate(chunk)
        return self._names.key(shard), place

    def _shard(self, key: str) -> StoredShard:
        return StoredShard(store=self._store, key=key, form=self._form, node=self._names.path)

    def _lock(self, shard: str) -> SharedLock:
        """The lock of a shard; that of the empty name stands for all shards of this array."""
        if self._place_below is None:
            depth = sum(isinstance(each, Sharding) for each in descend(self))
            # Shards of shards may have the names of the outer ones: the depth keeps them apart.
            self._place_below = (place_of(self._store), depth)
        return lock_of((self._place_below, "" if shard else self._names.region), shard)
