"""zarr's tests, adapted to stacks of layers and to pytest without plug-ins."""

from __future__ import annotations

import asyncio
import builtins
import functools
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule
from hypothesis.strategies import DataObject
from zarr.abc.buffer import Buffer
from zarr.abc.store import Store
from zarr.buffer import cpu, default_buffer_prototype
from zarr.storage import LocalStore
from zarr.testing.stateful import ZarrHierarchyStateMachine, ZarrStoreStateMachine
from zarr.testing.store import StoreTests
from zarr.testing.strategies import keys as zarr_keys
from zarr.testing.strategies import node_names, np_array_and_chunks

from ..base.descend import descend
from ..core.errors import UsageError
from ..system.zarr_internals import sync


@dataclass(frozen=True, slots=True)
class BlockingMethods:
    """Synchronous methods for a stack that has none, so that zarr's tests of them apply as well."""

    store: Store

    def get_sync(self, key: str, *, prototype: Any = None, byte_range: Any = None) -> Buffer | None:
        """Synchronous `get`."""
        return sync(self.store.get(key, prototype or default_buffer_prototype(), byte_range))

    def set_sync(self, key: str, value: Buffer) -> None:
        """Synchronous `set`."""
        sync(self.store.set(key, value))

    def delete_sync(self, key: str) -> None:
        """Synchronous `delete`."""
        sync(self.store.delete(key))


def in_a_loop(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Wrap an asynchronous test to run in its own event loop."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        async def body() -> None:
            await test(*args, **kwargs)

        asyncio.run(body())

    return run


class ZarrTests(StoreTests[Any, Any]):
    """zarr's tests, adapted to stacks."""

    buffer_cls = cpu.Buffer

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in dir(cls):
            test = getattr(cls, name)
            if name.startswith("test") and inspect.iscoroutinefunction(test):
                setattr(cls, name, in_a_loop(test))


class StoreMachine(ZarrStoreStateMachine):
    """zarr's state machine, for layers that reserve some names and refuse them with an error.

    Over files, a key that is a folder of another is not written, because no file system holds both `0` and
    `0/0`; not even after a deletion, because LocalStore keeps empty folders.
    """

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._over_files = any(isinstance(each, LocalStore) for each in descend(store))
        self._names: builtins.set[str] = builtins.set()
        self._folders: builtins.set[str] = builtins.set()

    @rule(key=zarr_keys(), data=st.binary(max_size=100))
    def set(self, key: str, data: bytes) -> None:
        """Write a key, or check that the error which refuses it names the key."""
        if self._over_files and not self._has_room(key):
            return
        try:
            super().set(key, data)
        except UsageError as error:
            if error.problem.key != key or self.store.exists(key):
                raise

    def _has_room(self, key: str) -> bool:
        """Whether a file system can hold this key together with all earlier ones."""
        parts = key.split("/")
        above = {"/".join(parts[:count]) for count in range(1, len(parts))}
        if key in self._folders or above & self._names:
            return False
        self._names.add(key)
        self._folders |= above
        return True


_ARRAYS: dict[str, Any] = (
    {"array_and_chunks": np_array_and_chunks()}
    if "array_and_chunks" in inspect.signature(ZarrHierarchyStateMachine.add_array).parameters
    else {}  # zarr 3.2+ draws the array in the rule
)


class HierarchyMachine(ZarrHierarchyStateMachine):
    """zarr's state machine of groups and arrays, for layers that reserve some names.

    A group or array with such a name is refused with an error that carries the key, and does not exist then.
    """

    @rule(name=node_names, data=st.data())
    def add_group(self, name: str, data: DataObject) -> None:
        """Add a group, or check the error that refuses it."""
        self._unless_reserved(functools.partial(super().add_group, name, data))

    @rule(data=st.data(), name=node_names, **_ARRAYS)
    def add_array(self, data: DataObject, name: str, **array: Any) -> None:
        """Add an array, or check the error that refuses it."""
        self._unless_reserved(functools.partial(super().add_array, data, name, **array))

    def _unless_reserved(self, add: Callable[[], None]) -> None:
        groups, arrays = self.all_groups.copy(), self.all_arrays.copy()
        nodes = dict(self.model._store_dict)  # noqa: SLF001 - restored if the node is refused
        try:
            add()
        except UsageError as error:
            if error.problem.key is None or not self._is_reserved(error.problem.key):
                raise
            self.all_groups, self.all_arrays = groups, arrays
            self.model._store_dict.clear()  # noqa: SLF001
            self.model._store_dict.update(nodes)  # noqa: SLF001

    def _is_reserved(self, key: str) -> bool:
        """Whether the layer refuses the key again, and lists nothing with it."""
        value = cpu.Buffer.from_bytes(b"{}")
        try:
            self._sync(self.store.set(key, value))
        except UsageError as error:
            return error.problem.key == key and key not in self._sync_iter(self.store.list())
        return False
