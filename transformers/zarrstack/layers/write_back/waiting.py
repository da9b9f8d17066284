"""Changes that wait in memory until their object is stored.

The waiting changes of this process are one table for each location, which every stack over the same location
uses. A change stays in it, and is visible, until it has been stored. If storing fails, the change stays, and
the error is raised by the call that stored, or by the next change.

An object is stored by the caller that makes it whole, by a caller that needs room, or by a flush; never by a
task of its own.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Collection, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final, TypeAlias

from zarr import config
from zarr.abc.store import Store
from zarr.buffer import default_buffer_prototype

from ...base.array_documents import is_document, parse
from ...base.chunks import DOCUMENTS, ArrayChunks
from ...base.locations import Location
from ...core.errors import StorageError
from ...core.paths import ancestors
from ...system.fork_safety import new_lock, reset_after_fork
from ...system.rate_limits import Places
from ...system.shared_locks import SharedLock, lock_of, run_to_completion

Value: TypeAlias = bytes | None
"""A new value; None removes the key."""
STORED: Final[Any] = object()
"""Stands for a value that does not wait."""
KEY_COST: Final = 250
"""Bytes counted for a waiting change besides its value."""
OBJECT_COST: Final = 1000
"""Bytes counted for an object with waiting changes; up to 900 by tracemalloc (CPython 3.11)."""


@dataclass(slots=True, eq=False, kw_only=True)
class WaitingObject:
    """The changes to one object that are not stored yet."""

    table: Table
    name: str
    """The key of the object; for an object with one value, that of the value."""
    keys: int
    """How many keys the whole object has; 0 if it has one, whose value may still change."""
    store: Store
    """Where it is stored."""
    budget: Budget
    """Whose memory it takes."""
    changes: dict[str, Value] = field(default_factory=dict)
    size: int = 0
    """Bytes that the changes count."""
    stores: int = 0
    """How often changes were stored."""

    @property
    def is_whole(self) -> bool:
        """Whether every key of the object is replaced or removed."""
        return len(self.changes) == self.keys

    @property
    def assembled(self) -> int:
        """Estimated bytes of the whole object, which is put together when it is stored."""
        return self.size * self.keys // max(len(self.changes), 1)


class Table:
    """The objects of one location that have waiting changes."""

    def __init__(self, where: Location) -> None:
        self.where = where
        self.objects: dict[str, WaitingObject] = {}
        self.by_key: dict[str, WaitingObject] = {}

    def find(self, key: str) -> Any:
        """The value that waits, None if its removal does, else STORED."""
        waiting = self.by_key.get(key)
        return STORED if waiting is None else waiting.changes.get(key, STORED)

    def below(self, prefix: str) -> dict[str, Value]:
        """What waits for the keys with this prefix."""
        with _guard:
            return {key: each.changes[key] for key, each in self.by_key.items() if key.startswith(prefix)}

    def settle(self, changes: dict[str, Value]) -> None:
        """Forget changes that were stored or dropped, except those replaced since."""
        with _guard:
            for key, value in changes.items():
                waiting = self.by_key.get(key)
                if waiting is None or waiting.changes[key] is not value:
                    continue
                del waiting.changes[key], self.by_key[key]
                freed = _length(value) + KEY_COST
                if not waiting.changes:
                    del self.objects[waiting.name]
                    freed += OBJECT_COST
                    waiting.budget.forget(waiting)
                waiting.size -= freed
                waiting.budget.used -= freed
            if not self.objects and table_at(self.where) is self:
                del _tables[self.where]


_tables: dict[Location, Table] = {}
"""The waiting changes of this process, by location."""
_guard = new_lock()
table_at = _tables.get
"""What waits at a location; None for nothing."""


def tables() -> list[Table]:
    """All tables of this process."""
    with _guard:
        return list(_tables.values())


def others_at(where: Location) -> list[Table]:
    """What waits, through other layers or below other paths, for objects that this location may share."""
    if len(_tables) <= (where in _tables):
        return []
    with _guard:
        return [
            table
            for other, table in _tables.items()
            if other != where
            and other.place == where.place
            and (other.base.startswith(where.base) or where.base.startswith(other.base))
        ]


def gate_of(where: Location) -> SharedLock:
    """A lock that is held shared while an object is stored, and exclusively while folders are removed."""
    return lock_of(("write-back", where), "")


@asynccontextmanager
async def storing(where: Location, name: str) -> AsyncIterator[None]:
    """Hold the right to store an object."""
    async with gate_of(where).reading(), lock_of(("write-back object", where), name).writing():
        yield


class Budget:
    """The memory for waiting changes of one layer and its copies; methods are thread-safe."""

    def __init__(self, memory_bytes: int) -> None:
        self.memory_bytes = memory_bytes
        self.received = self.stored = self.evictions = 0
        self._reset()
        reset_after_fork(self)

    def _reset(self) -> None:
        self.recent: OrderedDict[WaitingObject, None] = OrderedDict()
        """Objects with values, the least recently changed first."""
        self.later: OrderedDict[WaitingObject, None] = OrderedDict()
        """Documents and removals, which take little memory and are stored after values."""
        self.used = 0
        self.largest = 0
        """Bytes of the largest object of several keys so far."""
        self.failed: dict[WaitingObject, Exception] = {}
        """Errors that no caller has seen: it was cancelled, or did not wait."""
        self._evicting = SharedLock()
        self._assembling = Places(self._most_assembled)

    def after_fork(self) -> None:
        """Drop the parent's changes in a forked child: the parent stores them."""
        _tables.clear()
        self._reset()

    @property
    def _most_assembled(self) -> int:
        return max(self.memory_bytes // 4, 1)

    @property
    def limit(self) -> int:
        """Bytes of changes that may wait; the rest is for objects that are read, merged and written."""
        reserved = max(self._most_assembled, 2 * self.largest) if self.largest else 0
        return max(self.memory_bytes - reserved, self.memory_bytes // 4)

    def forget(self, waiting: WaitingObject) -> None:
        """Remove an object without changes; the caller holds the guard."""
        self.recent.pop(waiting, None)
        self.later.pop(waiting, None)

    # -- changes ----------------------------------------------------------------------------------

    async def put(
        self, key: str, value: Value, *, where: Location, store: Store, belongs: tuple[str, int] | None
    ) -> None:
        """Keep a change until its object is stored; if the object is whole now, store it.

        `belongs` is the object of several keys that has this key, and how many. Raises errors of storing this
        object or, for lack of room, another; and those that nobody has seen yet.
        """
        self.received += 1
        while True:
            if self.failed:
                raise self.failed.popitem()[1]
            waiting = self._add(key, value, where, store, belongs)
            if isinstance(waiting, WaitingObject):
                break
            await waiting._make_room(_length(value) + KEY_COST + OBJECT_COST)  # noqa: SLF001 - same class
        home = waiting.budget
        if waiting.is_whole:
            await home.store(waiting, only_whole=True)
        elif home.used > home.limit:  # larger than the whole budget
            await home.store(waiting)

    def _add(
        self, key: str, value: Value, where: Location, store: Store, belongs: tuple[str, int] | None
    ) -> WaitingObject | Budget:
        """Add a change if there is room, as there is for any if nothing waits; else the full budget."""
        with _guard:
            table = table_at(where)
            waiting = None if table is None else table.by_key.get(key)
            name, keys = belongs or (key, 0)
            if waiting is None and table is not None:
                waiting = table.objects.get(name)
            home = self if waiting is None else waiting.budget
            more = _length(value)
            if waiting is None:
                more += KEY_COST + OBJECT_COST
            elif key in waiting.changes:
                more -= _length(waiting.changes[key])
            else:
                more += KEY_COST
            if more > 0 and home.used + more > home.limit and (home.recent or home.later):
                return home
            if table is None:
                table = _tables[where] = Table(where)
            if waiting is None:
                waiting = WaitingObject(table=table, name=name, keys=keys, store=store, budget=self)
                table.objects[name] = waiting
            waiting.changes[key] = value
            table.by_key[key] = waiting
            waiting.size += more
            home.used += more
            if keys:
                home.largest = max(home.largest, waiting.assembled)
            if value is not None and not is_document(key):
                home.later.pop(waiting, None)
                home.recent[waiting] = None
                home.recent.move_to_end(waiting)
            elif waiting not in home.recent:
                home.later[waiting] = None
            return waiting

    async def _make_room(self, size: int) -> None:
        """Store the object that was not changed for longest, unless there is room by now."""
        async with self._evicting.writing():
            with _guard:
                oldest = next(iter(self.recent), None)
                if self.used + size <= self.limit or not (self.recent or self.later):
                    return
                some = next(iter(self.later), None)
            if oldest is None:
                assert some is not None
                await flush(some.table)
                return
            # Removals wait: they may belong to a smaller shape, whose document goes first.
            values = {key for key, value in dict(oldest.changes).items() if value is not None}
            if await self.store(oldest, values):
                self.evictions += 1
            with _guard:
                if oldest in self.recent and not any(value is not None for value in oldest.changes.values()):
                    del self.recent[oldest]
                    self.later[oldest] = None

    # -- storing ----------------------------------------------------------------------------------

    async def store(
        self,
        waiting: WaitingObject,
        keys: Collection[str] | None = None,
        *,
        only_whole: bool = False,
        unless_stored_since: tuple[Value, int] | None = None,
    ) -> bool:
        """Store changes of an object, of all its keys or some; return whether there were any.

        `unless_stored_since` is an earlier value of the object's one key, and its `stores` then. If storing
        fails, the changes stay. An error that no caller sees is raised by the next `put`.
        """
        async with AsyncExitStack() as locks:
            if waiting.keys:
                places = min(2 * waiting.assembled, self._most_assembled)
                await self._assembling.enter(places)
                locks.callback(self._assembling.leave, places)
            await locks.enter_async_context(storing(waiting.table.where, waiting.name))
            with _guard:
                changes = {
                    key: value for key, value in waiting.changes.items() if keys is None or key in keys
                }
            if not changes or (only_whole and not waiting.is_whole):
                return False
            if unless_stored_since is not None:
                value, stores = unless_stored_since
                if waiting.stores != stores:
                    return False
                changes = dict.fromkeys(changes, value)
            try:
                await run_to_completion(self._store(waiting, changes))
            except asyncio.CancelledError:
                raise
            except Exception:
                self.failed.pop(waiting, None)
                raise
        return True

    async def _store(self, waiting: WaitingObject, changes: dict[str, Value]) -> None:
        make = default_buffer_prototype().buffer.from_bytes
        work = (
            waiting.store.delete(key) if value is None else waiting.store.set(key, make(value))
            for key, value in changes.items()
        )
        results = await asyncio.gather(*work, return_exceptions=True)
        done = {key: changes[key] for key, each in zip(changes, results, strict=True) if each is None}
        waiting.stores += 1
        self.stored += len(done)
        waiting.table.settle(done)
        error = next((each for each in results if each is not None), None)
        if error is not None:
            if not isinstance(error, Exception):  # nobody cancelled this flush: it must not seem to succeed
                reason = StorageError(
                    "layer 'write-back': the store broke off a change, which waits again",
                    key=waiting.name,
                    found=repr(error),
                    advice="Flush again, or close the stack while the store still works.",
                )
                reason.__cause__, error = error, reason
            self.failed[waiting] = error
            raise error
        self.failed.pop(waiting, None)


async def flush(table: Table, prefix: str = "") -> None:
    """Store what waits for the keys with this prefix: values, then the documents that describe them.

    The first error is raised after the others of its step; the steps that follow are not begun.
    """
    with _guard:
        objects = {id(each): each for key, each in table.by_key.items() if key.startswith(prefix)}.values()
        changes = {key: value for each in objects for key, value in each.changes.items()}
        stores = {each.name: each.stores for each in objects}
        waiting = ((key, each.changes[key]) for key, each in table.by_key.items() if is_document(key))
        documents = {key: value for key, value in waiting if value is not None}
    first, then, last = steps(changes, documents)
    await _store_all(objects, first)
    for some in then:
        await gather_all(
            each.budget.store(each, unless_stored_since=(changes[each.name], stores[each.name]))
            for each in objects
            if each.name in some
        )
    await _store_all(objects, last)


async def _store_all(objects: Iterable[WaitingObject], keys: set[str]) -> None:
    """Store the changes of these keys, as many objects at once as zarr's option `async.concurrency` says."""
    free = asyncio.Semaphore(config.get("async.concurrency") or 1)

    async def one(waiting: WaitingObject) -> None:
        async with free:
            await waiting.budget.store(waiting, keys)

    await gather_all(one(each) for each in objects if not keys.isdisjoint(list(each.changes)))


async def gather_all(work: Iterable[Awaitable[Any]]) -> None:
    """Wait for all, then raise the first error."""
    results = await asyncio.gather(*work, return_exceptions=True)
    errors = [each for each in results if isinstance(each, BaseException)]
    if errors:
        raise errors[0]


def _length(value: Value) -> int:
    return 0 if value is None else len(value)


# The order: a crash between two changes loses nothing. Documents come after the values that they describe,
# those of arrays before those of the groups above. Only the chunks that a smaller shape removes are removed
# after the document with that shape: zarr-python removes them first, and would lose them if it stopped there.


def steps(
    changes: Mapping[str, bytes | None], documents: Mapping[str, bytes]
) -> tuple[set[str], list[set[str]], set[str]]:
    """The keys of these changes in their order: before the documents, the documents, and after them.

    `documents` are all that wait, also those above the changes.
    """
    shapes = _shapes(documents)
    last = {
        key
        for key, value in changes.items()
        if value is None and not is_document(key) and _is_outside(key, shapes)
    }
    own = [key for key in changes if is_document(key)]
    own.sort(key=_rank)
    first = set(changes) - set(own) - last
    return first, [set(keys) for _, keys in groupby(own, key=_rank)], last


def _rank(key: str) -> tuple[int, bool]:
    return -key.count("/"), key.endswith(".zmetadata")


def _shapes(documents: Mapping[str, bytes]) -> dict[str, ArrayChunks | None]:
    """The arrays whose documents wait, by path; None for one with a grid that is not known here."""
    shapes = {}
    for key, content in documents.items():
        path, _, name = key.rpartition("/")
        document = parse(content) if name in DOCUMENTS else None
        if document is not None and "shape" in document:
            shapes[path] = ArrayChunks.of(path, document)
    return shapes


def _is_outside(key: str, shapes: Mapping[str, ArrayChunks | None]) -> bool:
    """Whether a key may be a chunk that its array no longer has according to the document that waits."""
    for path in ancestors(key):
        if path in shapes:
            array = shapes[path]
            return array is None or array.outside(key)
    return False
