"""The layers that leave values as they are keep the contract; through `ReadOnly` nothing else is possible."""

from __future__ import annotations

import asyncio
import dataclasses
import pickle

import numpy as np
import pytest
import zarr
from tests.support.stores import PROTOTYPE
from zarr.buffer import cpu
from zarr.storage import LocalStore, MemoryStore

from zarrstack import Cache, Log, ReadOnly, Retry, Sharding, Throttle, WriteBack, stack
from zarrstack.base.descend import serves_sync
from zarrstack.core.errors import UsageError
from zarrstack.testing import LayerTests


@pytest.mark.parametrize("kind", [Log, Retry, Throttle])
def test_options_that_are_the_defaults_are_no_difference(kind):
    assert kind() == kind(clock=None)
    assert kind().configuration == {}


WRONG = {
    Log: [{"events": 3}, {"events": ""}, {"callback": 3}, {"label": 3}, {"clock": 1}],
    Retry: [
        *({"attempts": wrong} for wrong in (0, 2.5, True)),
        *({"first": -1}, {"first": float("nan")}, {"budget": "long"}, {"may_pass": 3}),
    ],
    Throttle: [
        *({"bytes_per_second": 0}, {"bytes_per_second": "0"}),
        *({"requests_per_second": -1}, {"requests_per_second": [1]}),
        *({"in_flight": 0}, {"in_flight": 1.5}, {"burst": -1}, {"clock": 3}),
    ],
}


@pytest.mark.parametrize(
    ("layer", "options"), [(layer, options) for layer, every in WRONG.items() for options in every], ids=str
)
def test_a_wrong_option_is_refused_by_name(layer, options):
    with pytest.raises(UsageError, match=next(iter(options))):
        layer(**options)


@pytest.mark.parametrize("kind", [Cache, Log, ReadOnly, Retry, Sharding, Throttle, WriteBack])
def test_every_layer_is_asked_for_figures_in_the_same_way(kind):
    options = {"chunks_per_shard": [2], "path": "a"} if kind is Sharding else {}
    figures = stack(MemoryStore(), kind(**options)).figures()
    assert figures is None or dataclasses.is_dataclass(figures)


def test_sizes_are_numbers_or_texts():
    assert Cache(memory_bytes="64MB", disk_bytes="1GiB") == Cache(memory_bytes=64_000_000, disk_bytes=1 << 30)
    for kind in (Cache, WriteBack):
        with pytest.raises(UsageError, match="memory_bytes"):
            kind(memory_bytes="much")


# `ReadOnly`: reading is as below, and nothing else is possible.

DATA = {"zarr.json": b"{}", "a/c/0/0": b"1234", "a/c/0/1": b"", "ab/c/0": b"12"}


def memory():
    return MemoryStore({key: cpu.Buffer.from_bytes(value) for key, value in DATA.items()})


def value():
    return cpu.Buffer.from_bytes(b"new")


MUTATIONS = {
    "set": lambda s: s.set("b", value()),
    "set a key that is there": lambda s: s.set("zarr.json", value()),
    "set_if_not_exists": lambda s: s.set_if_not_exists("b", value()),
    "set_if_not_exists without effect": lambda s: s.set_if_not_exists("zarr.json", value()),
    "_set_many": lambda s: s._set_many([("b", value())]),
    "_set_many of nothing": lambda s: s._set_many([]),
    "delete": lambda s: s.delete("zarr.json"),
    "delete a missing key": lambda s: s.delete("b"),
    "delete_dir": lambda s: s.delete_dir("a"),
    "clear": lambda s: s.clear(),
}


@pytest.mark.parametrize("call", MUTATIONS.values(), ids=MUTATIONS)
def test_every_mutating_call_is_refused(call):
    below = memory()
    with pytest.raises(UsageError, match="layer 'readonly': store was opened in read-only mode"):
        asyncio.run(call(stack(below, ReadOnly())))
    assert below == memory()


def test_the_refusal_names_the_key():
    with pytest.raises(UsageError) as caught:
        asyncio.run(stack(memory(), ReadOnly()).set("a/c/0/0", value()))
    assert (caught.value.problem.key, caught.value.problem.found) == ("a/c/0/0", "set")


def test_the_synchronous_methods_are_refused_too():
    store = stack(memory(), ReadOnly())
    for call in (lambda: store.set_sync("b", value()), lambda: store.delete_sync("zarr.json")):
        with pytest.raises(UsageError, match="read-only"):
            call()
    if serves_sync(memory()):
        assert store.get_sync("a/c/0/0", prototype=PROTOTYPE).to_bytes() == b"1234"


def test_it_cannot_be_turned_back():
    store = stack(memory(), ReadOnly())
    assert store.read_only
    assert not store.supports_writes
    assert not store.supports_deletes
    assert store.with_read_only(True) == store
    with pytest.raises(UsageError, match="read-only"):
        store.with_read_only(False)
    assert pickle.loads(pickle.dumps(store)) == store


def test_zarr_reads_and_writes_nothing(tmp_path):
    array = zarr.create_array(LocalStore(tmp_path), name="a", shape=(4,), chunks=(2,), dtype="i4")
    array[:] = [1, 2, 3, 4]
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    store = stack(LocalStore(tmp_path), ReadOnly())
    read = zarr.open_array(store, path="a", mode="r")
    np.testing.assert_array_equal(read[:], [1, 2, 3, 4])
    for attempt in (
        lambda: zarr.open_array(store, path="a", mode="r+"),
        lambda: zarr.open_group(store, mode="w"),
        lambda: zarr.create_array(store, name="b", shape=(1,), dtype="i4"),
        lambda: read.resize((2,)),
    ):
        with pytest.raises(ValueError, match=r"read-only|read only"):
            attempt()
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}


class TestReadingPart(LayerTests):
    """The rules of zarr and of the contract that do not write through the layer."""

    def layers(self):
        return [ReadOnly()]

    async def set(self, store, key, value):
        await self.below(self._place).set(key, value)


WRITING = (
    "test_store_eq test_serializable_store test_store_read_only test_store_open_read_only "
    "test_with_read_only_store test_getsize_prefix test_set test_set_not_open test_set_many test_exists "
    "test_delete test_delete_dir test_delete_nonexistent_key_does_not_raise test_clear test_list "
    "test_list_prefix test_list_empty_path test_list_dir test_set_if_not_exists test_store_supports_writes "
    "test_set_sync test_delete_sync test_delete_sync_missing test_sync_async_set_get_parity "
    "test_delete_sync_visible_to_async_get test_get_sync_byte_range_parity test_a_copy_keeps_the_options "
    "test_every_mutation_of_a_read_only_store_is_refused test_any_operations_equal_those_on_a_dictionary "
    "test_zarr_store_state_machine test_zarr_hierarchy_state_machine "
    "test_both_codec_pipelines_store_the_same"
).split()
for _name in WRITING:
    setattr(TestReadingPart, _name, None)
