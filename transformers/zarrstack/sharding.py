"""`Sharding`: chunk keys above, shards below; the sharding storage transformer of the 2022 draft.

Source: `https://purl.org/zarr/spec/storage_transformers/sharding/1.0`, type `indexed`, as
zarr-python 2.18.7 reads and writes it; see `core.shard` for the bytes, `chunk_names` for the keys.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Self

from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.core.buffer import Buffer, BufferPrototype, default_buffer_prototype

from .below import descend
from .chunk_names import ChunkEncoding, ChunkNames
from .core.errors import ChunkError, UsageError
from .core.jsons import JSON, JSONObject
from .core.shard import IndexFormat, ShardIndex
from .shard_listing import list_below, list_names
from .shard_locks import SharedLock, lock_of, place_of
from .shard_object import Change, Place, ShardForm, apply
from .transformer import StorageTransformer, Values

PROOF_BYTES: Final = 2**16
"""How far a read may go on past a chunk to see that its shard is long enough, instead of a second read."""


class Sharding(StorageTransformer):
    """Keeps the chunks of one array in shards; every other key passes through.

    `chunks_per_shard` has a number for each axis (with `ndim`, missing trailing ones are 1).
    `path` is the array's path below the store, and `chunk_key_encoding` how its chunks are named
    above; shards have names of the same kind. The index has the draft's form by default, without
    checksum; `index_codecs` and `index_location` are those of the ratified `sharding_indexed`.

    In one process one writer at a time works on a shard, and readers wait for it: for all layers
    over the same place, whatever their thread or event loop. Several writing processes must each
    have shards of their own.

    A shard that is not one is a ChunkError that names its key: for reading, for listing, and for
    changing a part of it. Replacing or removing all of its chunks at once does not read it.
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
        self._guard = threading.Lock()
        self._waiting: dict[str, list[_Ticket]] = {}
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
            index = await self._index(shard)
            return await self._part(shard, index, place, prototype, byte_range)

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
                index = await self._index(shard)
                found = await asyncio.gather(
                    *(self._part(shard, index, place, prototype, part) for _, place, part in parts)
                )
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
            index = await self._index(shard)
        return index is not None and index.get(place) is not None

    async def getsize(self, key: str) -> int:
        """Length of the value in bytes; of a chunk, by the index of its shard."""
        chunk = self._names.coordinates(key)
        if chunk is None:
            return await self._store.getsize(key)
        shard, place = self._locate(chunk)
        async with self._lock(shard).reading():
            index = await self._index(shard)
            part = index.get(place) if index is not None else None
            # An empty range costs one small read, which shows that the index is no nonsense.
            empty = RangeByteRequest(0, 0)
            read = await self._part(shard, index, place, default_buffer_prototype(), empty)
        if part is None or read is None:
            raise FileNotFoundError(key)
        return int(part.stop) - int(part.start)

    async def _index(self, shard: str) -> ShardIndex | None:
        """The index of a shard, by one ranged read; None where there is no shard."""
        size = self._form.index_size
        at_end = self._form.index.location == "end"
        where = SuffixByteRequest(size) if at_end else RangeByteRequest(0, size)
        data = await self._store.get(shard, default_buffer_prototype(), where)
        if data is None:
            return None
        with self._named(shard):
            return self._form.parse_index(data.to_bytes())

    async def _part(
        self,
        shard: str,
        index: ShardIndex | None,
        place: Place,
        prototype: BufferPrototype,
        byte_range: ByteRequest | None,
    ) -> Buffer | None:
        """A chunk or a range of it, after a proof that the shard is as long as its index says.

        A shard cut short or an offset that is too large would otherwise show bytes of the index,
        or none, as a chunk. The proof is the last byte that must be there: it is read together with
        the chunk where it is near, else by a read of its own at the same time.
        """
        chunk = index.get(place) if index is not None else None
        if chunk is None:
            return None
        first, last = _bounds(byte_range, chunk.stop - chunk.start)
        start, stop, needed = chunk.start + first, chunk.start + last, self._form.needed(chunk.stop)
        if needed - stop <= PROOF_BYTES:
            data = await self._store.get(shard, prototype, RangeByteRequest(start, needed))
            complete = data is None or len(data) == needed - start
        else:
            wanted = [RangeByteRequest(start, stop), RangeByteRequest(needed - 1, needed)]
            data, proof = await asyncio.gather(
                *(self._store.get(shard, prototype, each) for each in wanted)
            )
            complete = data is None or (len(data) == stop - start and proof is not None and len(proof) == 1)
        if not complete:
            raise ChunkError(
                f"layer {self.name!r}: a chunk lies outside its shard",
                node=self._names.path,
                key=shard,
                found=f"chunk {place}: offset {chunk.start}, length {chunk.stop - chunk.start}",
                expected=f"an object of {needed} bytes or more",
            )
        return None if data is None else data[: stop - start]

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
        await self._change(shard, [Change(place, _content(value), if_absent)])

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
                shards.setdefault(shard, []).append(Change(place, _content(value)))
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
                await _to_the_end(self._remove_all(folder))
            return
        keys = [key async for key in self.list_prefix(folder)]
        await asyncio.gather(*(self.delete(key) for key in keys))
        if await self._store.is_empty(prefix):
            await self._store.delete_dir(prefix)  # empty folders of a local store

    async def _remove_all(self, folder: str) -> None:
        if folder:
            await self._store.delete_dir(folder)
        else:
            await self._store.clear()  # `delete_dir("")` of a LocalStore removes its root

    async def _change(self, shard: str, changes: list[Change]) -> None:
        """Have changes made to a shard, together with all others that wait for it meanwhile."""
        ticket = _Ticket(changes)
        with self._guard:
            self._waiting.setdefault(shard, []).append(ticket)
        try:
            # The empty name is that of all shards: `delete_dir` takes it alone.
            async with self._lock("").reading():
                await asyncio.sleep(0)  # tasks that were started together come along
                async with self._lock(shard).writing():
                    if not ticket.done:
                        await _to_the_end(self._serve(shard))
        finally:
            self._forget(shard, [ticket])
        if ticket.error is not None:
            raise ticket.error

    async def _serve(self, shard: str) -> None:
        """Make the changes that wait for a shard; the caller holds its lock."""
        with self._guard:
            tickets = list(self._waiting.get(shard, ()))
        error = None
        try:
            await self._rewrite(shard, [change for ticket in tickets for change in ticket.changes])
        except Exception as problem:  # noqa: BLE001 it is raised by everybody whose change failed
            error = problem
        for ticket in tickets:
            ticket.error, ticket.done = error, True
        self._forget(shard, tickets)

    def _forget(self, shard: str, tickets: Iterable[_Ticket]) -> None:
        with self._guard:
            left = [each for each in self._waiting.get(shard, ()) if each not in tickets]
            if left:
                self._waiting[shard] = left
            else:
                self._waiting.pop(shard, None)

    async def _rewrite(self, shard: str, changes: list[Change]) -> None:
        chunks: dict[Place, Any] = {}
        known = not self._form.replaces_all(changes)
        if known:
            old = await self._store.get(shard, default_buffer_prototype())
            if old is not None:
                with self._named(shard):
                    chunks.update(self._form.open(_content(old)))
        if not apply(chunks, changes) and known:
            return
        if chunks:
            new = default_buffer_prototype().buffer.from_bytes(self._form.close(chunks))
            await self._store.set(shard, new)
        else:
            await self._store.delete(shard)

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
            index = await self._index(key)
        return [] if index is None else [self._names.key(c) for c in self._form.members(shard, index)]

    # -- helpers ------------------------------------------------------------------------------

    def _locate(self, chunk: Place) -> tuple[str, Place]:
        shard, place = self._form.locate(chunk)
        return self._names.key(shard), place

    def _lock(self, shard: str) -> SharedLock:
        """The lock of a shard; that of the empty name stands for all shards of this array."""
        if self._place_below is None:
            depth = sum(isinstance(each, Sharding) for each in descend(self))
            # Shards of shards may have the names of the outer ones: the depth keeps them apart.
            self._place_below = (place_of(self._store), depth)
        return lock_of((self._place_below, "" if shard else self._names.region), shard)

    @contextmanager
    def _named(self, shard: str) -> Iterator[None]:
        """Put the key and the layer into what is said about a shard's bytes."""
        try:
            yield
        except ChunkError as error:
            told = error.problem
            raise ChunkError(
                f"layer {self.name!r}: {told.message}",
                node=self._names.path,
                key=shard,
                found=told.found,
                expected=told.expected,
                advice=told.advice,
            ) from None


class _Ticket:
    """Changes that wait for their shard, and what became of them."""

    __slots__ = ("changes", "done", "error")

    def __init__(self, changes: list[Change]) -> None:
        self.changes = changes
        self.done = False
        self.error: Exception | None = None


async def _to_the_end(work: Coroutine[Any, Any, None]) -> None:
    """Await work that goes on to its end when the caller is cancelled.

    A thread that writes a file cannot be stopped: to let go of the lock before it is done would let
    the next writer's file be overwritten by this one.
    """
    task = asyncio.ensure_future(work)
    cancelled = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    task.result()


def _content(value: Buffer) -> memoryview:
    """The bytes of a buffer, not copied where they lie in memory; TypeError for anything else."""
    if not isinstance(value, Buffer):
        raise TypeError(f"`value` must be a Buffer instance. Got an instance of {type(value)} instead.")
    return memoryview(value.as_numpy_array())  # type: ignore[arg-type]


def _bounds(byte_range: ByteRequest | None, length: int) -> tuple[int, int]:
    """Start and stop of a request within a value of so many bytes, cut to the value.

    What MemoryStore of zarr 3.1.6 and 3.4.2 gives: past the end there is nothing, and that is no error.
    """
    match byte_range:
        case None:
            return 0, length
        case RangeByteRequest(start, end):
            return min(start, length), max(min(start, length), min(end, length))
        case OffsetByteRequest(offset):
            return min(offset, length), length
        case SuffixByteRequest(suffix):
            return max(0, length - suffix), length
        case _:
            raise ValueError(f"Unexpected byte_range, got {byte_range}.")
