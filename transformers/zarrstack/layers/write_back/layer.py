"""`WriteBack`: keeps writes in memory, so that each object is written once."""

from __future__ import annotations

import threading
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from zarr.abc.buffer import Buffer, BufferPrototype
from zarr.abc.store import ByteRequest, Store

from ...base.array_documents import is_document
from ...base.byte_ranges import cut, immutable
from ...base.descend import UNBOUND, descend, remove_below
from ...base.locations import Located, Location
from ...base.option_checks import size
from ...base.transformer import StorageTransformer
from ...core.errors import UsageError
from ...core.paths import prefix_of
from ...system.shared_locks import may_block, run_to_completion
from ...system.zarr_internals import sync
from .waiting import STORED, Budget, Table, Value, flush, gate_of, others_at, storing, table_at, tables

DEFAULT_BYTES: Final = 256 * 10**6


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteBackStatistics:
    """Statistics of a write-back layer since its creation."""

    memory_bytes: int
    """Its budget."""
    waiting: int
    """Objects with changes that are not stored yet."""
    waiting_bytes: int
    """What these changes take, counting 250 bytes for each besides its value, and 1,000 for each object."""
    received: int
    """Changes, of values and removals, that were left to wait."""
    stored: int
    """Changes passed on to the store below; the others were replaced while they waited."""
    evictions: int
    """Objects stored because the budget was full, before they were whole: above `Sharding`, allow more."""


class WriteBack(Located):
    """Keeps writes in memory until their object is whole, memory is full, or the layer is flushed or closed.

    An object is stored once, however often it is set: a shard that is written row by row, or the last chunk
    of an array that grows. With `Sharding` below, the chunks of a shard wait for each other.

    All stacks with this layer over the same location in this process see what waits. `memory_bytes`, a number
    or a text such as "64MB", bounds it. Documents are stored after the chunks that they describe; the first
    document of a new node is stored at once. A crash loses what was not flushed, never a stored object. Other
    processes must not write the same objects: the last one to store an object wins.

    Examples
    --------
    >>> below = {}
    >>> with zarrstack.stack(MemoryStore(below), zarrstack.WriteBack()) as store:
    ...     array = zarr.create_array(store, name="a", shape=(4,), chunks=(4,), dtype="i4")
    ...     for number in range(4):
    ...         array[number] = number
    ...     store.figures().waiting
    1
    >>> sorted(below)
    ['a/c/0', 'a/zarr.json', 'zarr.json']
    """

    name = "write-back"

    def __init__(self, store: Store | None = None, *, memory_bytes: int | str = DEFAULT_BYTES) -> None:
        super().__init__(store)
        memory_bytes = size(self, "memory_bytes", memory_bytes)
        self._record_options(memory_bytes=memory_bytes)
        self._budget = Budget(memory_bytes)

    @property
    def buffers(self) -> bool:
        """Whether changes wait; not above another layer of this kind, in which they wait."""
        return not any(isinstance(each, WriteBack) for each in descend(self._store))

    def figures(self) -> WriteBackStatistics:
        budget = self._budget
        return WriteBackStatistics(
            memory_bytes=budget.memory_bytes,
            waiting=len(budget.recent) + len(budget.later),
            waiting_bytes=budget.used,
            received=budget.received,
            stored=budget.stored,
            evictions=budget.evictions,
        )

    # -- where the objects are -------------------------------------------------------------------------

    @property
    def _table(self) -> Table | None:
        return table_at(self._where)

    def _find(self, key: str) -> Any:
        """The value that waits for a key, None if its removal does, else STORED."""
        table = self._table
        return STORED if table is None else table.find(key)

    def _below(self, prefix: str) -> dict[str, Value]:
        """What waits for the keys with this prefix."""
        table = self._table
        return {} if table is None else table.below(prefix)

    async def _settled(self) -> None:
        """Store what waits for the same objects through other layers, or below another path."""
        for table in others_at(self._where):
            await flush(table)

    def cache_of(self, key: str) -> Any:
        """The cache below that serves a key; None while a change to it waits here."""
        below = getattr(self._store, "cache_of", None)
        return (
            None if below is None or self._find(key) is not STORED or others_at(self._where) else below(key)
        )

    # -- reading ---------------------------------------------------------------------------------------

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        await self._settled()
        if (value := self._find(key)) is STORED:
            return await self._store.get(key, prototype, byte_range)
        return None if value is None else cut(prototype.buffer.from_bytes(value), byte_range)

    async def exists(self, key: str) -> bool:
        await self._settled()
        value = self._find(key)
        return await self._store.exists(key) if value is STORED else value is not None

    async def getsize(self, key: str) -> int:
        await self._settled()
        if (value := self._find(key)) is STORED:
            return await self._store.getsize(key)
        if value is None:
            raise FileNotFoundError(key)
        return len(value)

    # -- changes ---------------------------------------------------------------------------------------

    async def set(self, key: str, value: Buffer) -> None:
        """Keep a value until its object is stored; the first document of a node is stored at once."""
        self._check_writable("set", key)
        data = immutable(value)  # the caller may change its array
        await self._settled()
        if not self.buffers:
            await self._change_now(key, partial(self._store.set, key, value))
        elif is_document(key) and self._find(key) is STORED and not await self._store.exists(key):
            await self._change_now(key, partial(self._store.set, key, value), flushes=False)
        else:
            if (check := getattr(self._store, "check_set", None)) is not None and is_document(key):
                await check(key, value)
            await self._put(key, data)

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Write a value at once if the key is missing, as the store below does."""
        self._check_writable("set_if_not_exists", key)
        await self._settled()
        if (waits := self._find(key)) is None and (table := self._table) is not None:
            await flush(table, key)
        if waits is STORED or waits is None:
            await self._change_now(key, partial(self._store.set_if_not_exists, key, value), flushes=False)

    async def delete(self, key: str) -> None:
        """Keep a removal until it is stored; a document is removed at once."""
        self._check_writable("delete", key)
        await self._settled()
        if not self.buffers or is_document(key):
            await self._change_now(key, partial(self._store.delete, key))
        else:
            await self._put(key, None)

    async def _put(self, key: str, value: Value) -> None:
        belongs = self._store.stored_in(key) if isinstance(self._store, StorageTransformer) else None
        await self._budget.put(key, value, where=self._where, store=self._store, belongs=belongs)

    async def _change_now(
        self, key: str, act: Callable[[], Awaitable[None]], *, flushes: bool = True
    ) -> None:
        """Change a value below at once; a document after what waits for its node."""
        if flushes and is_document(key) and (table := self._table) is not None:
            await flush(table, key.rpartition("/")[0] + "/" if "/" in key else "")
        waiting = None if (table := self._table) is None else table.by_key.get(key)
        async with storing(self._where, key if waiting is None else waiting.name):
            dropped = {each: value for each, value in self._below(key).items() if each == key}
            await run_to_completion(act())
            if (table := self._table) is not None:
                table.settle(dropped)

    async def delete_dir(self, prefix: str) -> None:
        """Remove every key below a path at once, waiting or stored."""
        self._check_writable("delete_dir", prefix)
        await self._settled()
        async with gate_of(self._where).writing():
            dropped = self._below(prefix_of(prefix))
            await run_to_completion(remove_below(self._store, prefix))
            if (table := self._table) is not None:
                table.settle(dropped)

    # -- listing ---------------------------------------------------------------------------------------

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        await self._settled()
        waiting = self._below(prefix)
        async for key in self._store.list_prefix(prefix):
            if key not in waiting:
                yield key
        for key, value in waiting.items():
            if value is not None:
                yield key

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """The distinct names directly below a path; with `list_prefix` if anything waits there."""
        await self._settled()
        waits = self._below(prefix_of(prefix.rstrip("/")))
        async for name in self._list_dir(prefix) if waits else self._store.list_dir(prefix):
            yield name

    async def getsize_prefix(self, prefix: str) -> int:
        await self._settled()
        folder = prefix_of(prefix)
        if self._below(folder):
            return await super().getsize_prefix(prefix)
        return await self._store.getsize_prefix(folder)

    # -- flush and close -------------------------------------------------------------------------------

    async def flush(self) -> None:
        """Store what waits for this location, of any stack in this process."""
        if (table := self._table) is not None:
            await flush(table)
        await super().flush()

    def flush_sync(self) -> None:
        if (table := self._table) is not None:
            if not may_block():
                raise UsageError(
                    "layer 'write-back': changes wait to be stored, and this event loop cannot wait for that",
                    advice="Await `store.flush()` first.",
                )
            sync(flush(table))
        super().flush_sync()

    def close(self) -> None:
        """Store what waits, then close the store below; UsageError as of `flush_sync`."""
        if self._store is not UNBOUND:
            self.flush_sync()
            super().close()

    def __reduce__(self) -> tuple[Any, ...]:
        if self._store is not UNBOUND:
            self.flush_sync()
        return super().__reduce__()


def _at_exit() -> None:
    """Store what waits when the interpreter exits, and warn of what cannot be stored."""
    failed: dict[Location, Exception] = {}
    waits: Any = None
    # Again as long as that stores something: one stack may store into another.
    while (now := {table.where: table.below("") for table in tables()}) != waits:
        waits = now
        for table in tables():
            if table.where not in failed:
                try:
                    sync(flush(table))
                except Exception as error:  # noqa: BLE001 - reported
                    failed[table.where] = error
    for table in tables():
        keys = sorted(table.below(""))
        store = next(iter(table.objects.values())).store
        why = repr(failed[table.where]) if table.where in failed else "a flush did not store them"
        warnings.warn(
            f"zarrstack: {len(keys)} changes were never stored in {store}: {why}. Their keys: "
            + ", ".join(keys[:100])
            + (" ..." if len(keys) > 100 else ""),
            RuntimeWarning,
            stacklevel=1,
        )


# Before concurrent.futures ends its threads, which LocalStore needs; `atexit` runs after that. There is no
# public name for it (Python 3.11 to 3.14).
threading._register_atexit(_at_exit)  # type: ignore[attr-defined]  # noqa: SLF001
