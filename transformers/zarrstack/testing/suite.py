"""The conformance suite of layers and stacks.

    class TestShout(LayerTests):
        def layers(self):
            return [Shout(mark="!")]

runs zarr's store tests (`zarr.testing.store.StoreTests`), its stateful tests, and the tests of the layer
contract on that stack. It requires pytest and hypothesis, but no plug-in for asynchronous tests, because
every test runs a separate event loop. Override `below` to test over another store, and `keys` for keys that
your layer treats specially.
"""

from __future__ import annotations

import asyncio
import builtins
import functools
import inspect
import pickle
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final

import pytest
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test
from hypothesis.strategies import DataObject
from zarr.abc.buffer import Buffer
from zarr.abc.store import Store
from zarr.buffer import cpu, default_buffer_prototype
from zarr.storage import LocalStore, MemoryStore
from zarr.testing.stateful import ZarrHierarchyStateMachine, ZarrStoreStateMachine
from zarr.testing.store import StoreTests
from zarr.testing.strategies import keys as zarr_keys

from ..base.descend import descend, serves_sync
from ..base.stack import stack
from ..base.transformer import StorageTransformer
from ..core.errors import UsageError
from ..system.zarr_internals import PIPELINES, sync
from .operations import KEYS, compare, dump


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
    """zarr's state machine.

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
        """Write a key, unless a file system cannot hold it together with all earlier ones."""
        if self._over_files:
            parts = key.split("/")
            above = {"/".join(parts[:count]) for count in range(1, len(parts))}
            if key in self._folders or above & self._names:
                return
            self._names.add(key)
            self._folders |= above
        super().set(key, data)


READ_ONLY: Final = "store was opened in read-only mode and does not support writing"
"""The message of `Store._check_writable` (zarr 3.1.6, 3.4.2)."""


@dataclass(frozen=True, slots=True)
class Place:
    """The values of the bottom store of one test, in one of the two."""

    folder: Path
    memory: dict[str, Buffer] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Maker:
    """Makes the stack under test where zarr's tests expect a store class."""

    tests: LayerTests

    def __call__(self, place: Place, *, read_only: bool = False) -> Store:
        store: Store = self.tests.make(place, read_only=read_only)
        return store

    async def open(self, place: Place, *, read_only: bool = False) -> Store:
        store = self(place, read_only=read_only)
        await store._open()  # noqa: SLF001
        return store


class LayerTests(ZarrTests):
    """Base class: subclass it with a name that starts with `Test`, and define `layers`."""

    keys: ClassVar[Sequence[str]] = KEYS
    """Keys for the comparison with a dictionary; none may be a folder of another."""
    examples: ClassVar[int] = 20
    """Random sequences of operations in each stateful test."""
    steps: ClassVar[int] = 20
    """Operations per sequence."""

    leaves_folders: ClassVar[bool] = False
    """Whether `list_dir` may list empty folders, as over a LocalStore, which keeps them."""

    _place: Place

    def layers(self) -> Sequence[StorageTransformer]:
        """Create the layers, from the array down to the store, equal at every call."""
        raise NotImplementedError

    def below(self, place: Place, *, read_only: bool = False) -> Store:
        """The bottom store; the same values for the same place."""
        return MemoryStore(place.memory, read_only=read_only)

    def make(self, place: Place, *, read_only: bool = False) -> Any:
        """Create the stack under test."""
        return stack(self.below(place, read_only=read_only), *self.layers())

    def top(self, place: Place) -> StorageTransformer:
        """Create the stack under test, which must be a layer."""
        store = self.make(place)
        assert isinstance(store, StorageTransformer)
        return store

    # -- required by zarr's tests ----------------------------------------------------------------

    @property
    def store_cls(self) -> Any:  # type: ignore[override]
        """The factory that zarr's tests use as store class."""
        return _Maker(self)

    @pytest.fixture
    def place(self, tmp_path: Path) -> Place:
        """An empty place."""
        self._place = Place(tmp_path)
        return self._place

    @pytest.fixture
    def store_kwargs(self, place: Place) -> dict[str, Any]:
        """Arguments of the factory."""
        return {"place": place}

    @pytest.fixture
    def store(self, open_kwargs: dict[str, Any]) -> Any:
        """The stack, open."""
        return asyncio.run(self.store_cls.open(**open_kwargs))

    @pytest.fixture
    def store_not_open(self, store_kwargs: dict[str, Any]) -> Any:
        """The stack, not yet open."""
        return self.store_cls(**store_kwargs)

    async def set(self, store: Any, key: str, value: Buffer) -> None:
        """Write around the stack under test: through an equal one that shares only the bottom store."""
        await self.make(self._place).set(key, value)

    async def get(self, store: Any, key: str) -> Buffer:
        """Read around the stack under test."""
        value: Buffer | None = await self.make(self._place).get(key, default_buffer_prototype())
        assert value is not None, key
        return value

    @staticmethod
    def _require_get_sync(store: Any) -> Any:
        return store if serves_sync(store) else BlockingMethods(store)

    _require_set_sync = _require_get_sync
    _require_delete_sync = _require_get_sync

    def test_store_type(self, store: Any) -> None:
        """The stack is a store."""
        assert isinstance(store, Store)

    def test_store_repr(self, store: Any) -> None:
        """`repr` shows the call that makes the stack, from the array down."""
        names = [type(layer).__name__ for layer in self.layers()]
        text = repr(store)
        assert [name for name in names if f"{name}(" not in text] == []
        assert str(store).split(" > ")[: len(names)] == [layer.name for layer in self.layers()]

    def test_store_supports_writes(self, store: Any) -> None:
        """The suite requires a writable stack."""
        assert store.supports_writes

    def test_store_supports_listing(self, store: Any) -> None:
        """The suite requires a stack that can list."""
        assert store.supports_listing

    # -- the contract -------------------------------------------------------------------------------

    def test_a_copy_keeps_the_options(self, place: Place) -> None:
        """A read-only copy differs only in being read-only."""
        store = self.top(place)
        copy = store.with_read_only(True)
        assert copy.read_only
        assert not store.read_only
        assert type(copy) is type(store)
        assert copy.options == store.options
        assert [repr(layer.options) for layer in self.layers()] == [
            repr(layer.options) for layer in _layers_of(copy)
        ]
        assert copy.with_read_only(False) == store

    def test_pickling_keeps_the_layers(self, place: Place) -> None:
        """An unpickled stack is equal, including all options."""
        store = self.top(place)
        arrived = pickle.loads(pickle.dumps(store))  # noqa: S301
        assert [type(layer) for layer in _layers_of(arrived)] == [type(layer) for layer in self.layers()]
        assert arrived == store

    def test_a_layer_waits_for_its_store(self) -> None:
        """A layer without a store can be shown, compared and pickled; using it raises an error."""
        for layer, equal in zip(self.layers(), self.layers(), strict=True):
            assert layer == equal
            assert pickle.loads(pickle.dumps(layer)) == layer  # noqa: S301
            assert type(layer).__name__ in repr(layer)
            with pytest.raises(UsageError, match="no store"):
                asyncio.run(layer.get("zarr.json", default_buffer_prototype()))

    def test_json_keeps_the_layer(self) -> None:
        """`from_json` is the inverse of `to_json`, for all options that have a JSON form."""
        for layer in self.layers():
            try:
                data = layer.to_json()
            except UsageError:
                continue
            assert data["name"] == layer.name_in_metadata()
            if not layer.secrets:
                assert type(layer).from_json(data) == layer

    def test_an_unknown_option_is_refused_by_name(self) -> None:
        """An unknown option is refused, not ignored."""
        for layer in self.layers():
            with pytest.raises(UsageError, match="no_such_option"):
                type(layer).from_json({"name": layer.name, "configuration": {"no_such_option": 1}})

    def test_clear_leaves_nothing_below(self, place: Place) -> None:
        """What a layer stores besides the values of its keys is removed with them."""
        value = cpu.Buffer.from_bytes(b"1")
        store = self.top(place)
        if store.read_only:
            return
        for key in self.keys:
            asyncio.run(store.set(key, value))
        asyncio.run(store.clear())
        asyncio.run(store.flush())
        left = dump(self.below(place))
        assert left == {}, f"clear() left {', '.join(sorted(left)[:5])} below"

    def test_every_mutation_of_a_read_only_store_is_refused(self, place: Place) -> None:
        """Every mutating method respects read-only, and the store below does not change.

        The message is zarr's, from `Store._check_writable`; zarr's own tests match it as well.
        """
        value = cpu.Buffer.from_bytes(b"1")
        asyncio.run(self.make(place).set("a/zarr.json", value))
        before = dump(self.below(place))
        store = self.make(place, read_only=True)
        for attempt in (
            store.set("a/c/0", value),
            store.set_if_not_exists("b/zarr.json", value),
            store.set_if_not_exists("a/zarr.json", value),
            store._set_many([("b/zarr.json", value)]),  # noqa: SLF001
            store.delete("a/zarr.json"),
            store.delete_dir("a"),
            store.clear(),
        ):
            with refused_as_read_only():
                asyncio.run(attempt)
        assert dump(self.below(place)) == before

    @pytest.mark.hypothesis
    def test_any_operations_equal_those_on_a_dictionary(self) -> None:
        """Every data method equals a dictionary's after any sequence of operations."""

        @settings(max_examples=self.examples * 2, deadline=None, suppress_health_check=list(HealthCheck))
        @given(st.data())
        def check(draw: DataObject) -> None:
            with tempfile.TemporaryDirectory() as folder:
                store = self.make(Place(Path(folder)))
                compare(store, draw, self.keys, leaves_folders=self.leaves_folders)

        check()

    @pytest.mark.hypothesis
    def test_zarr_store_state_machine(self) -> None:
        """Run zarr's stateful test of stores."""
        self._machine(StoreMachine)

    @pytest.mark.hypothesis
    def test_zarr_hierarchy_state_machine(self) -> None:
        """Run zarr's stateful test of groups and arrays."""
        self._machine(ZarrHierarchyStateMachine)

    def _machine(self, machine: Callable[[Store], RuleBasedStateMachine]) -> None:
        with tempfile.TemporaryDirectory() as folder:

            def make() -> RuleBasedStateMachine:
                return machine(self.make(Place(Path(tempfile.mkdtemp(dir=folder)))))

            run_state_machine_as_test(
                make,  # type: ignore[arg-type]  # the documentation allows a function that returns one
                settings=settings(
                    max_examples=self.examples,
                    stateful_step_count=self.steps,
                    deadline=None,
                    suppress_health_check=list(HealthCheck),
                ),
            )

    @pytest.mark.parametrize("sharded", [False, True], ids=["chunks", "shards"])
    def test_both_codec_pipelines_store_the_same(self, tmp_path: Path, sharded: bool) -> None:
        """The fused pipeline (zarr 3.3+) stores the same bytes as the batched one."""
        stored = {}
        for name, path in PIPELINES.items():
            place = Place(tmp_path / name)
            place.folder.mkdir()
            with zarr.config.set({"codec_pipeline.path": path}):
                store = self.make(place)
                shards = (4, 4) if sharded else None
                array: Any = zarr.create_array(
                    store, name="a", shape=(10, 6), chunks=(2, 2), shards=shards, dtype="i4", fill_value=0
                )
                array[:] = 7
                array[3:5, 1:4] = 8
                array[8:, :] = 0
                assert array[4, 3] == 8
                read: Any = zarr.open_array(self.make(place), path="a", mode="r")
                assert (read[3:5, 1:4] == 8).all()
                assert (read[8:, :] == 0).all()
                assert int(read[...].sum()) == 7 * 48 + 6
            stored[name] = dump(self.make(place))
        assert all(each == stored["batched"] for each in stored.values())


@contextmanager
def refused_as_read_only() -> Iterator[None]:
    """Expect zarr's error for a change of a read-only store, and say where it comes from otherwise."""
    source = (
        "zarr raises it in Store._check_writable, and its own tests match it: "
        "call self._check_writable() first in every method that writes"
    )
    try:
        yield
    except ValueError as error:
        if READ_ONLY not in str(error):
            pytest.fail(f"expected the message {READ_ONLY!r}, found {str(error)!r}; {source}")
    else:
        pytest.fail(f"a read-only store was changed; expected ValueError({READ_ONLY!r}); {source}")


def _layers_of(store: Store) -> list[StorageTransformer]:
    return [layer for layer in descend(store) if isinstance(layer, StorageTransformer)]
