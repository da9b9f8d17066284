"""Stacks of three layers chosen at random keep the contract, like any layer alone or twice.

Which stacks are chosen depends on the set of layers alone, so that a failure comes back. Set
ZARRSTACK_STACKS to a number to try that many.
"""

from __future__ import annotations

import json
import os
import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from tests.support.chances import examples, fewer
from zarr.buffer import cpu, default_buffer_prototype
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
    WriteBack,
    stack,
)
from zarrstack.base import plugins, registry
from zarrstack.base.array_documents import GUARD
from zarrstack.base.registry import find
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
    "throttle": lambda: Throttle(in_flight=2),
    "write-back": lambda: WriteBack(memory_bytes=15_000),
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


QUICK = {
    ("per-array",),
    ("write-back",),
    ("write-back", "write-back"),
    ("write-back", "sharding"),
    *chosen(1),
}
"""Other layers alone have a module each."""
TWICE = [(name, name) for name in sorted(LAYERS) if allowed((name, name))]
STACKS = [
    *((name,) for name in sorted(LAYERS)),
    *TWICE,
    ("write-back", "sharding"),
    *chosen(int(os.environ.get("ZARRSTACK_STACKS", "6"))),
]
globals().update({test.__name__: test for test in map(suite, STACKS)})


def test_every_registered_layer_is_tried():
    installed = {point.name for point in plugins.registered(registry.GROUP)}  # and not what a test registers
    assert installed == {name.split()[0] for name in LAYERS} | READING


@pytest.mark.parametrize("name", sorted({name.split()[0] for name in LAYERS} | READING))
def test_every_registered_layer_can_be_found(name):
    assert find(name).name == name


@examples(60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.sampled_from(sorted(LAYERS)), min_size=3, max_size=3).filter(allowed), st.data())
def test_any_operations_on_any_stack_equal_those_on_a_dictionary(names, data):
    with tempfile.TemporaryDirectory() as folder:
        tests = suite(tuple(names))()
        compare(tests.make(Place(Path(folder))), data, KEYS)


# An array that cannot be opened is an error by its name; its siblings can be opened.


ARRAY = {"shape": (4,), "chunks": (2,), "dtype": "i4"}
SHARDING = {"name": "sharding", "configuration": {"chunks_per_shard": [2]}}


def edit(store, path, change):
    key = f"{path}/zarr.json"
    document = json.loads(sync(store.get(key, default_buffer_prototype())).to_bytes())
    change(document)
    sync(store.set(key, cpu.Buffer.from_bytes(json.dumps(document).encode())))


def unknown(document):
    document["storage_transformers"] = [{"name": "nobodys-layer"}]


def skippable(document):
    document["storage_transformers"] = [{"name": "nobodys-layer", "must_understand": False}]


def guarded(document):
    document[GUARD] = {"must_understand": True}
    document["storage_transformers"] = []


def not_for_metadata(document):
    document["storage_transformers"] = [{"name": "log"}]


DAMAGE = {
    unknown: "'nobodys-layer'",
    skippable: "'nobodys-layer'",
    guarded: "no longer names",
    not_for_metadata: "'log' may not be named by metadata",
}


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
def test_by_name_it_is_an_error_it_is_not_overwritten_and_its_siblings_are_opened(damage, tmp_path):
    store = LocalStore(tmp_path)
    for name in ("bad", "good"):
        zarrstack.create_array(store, name=name, **ARRAY, storage_transformers=[SHARDING])[:] = 7
    edit(store, "bad", damage)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    group = zarrstack.open_group(store)
    for way in (
        lambda: group["bad"],
        lambda: zarrstack.open_array(store, path="bad", mode="r"),
        lambda: dict(group.members()),
        lambda: group.create_array("bad", **ARRAY),
    ):
        with pytest.raises((UnsupportedError, MetadataError), match=DAMAGE[damage]):
            way()
    assert group["good"][:].tolist() == [7] * 4
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    edit(store, "bad", lambda document: document.update(storage_transformers=[SHARDING]))
    assert sorted(dict(group.members())) == ["bad", "good"]
