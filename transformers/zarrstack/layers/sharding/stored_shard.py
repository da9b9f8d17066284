"""One shard object in a store: partial reads, each verified against the index, and combined rewrites."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

from zarr.abc.buffer import Buffer, BufferPrototype
from zarr.abc.store import ByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.buffer import default_buffer_prototype

from ...base.byte_ranges import bounds, content
from ...core.errors import ChunkError
from ...core.shard_index import ShardIndex
from ...system.fork_safety import new_lock, reset_after_fork
from ...system.shared_locks import SharedLock, run_to_completion
from .shard import Place, ShardForm

PROOF_BYTES: Final = 2**16
"""Maximum distance past a chunk that one read covers, to verify the shard's length without a second read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredShard:
    """The shard at `key` of `store`, which may be missing; `node` is its array, for messages."""

    store: Store
    key: str
    form: ShardForm
    node: str
    index: ShardIndex | None = None
    """None if the shard is missing, or not opened."""

    async def open(self) -> StoredShard:
        """This shard with its index, from one ranged read; ChunkError for an invalid index."""
        size = self.form.index_size
        at_end = self.form.index.location == "end"
        where = SuffixByteRequest(size) if at_end else RangeByteRequest(0, size)
        data = await self.store.get(self.key, default_buffer_prototype(), where)
        if data is None:
            return self
        with self._named():
            return replace(self, index=self.form.parse_index(data.to_bytes()))

    async def rewrite(self, changes: Mapping[Place, Any]) -> None:
        """Replace chunks by new bytes, or remove those with None; a shard left without chunks is removed.

        A shard all of whose chunks are replaced is not read. ChunkError if a chunk that remains cannot be.
        """
        reads_old = len(changes) < self.form.count
        chunks: dict[Place, Any] = {}
        old = await self.store.get(self.key, default_buffer_prototype()) if reads_old else None
        if old is not None:
            with self._named():
                chunks = self.form.open(content(old))
        if reads_old and not any(place in chunks or value is not None for place, value in changes.items()):
            return
        chunks = {place: value for place, value in {**chunks, **changes}.items() if value is not None}
        new = self.form.close(chunks) if chunks else b""
        del old, chunks  # not in memory while the new object is written
        if new:
            await self.store.set(self.key, default_buffer_prototype().buffer.from_bytes(new))
        else:
            await self.store.delete(self.key)

    def _error(self, message: str, **fields: Any) -> ChunkError:
        """A ChunkError that names the layer and the shard's key."""
        return ChunkError(f"layer 'sharding': {message}", node=self.node, key=self.key, **fields)

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Add the layer and the key to errors about the shard's bytes."""
        try:
            yield
        except ChunkError as error:
            named = ChunkError.of(error.problem, before="layer 'sharding': ")
            raise named.at(node=self.node, key=self.key) from None

    def __contains__(self, place: Place) -> bool:
        return self._slice(place) is not None

    def _slice(self, place: Place) -> slice | None:
        return None if self.index is None else self.index.get(place)

    async def getsize(self, place: Place) -> int | None:
        """Length of a chunk in bytes; None if it is missing.

        One small read verifies that the shard is as long as its index requires.
        """
        chunk = self._slice(place)
        # An empty range reads only the byte that proves the shard's length.
        read = await self.get(place, default_buffer_prototype(), RangeByteRequest(0, 0))
        return None if chunk is None or read is None else int(chunk.stop) - int(chunk.start)

    async def get(
        self, place: Place, prototype: BufferPrototype, byte_range: ByteRequest | None
    ) -> Buffer | None:
        """Return a chunk or a byte range of it, None if it is missing; ChunkError if the shard is too short.

        With a truncated shard or an offset that is too large, bytes of the index, or none, would otherwise be
        returned as a chunk. The proof is the last byte that must exist: it is read together with the chunk if
        it is near, otherwise by a separate, concurrent read.
        """
        chunk = self._slice(place)
        if chunk is None:
            return None
        store, key = self.store, self.key
        first, last = bounds(byte_range, chunk.stop - chunk.start)
        start, stop = chunk.start + first, chunk.start + last
        needed = self.form.needed(chunk.stop)
        if needed - stop <= PROOF_BYTES:
            # At least one byte: some stores refuse empty reads.
            begin = min(start, needed - 1)
            data = await store.get(key, prototype, RangeByteRequest(begin, needed))
            complete = data is None or len(data) == needed - begin
            skip = start - begin
        else:
            wanted = [RangeByteRequest(start, max(stop, start + 1)), RangeByteRequest(needed - 1, needed)]
            data, proof = await asyncio.gather(*(store.get(key, prototype, each) for each in wanted))
            complete = data is None or (len(data) >= stop - start and proof is not None and len(proof) == 1)
            skip = 0
        if not complete:
            raise self._error(
                "a chunk lies outside its shard",
                found=f"chunk {place}: offset {chunk.start}, length {chunk.stop - chunk.start}",
                expected=f"an object of {needed} bytes or more",
            )
        return None if data is None else data[skip : skip + stop - start]


@dataclass(slots=True, eq=False)
class _Batch:
    """Changes of a shard that wait for it together, and the outcome of their rewrite."""

    changes: list[tuple[Place, Any]] = field(default_factory=list)
    began: bool = False
    error: Exception | None = None


class ShardWriters:
    """The pending changes of one layer and its copies, by shard: one writer at a time combines them.

    zarr-python writes the chunks of a region with concurrent `set` calls. Each alone would read and write the
    whole shard; here the caller that gets the shard's lock applies the changes of all waiting callers.
    """

    def __init__(self) -> None:
        self._guard = new_lock()
        self.after_fork()
        reset_after_fork(self)

    def after_fork(self) -> None:
        """Drop the parent's pending changes in a forked child."""
        self._waiting: dict[str, _Batch] = {}

    async def change(self, shard: StoredShard, lock: SharedLock, place: Place, value: Any) -> None:
        """Replace a chunk, or remove it if the value is None, with all others waiting for the same shard.

        The shard has been written when this returns; errors of the rewrite are raised. On cancellation, a
        rewrite in progress is completed, and a change not yet started is dropped.
        """
        change = (place, value)
        with self._guard:
            batch = self._waiting.setdefault(shard.key, _Batch())
            batch.changes.append(change)
        try:
            await asyncio.sleep(0)  # lets tasks started together join this rewrite
            async with lock.writing():
                if not batch.began:
                    await run_to_completion(self._serve(shard, batch))
        finally:
            with self._guard:
                if not batch.began:
                    batch.changes = [each for each in batch.changes if each is not change]
                if not batch.changes:
                    self._forget(shard.key, batch)
        if batch.error is not None:
            raise batch.error

    async def _serve(self, shard: StoredShard, batch: _Batch) -> None:
        """Apply the changes waiting for a shard; the caller holds its lock."""
        with self._guard:
            batch.began = True
            self._forget(shard.key, batch)
        try:
            await shard.rewrite(dict(batch.changes))
        except Exception as problem:  # noqa: BLE001 - raised by every caller whose change failed
            batch.error = problem
        except BaseException:
            batch.began = False  # its event loop ends: the next caller serves the others
            raise

    def _forget(self, key: str, batch: _Batch) -> None:
        if self._waiting.get(key) is batch:
            del self._waiting[key]
