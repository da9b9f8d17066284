"""Stacks of three layers chosen at random keep the contract, like any layer alone or twice.

Which stacks are chosen depends on the set of layers alone, so that a failure comes back. Set
ZARRSTACK_STACKS to a number to try that many.
"""

from __future__ import annotations

import json
import os
import random
import tempfile
import warnings
from pathlib import Path

import pytest
import xarray
import zarr
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from tests.support.chances import examples, fewer
from zarr.core.buffer import cpu, default_buffer_prototype
from zarr.core.sync import sync
from zarr.storage import LocalStore, MemoryStore

import zarrstack
from zarrstack import (
    Cache,
    Log,
    PerArray,
    Rekey,
    Retry,
    Sharding,
    Throttle,
    stack,
)
from zarrstack.base.array_documents import GUARD
from zarrstack.base.registry import find, registered
from zarrstack.core.errors import MetadataError, UnsupportedError, UsageError
from zarrstack.testing import KEYS, LayerTests, Place, compare

PREFIX = {"name": "prefix", "configuration": {"above": "a", "below": "moved"}}

LAYERS = {
    "cache": lambda: Cache(memory_bytes=2000),
    "log": Log,
    "per-array": PerArray,
    "rekey": lambda: Rekey(rules=[PREFIX]),
    "retry": Retry,
    "sharding": lambda: Sharding(chunks_per_shard=[2, 3], path="a"),
    "sharding buffered": lambda: Sharding(chunks_per_shard=[2, 3], path="a", memory_bytes=15_000),
    "throttle": lambda: Throttle(in_flight=2),
}
"""How to make each registered layer that accepts writes, at least once."""

READING = {"readonly"}
"""Layers that accept no writes; they have tests of their own."""


def allowed(names):
    """Whether the layers may stand in this order."""

    try:
        stack(MemoryStore(), *(LAYERS[name]() for name in names))
    except UsageError:
        return False
    return True


def chosen(count):
    """So many stacks of three."""
    draw = random.Random("stacks of three")
    stacks = []
    while len(stacks) < count:
        names = tuple(draw.choices(sorted(LAYERS), k=3))
        if allowed(names) and names not in stacks:
            stacks.append(names)
    return stacks


class Chosen(LayerTests):
    """The suite over layers by name."""

    names: tuple[str, ...] = ()
    examples = fewer(5)
    steps = 15

    def layers(self):
        return [LAYERS[name]() for name in self.names]


def suite(names):
    test = type(f"Test{''.join(name.title().replace(' ', '').replace('-', '') for name in names)}",
                (Chosen,), {"names": names, "__module__": __name__})  # fmt: skip
    return test if names in QUICK else pytest.mark.slow(test)


QUICK = {("per-array",), ("sharding buffered",), *chosen(1)}
"""Other layers alone have a module each."""
TWICE = [(name, name) for name in sorted(LAYERS) if allowed((name, name))]
STACKS = [
    *((name,) for name in sorted(LAYERS)),
    *TWICE,
    *chosen(int(os.environ.get("ZARRSTACK_STACKS", "6"))),
]
globals().update({test.__name__: test for test in map(suite, STACKS)})


def test_every_registered_layer_is_tried():
    assert {layer.name for layer in registered()} == {name.split()[0] for name in LAYERS} | READING


@pytest.mark.parametrize("name", sorted({name.split()[0] for name in LAYERS} | READING))
def test_every_registered_layer_can_be_found(name):
    assert find(name).name == name


@examples(60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.sampled_from(sorted(LAYERS)), min_size=3, max_size=3).filter(allowed), st.data())
def test_any_operations_on_any_stack_equal_those_on_a_dictionary(names, data):
    with tempfile.TemporaryDirectory() as folder:
        tests = suite(tuple(names))()
        compare(tests.make(Place(Path(folder))), data, KEYS)


# An array that cannot be opened does not hide its siblings: it is left out, and a warning names it.


ARRAY = {"shape": (4,), "chunks": (2,), "dtype": "i4"}
SHARDING = {"name": "sharding", "configuration": {"chunks_per_shard": [2]}}


def edit(store, path, change):
    key = f"{path}/zarr.json"
    document = json.loads(sync(store.get(key, default_buffer_prototype())).to_bytes())
    change(document)
    sync(store.set(key, cpu.Buffer.from_bytes(json.dumps(document).encode())))


def unknown(document):
    document["storage_transformers"] = [{"name": "nobodys-layer"}]


def guarded(document):
    document[GUARD] = {"must_understand": True}
    document["storage_transformers"] = []


def guarded_by_others(document):
    document["somebodys.extension"] = {"must_understand": True}


def not_for_metadata(document):
    document["storage_transformers"] = [{"name": "log"}]


def unknown_codec(document):
    document["codecs"] = [{"name": "nobodys-codec"}]


DAMAGE = {
    each.__name__: each for each in (unknown, guarded, guarded_by_others, not_for_metadata, unknown_codec)
}


@pytest.fixture
def store(tmp_path):
    store = LocalStore(tmp_path / "x")
    zarr.create_group(store, attributes={"made": "today"})
    zarr.create_group(store, path="g")
    for name in ("bad", "good", "g/bad", "g/good"):
        zarrstack.create_array(store, name=name, **ARRAY, storage_transformers=[SHARDING])[:] = 7
    return store


def recorded(work):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        result = work()
    return result, [str(each.message) for each in found if "left out" in str(each.message)]


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_members_and_tree_show_the_others_and_one_warning_names_it(store, damage):
    edit(store, "bad", damage)
    group = zarrstack.open_group(store, mode="r")
    (members, again), texts = recorded(lambda: (dict(group.members()), dict(group.members())))
    assert sorted(members) == sorted(again) == ["g", "good"]
    assert members["good"][:].tolist() == [7] * 4
    assert len(texts) == 1
    assert texts[0].startswith("the array 'bad' cannot be opened and is left out of its group: ")
    assert sorted(group.array_keys()) == ["good"]
    assert group["good"][0] == 7


def test_deep_members_and_the_tree_leave_each_out(store):
    for path in ("bad", "g/bad"):
        edit(store, path, unknown)
    group = zarrstack.open_group(store, mode="r")
    members, texts = recorded(lambda: dict(group.members(max_depth=None)))
    assert sorted(members) == ["g", "g/good", "good"]
    assert sorted(text.split("'")[1] for text in texts) == ["bad", "g/bad"]
    assert "bad" not in str(group.tree())


def test_by_name_it_is_an_error_as_before_and_it_is_not_overwritten(store):
    edit(store, "bad", unknown)
    group = zarrstack.open_group(store)
    with pytest.raises(UnsupportedError, match="nobodys-layer"):
        group["bad"]
    with pytest.raises(UnsupportedError, match="nobodys-layer"):
        zarrstack.open_array(store, path="bad")
    with pytest.raises((UnsupportedError, ValueError)):
        group.create_array("bad", **ARRAY)
    edit(store, "good", guarded)
    with pytest.raises(MetadataError):
        zarrstack.open_array(store, path="good")


def test_once_it_can_be_opened_it_is_listed(store):
    edit(store, "bad", unknown)
    group = zarrstack.open_group(store, mode="r")
    assert sorted(recorded(lambda: dict(group.members()))[0]) == ["g", "good"]
    edit(store, "bad", lambda document: document.update(storage_transformers=[SHARDING]))
    assert sorted(dict(group.members())) == ["bad", "g", "good"]


def test_consolidated_metadata_leaves_it_out_and_keeps_it_when_it_is_rewritten(store):
    root = zarrstack.open_group(store)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        zarr.consolidate_metadata(root.store)
    edit(store, "g/bad", unknown)
    group, texts = recorded(lambda: zarrstack.open_group(store))
    assert [text.split("'")[1] for text in texts] == ["g/bad"]
    assert sorted(dict(group.members(max_depth=None))) == ["bad", "g", "g/good", "good"]
    recorded(lambda: group.attrs.update(made="tomorrow"))
    edit(store, "g/bad", lambda document: document.update(storage_transformers=[SHARDING]))
    group = zarrstack.open_group(store)
    assert sorted(dict(group.members(max_depth=None))) == ["bad", "g", "g/bad", "g/good", "good"]
    assert group["g/bad"][0] == 7


def test_xarray_reads_the_others(tmp_path):
    store = LocalStore(tmp_path / "x")
    group = zarr.create_group(store)
    for name in ("good", "bad"):
        zarrstack.create_array(
            group.store, name=name, **ARRAY, dimension_names=["x"], storage_transformers=[SHARDING]
        )[:] = 7
    edit(store, "bad", unknown)
    opened = zarrstack.open_group(store, mode="r")
    data, texts = recorded(lambda: xarray.open_zarr(opened.store, consolidated=False, zarr_format=3))
    assert list(data) == ["good"]
    assert data["good"].values.tolist() == [7] * 4
    assert len(texts) == 1
