"""`Rekey`: other keys below than above."""

from __future__ import annotations

import asyncio
import json
import pickle

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from tests.support.chances import check, examples, fewer, sequences
from tests.support.stores import PROTOTYPE, InAFolder
from zarr.buffer import cpu
from zarr.storage import MemoryStore

from zarrstack.core.errors import MetadataError, UsageError
from zarrstack.layers.rekey import Chunks, Prefix, Rekey, Rule
from zarrstack.testing import LayerTests

ARRAYS = {"a": 2, "c": 1, "0": 0, "c0": 1, "data": 1, "g/data/root": 2}
"""Arrays and groups with the names that chunk keys are made of; `g` and `g/data` are groups."""
SLASHES = {"name": "v2", "configuration": {"separator": "/"}}
DOTS = {"name": "default", "configuration": {"separator": "."}}


class Upper(Rule):
    """Keys are stored in upper case; there is no place for keys that have upper case already."""

    name = "upper"
    configuration = {}

    def down(self, key):
        return key.upper() if key == key.lower() else None

    def up(self, key):
        return key.lower() if key == key.upper() else None


ALL = {
    "into a folder": [Prefix(below="old/archive")],
    "out of a folder": [Prefix(above="a")],
    "a folder with another name": [Prefix(above="a", below="c")],
    "into a part of a folder": [Prefix(above="a", below="a/c")],
    "a part of a folder into it": [Prefix(above="a/c", below="a")],
    "v2 below": [Chunks(below="v2", arrays=ARRAYS)],
    "v2 in folders below": [Chunks(below=SLASHES, arrays={"a": 2, "x/0": 3, "0": 0})],
    "v2 above": [Chunks(above="v2", below="default", arrays=ARRAYS)],
    "another separator": [Chunks(above="default", below=DOTS, arrays=ARRAYS)],
    "the array at the root": [Chunks(below="v2", arrays={"": 2})],
    "the array at the root, in folders": [Chunks(above="default", below=SLASHES, arrays={"": 3})],
    "two rules for chunks, in a folder": [
        Chunks(above=DOTS, below="default", arrays=ARRAYS),
        Chunks(below=SLASHES, arrays={"a": 2, "x/0": 3, "0": 0}),
        Prefix(below="meta"),
    ],
    "a rule of an author": [Upper()],
}

indexes = st.integers(0, 11).map(str)
words = st.sampled_from(
    "a c 0 1 10 00 c0 c1 c0.1 0.1 1.0 c.0.1 data root meta zarr.json x g old archive p "
    "a.array.json a.group.json root.array.json root.group.json c.array.json".split()
)
heads = st.sampled_from(
    ["", "a/", "c/", "c/0/", "0/", "c0/", "data/", "g/data/root/", "data/root/", "data/root/a/",
     "data/root/c/0/", "data/root/g/data/root/", "meta/root/", "old/archive/", "p/"]
)  # fmt: skip
tails = st.builds(
    lambda head, sep, parts: head + sep.join(parts),
    st.sampled_from(["", "c/", "c.", "c"]),
    st.sampled_from("/."),
    st.lists(indexes, max_size=3),
).filter(lambda tail: tail and not tail.endswith(("/", ".")))
keys = st.builds(str.__add__, heads, tails) | st.lists(words, min_size=1, max_size=5).map("/".join)
keys = keys | keys.map("a/c/".__add__) | keys.map(str.upper)


@pytest.mark.parametrize("rules", ALL.values(), ids=ALL)
@examples(20)
@given(data=st.data())
@pytest.mark.slow(one_in=6)
def test_any_operations_leave_what_a_dictionary_would_hold(rules, data) -> None:
    below: dict = {}
    layer = Rekey(MemoryStore(below), rules=rules)

    def has_place(key: str) -> bool:
        return layer.down(key) is not None

    placed = keys.map(lambda key: key if has_place(key) else f"a/{key}").filter(has_place)
    model = check(layer, data.draw(sequences(placed)))
    assert {layer.down(key) for key in model} == set(below)


@pytest.mark.parametrize("rules", ALL.values(), ids=ALL)
@examples(100)
@given(key=keys)
def test_no_two_keys_have_one_place(rules, key) -> None:
    layer = Rekey(MemoryStore(), rules=rules)
    place, name = layer.down(key), layer.up(key)
    assert place is None or layer.up(place) == key
    assert name is None or layer.down(name) == key
    if place is None:
        asyncio.run(is_missing_and_refused(layer, key))


async def is_missing_and_refused(layer, key) -> None:
    assert await layer.get(key, PROTOTYPE) is None
    assert not await layer.exists(key)
    await layer.delete(key)
    with pytest.raises(FileNotFoundError):
        await layer.getsize(key)
    for attempt in (layer.set, layer.set_if_not_exists):
        with pytest.raises(UsageError, match="layer 'rekey'") as caught:
            await attempt(key, cpu.Buffer.from_bytes(b"x"))
        assert caught.value.problem.key == key


class TestV2Below(LayerTests):
    examples = fewer(10)

    def layers(self):
        return [Rekey(rules=[Chunks(arrays={"a": 2, "data/root/a": 1}), Prefix(below="old")])]


@pytest.mark.slow
class TestOverFiles(InAFolder, LayerTests):
    examples = steps = 5

    def layers(self):
        return [Rekey(rules=[Chunks(below=DOTS, arrays={"a": 2, "foo": 1})])]


V2 = Chunks(below="v2", arrays={"a": 2, "c": 1, "n": 0})
MOVED = {
    "a chunk": ("a/c/0/1", "a/0.1"),
    "a chunk of an array called c": ("c/c/5", "c/5"),
    "the chunk of an array without axes": ("n/c", "n/0"),
    "fewer indexes than axes": 2 * ("a/c/0",),
    "more indexes than axes": 2 * ("a/c/0/1/2",),
    "a leading zero": 2 * ("a/c/00/1",),
    "no array": 2 * ("b/c/0/1",),
    "a document": 2 * ("a/zarr.json",),
    "a document in a group called 0": 2 * ("a/c/0/zarr.json",),
    "a path that starts like the array's": 2 * ("ab/c/0/1",),
}


@pytest.mark.parametrize(("above", "below"), MOVED.values(), ids=MOVED)
def test_chunks_of_known_arrays_are_moved_and_all_else_stays_where_it_is(above, below) -> None:
    assert (V2.down(above), V2.up(below)) == (below, above)


def test_a_v2_archive_is_an_archive_with_default_keys_above() -> None:
    below: dict = {}
    arrays = {"g/c": 2, "0": 1, "g/n": 0}
    old = zarr.open_group(MemoryStore(below), mode="w", zarr_format=2)
    for path, ndim in arrays.items():
        made = old.create_array(path, shape=(5,) * ndim, chunks=(2,) * ndim, dtype="i2")
        made[...] = np.arange(5**ndim).reshape((5,) * ndim) + 1
    layer = Rekey(MemoryStore(below), rules=[Chunks(arrays=arrays)])

    async def run() -> None:
        found = sorted([key async for key in layer.list_prefix("g/c/c/1")])
        assert found == ["g/c/c/1/0", "g/c/c/1/1", "g/c/c/1/2"]
        assert sorted([name async for name in layer.list_dir("g/c")]) == [".zarray", ".zattrs", "c"]
        assert await layer.exists("g/n/c")
        assert await layer.exists("0/c/2")

    asyncio.run(run())


def test_a_v3_archive_with_v2_keys_may_have_any_names() -> None:
    below: dict = {}
    arrays = {"c": 2, "g/0": 1, "g/c0/data": 3}
    layer = Rekey(MemoryStore(below), rules=[Chunks(below=DOTS, arrays=arrays)])
    root = zarr.open_group(layer, mode="w")
    for path, ndim in arrays.items():
        root.create_array(path, shape=(4,) * ndim, chunks=(2,) * ndim, dtype="i2")[...] = 7
    assert {"c/c.1.1", "g/0/c.0", "g/c0/data/c.0.1.0"} <= set(below)
    reopened = zarr.open_group(Rekey(MemoryStore(below), rules=layer.options["rules"]), mode="r")
    assert all((reopened[path][...] == 7).all() for path in arrays)
    assert sorted(name for name, _ in reopened.members(max_depth=None)) == [
        "c", "g", "g/0", "g/c0", "g/c0/data",
    ]  # fmt: skip


# -- rules as data ----------------------------------------------------------------------------------


@pytest.mark.parametrize("rules", [rules for rules in ALL.values() if not isinstance(rules[0], Upper)])
def test_rules_come_back_from_json_and_pickles(rules) -> None:
    layer = Rekey(rules=rules)
    assert Rekey.from_json(json.loads(json.dumps(layer.to_json()))) == layer
    assert pickle.loads(pickle.dumps(layer)) == layer


BAD = {
    "no list": {"name": "prefix"},
    "an unknown rule": ["upper"],
    "an unknown option": [{"name": "prefix", "configuration": {"over": "a"}}],
    "a path that leaves the store": [{"name": "prefix", "configuration": {"below": "../a"}}],
    "no arrays": ["chunks"],
    "arrays without numbers of axes": [{"name": "chunks", "configuration": {"arrays": ["a"]}}],
    "a number of axes that is none": [{"name": "chunks", "configuration": {"arrays": {"a": "2"}}}],
    "an unknown encoding": [{"name": "chunks", "configuration": {"below": "n5", "arrays": {}}}],
    # a/0/1 would be a chunk of either.
    "an array within another": [
        {"name": "chunks", "configuration": {"below": SLASHES, "arrays": {"a": 2, "a/0": 1}}}
    ],
    "an array within that at the root": [{"name": "chunks", "configuration": {"arrays": {"": 3, "1/2": 1}}}],
}


@pytest.mark.parametrize("rules", BAD.values(), ids=BAD)
def test_bad_rules_are_refused(rules) -> None:
    with pytest.raises((UsageError, MetadataError)):
        Rekey(rules=rules)
