"""`Sharding`: maps chunk keys to shards; the sharding storage transformer of the 2022 draft.

Source: `https://purl.org/zarr/spec/storage_transformers/sharding/1.0`, type `indexed`, as zarr-python 2.18.7
reads and writes it; see `core.shard_index` for the bytes, `base.chunks` for the keys.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cached_property
from typing import Any, Final, Self

from zarr.abc.buffer import Buffer, BufferPrototype
from zarr.abc.store import ByteRequest, Store

from ...base.byte_ranges import content
from ...base.chunks import ChunkNames
from ...base.descend import descend, remove_below
from ...base.locations import Located
from ...core.chunk_keys_v3 import KeyEncoding
from ...core.errors import UsageError
from ...core.json_text import JSON, JSONObject
from ...core.paths import prefix_of
from ...core.shard_index import IndexFormat
from ...system.shared_locks import SharedLock, lock_of, run_to_completion
from .shard import Place, ShardForm
from .stored_shard import ShardWriters, StoredShard

MAX_AT_ONCE: Final = 32
"""Indexes read concurrently by a listing."""


class Sharding(Located):
    """Stores the chunks of one array in shards; every other key passes through.

    `chunks_per_shard` has one number per axis (with `ndim`, missing trailing numbers are 1). `path` is the
    array's path in the store below. `chunk_key_encoding` is the encoding of the chunk keys above; shards use
    the same one. By default the index has the draft's form, without a checksum; `index_codecs` and
    `index_location` are those of the ratified `sharding_indexed`.

    Within a process, a shard has one writer at a time and readers wait for it: across all layers over the
    same location, in any thread or event loop. Concurrent writer processes must not share shards.

    Each write rewrites a shard. With `WriteBack` above, chunks wait until their shard is whole.

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

        UsageError if the configuration sets one of these, or has more axes than the array.
        """
        own = {"path", "ndim", "chunk_key_encoding"}
        if names := sorted(own & set(configuration)):
            raise UsageError(
                f"layer {cls.name!r}: option {names[0]!r} is not allowed in an array's metadata",
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
        """Accept any new shape, but no other number of axes or chunk key encoding."""
        if len(new["shape"]) != len(self._form.chunks):
            return f"chunks_per_shard is for {len(self._form.chunks)} axes"
        if KeyEncoding.from_json(new["chunk_key_encoding"]) != self._names.encoding:
            return f"its shards are named by the chunk key encoding {self._names.encoding}"
        return None

    # -- where the shards are ------------------------------------------------------------------------

    def stored_in(self, key: str) -> tuple[str, int] | None:
        chunk = self._names.coordinates(key)
        if chunk is None:
            return super().stored_in(key)
        shard, _ = self._form.locate(chunk)
        return self._names.key(shard), self._form.count

    @cached_property
    def _depth(self) -> int:
        """Tells shards from those below with the same keys."""
        return sum(isinstance(each, Sharding) for each in descend(self))

    def _shard(self, key: str) -> StoredShard:
        return StoredShard(store=self._store, key=key, form=self._form, node=self._names.path)

    def _lock(self, shard: str) -> SharedLock:
        """The lock of a shard; the empty name stands for all shards of this array."""
        kind = "shard" if shard else "array"
        return lock_of(
            (kind, self._where.place, self._depth), self._where.base + (shard or self._names.region)
        )

    # -- reading ------------------------------------------------------------------------------

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Return the value or a byte range of it.

        A chunk takes one ranged read for the shard's index and one for its bytes.
        """
        if (chunk := self._names.coordinates(key)) is None:
            return await self._store.get(key, prototype, byte_range)
        async with self._opened(chunk) as (shard, place):
            return await shard.get(place, prototype, byte_range)

    async def exists(self, key: str) -> bool:
        if (chunk := self._names.coordinates(key)) is None:
            return await self._store.exists(key)
        async with self._opened(chunk) as (shard, place):
            return place in shard

    async def getsize(self, key: str) -> int:
        """Length of the value in bytes; for a chunk, according to the index of its shard."""
        if (chunk := self._names.coordinates(key)) is None:
            return await self._store.getsize(key)
        async with self._opened(chunk) as (shard, place):
            if (length := await shard.getsize(place)) is None:
                raise FileNotFoundError(key)
            return length

    @asynccontextmanager
    async def _opened(self, chunk: Place) -> AsyncIterator[tuple[StoredShard, Place]]:
        """The shard of a chunk, which no writer changes meanwhile, and the chunk's place in it."""
        where, place = self._form.locate(chunk)
        key = self._names.key(where)
        async with self._lock(key).reading():
            yield await self._shard(key).open(), place

    # -- writing ------------------------------------------------------------------------------

    async def set(self, key: str, value: Buffer) -> None:
        self._check_writable()
        if (chunk := self._names.coordinates(key)) is None:
            await self._store.set(key, value)
        else:
            await self._change(chunk, content(value))

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Write a value if the key is missing; for a chunk, with `exists` and `set`, and not atomic."""
        if self._names.coordinates(key) is None:
            self._check_writable()
            await self._store.set_if_not_exists(key, value)
        else:
            await super().set_if_not_exists(key, value)

    async def delete(self, key: str) -> None:
        """Remove a key; a missing key is not an error. Removing a shard's last chunk removes the shard."""
        self._check_writable()
        if (chunk := self._names.coordinates(key)) is None:
            await self._store.delete(key)
        else:
            await self._change(chunk, None)

    async def delete_dir(self, prefix: str) -> None:
        """Remove every key below a path; all shards of an array at once, without reading them."""
        self._check_writable()
        folder = prefix_of(prefix.rstrip("/"))
        if self._names.region.startswith(folder):
            async with self._lock("").writing():
                await run_to_completion(remove_below(self._store, folder.rstrip("/")))
        else:  # Empty folders remain: another writer may be creating a shard there. Listings omit them.
            await super().delete_dir(prefix)

    async def _change(self, chunk: Place, value: memoryview | None) -> None:
        """Write a chunk into its shard, or remove it."""
        shard, place = self._form.locate(chunk)
        key = self._names.key(shard)
        # `delete_dir` holds this lock, which covers all shards of the array, exclusively.
        async with self._lock("").reading():
            await self._writers.change(self._shard(key), self._lock(key), place, value)

    # -- listing ------------------------------------------------------------------------------

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        inside = prefix.startswith(self._names.region)
        batch: list[tuple[str, Place]] = []
        size = 1  # checking for any key reads one index only
        async for key in self._store.list_prefix(self._names.folder if inside else prefix):
            if (shard := self._names.coordinates(key)) is not None:
                batch.append((key, shard))
            elif key.startswith(prefix):
                yield key
            if len(batch) >= size:
                for chunk_key in await self._keys_in(batch, prefix):
                    yield chunk_key
                batch, size = [], min(2 * size, MAX_AT_ONCE)
        for chunk_key in await self._keys_in(batch, prefix):
            yield chunk_key

    async def _keys_in(self, shards: list[tuple[str, Place]], prefix: str) -> list[str]:
        """The keys with a prefix of the chunks in some shards."""

        async def chunks(key: str, shard: Place) -> list[Place]:
            async with self._lock(key).reading():
                index = (await self._shard(key).open()).index
            return [] if index is None else list(self._form.members(shard, index))

        groups = await asyncio.gather(*(chunks(*each) for each in shards))
        keys = (self._names.key(chunk) for group in groups for chunk in group)
        return [key for key in keys if key.startswith(prefix)]

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """The distinct names directly below a path, except those that lead only to empty shards."""
        folder, region = prefix_of(prefix.strip("/")), self._names.region
        # The name that leads to the chunks, unless it is part of the chunk keys.
        on_the_way, slash, _ = region.removeprefix(folder).partition("/")
        if folder.startswith(region) or (region.startswith(folder) and not slash):
            async for name in self._list_dir(folder):
                yield name
            return
        async for name in self._store.list_dir(prefix):
            path = folder + name
            passes = name != on_the_way or not region.startswith(folder)
            if passes or not await self.is_empty(path) or await self._store.exists(path):
                yield name
