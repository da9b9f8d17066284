"""`Sharding` over the shards of zarr 2.18.7, and zarr 2.18.7 over those of `Sharding`.

The fixture is read everywhere; the tests that write for zarr 2.18 need its environment
(tests/environments/zarr-2.18).
"""

from __future__ import annotations

import asyncio
import itertools
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.readers import OF_ALL_FEATURES, READERS, ask_zarr_2_18, by_zarr_python, parametrize_readers
from tests.support.unpacking import FIXTURES, unpacked
from zarr.core.array import AsyncArray
from zarr.core.metadata import ArrayV3Metadata
from zarr.storage import LocalStore, StorePath

import zarrlift
from zarrlift.core.grid.chunk_keys import DraftKeys
from zarrstack.base.stack import stack
from zarrstack.core.chunk_keys_v3 import KeyEncoding
from zarrstack.core.shard_index import IndexFormat, ShardIndex
from zarrstack.layers.rekey import Rekey, Rule
from zarrstack.layers.sharding.layer import Sharding

ARCHIVE = unpacked("zarr_v3_draft/zarr-2.18/sharded.zarr")
EXPECTED = json.loads((FIXTURES / "zarr_v3_draft/zarr-2.18/sharded.expected.json").read_text())


V3 = KeyEncoding("default", "/")


class Renamed(Rule):
    """Chunk keys of Zarr v3 above, those of the draft below; zarr 2.18.7 has `c0` for no axes."""

    name = "renamed"

    def __init__(self, made: dict, path: str) -> None:
        self.draft, self.ndim = DraftKeys(made["separator"], "c0"), len(made["shape"])
        self.ours, self.theirs = f"{path}/", f"data/root/{path}/"

    @property
    def configuration(self) -> dict:
        return {"ours": self.ours, "theirs": self.theirs}

    def down(self, key: str) -> str | None:
        return self._between(key, self.ours, V3, self.theirs, self.draft)

    def up(self, key: str) -> str | None:
        return self._between(key, self.theirs, self.draft, self.ours, V3)

    def _between(self, key: str, above: str, names: object, below: str, others: object) -> str | None:
        chunk = names.coordinates(key.removeprefix(above), self.ndim) if key.startswith(above) else None
        return None if chunk is None else below + others.key(chunk)


def chunks(root: Path, made: dict, path: str) -> zarr.abc.store.Store:
    """The chunks of a draft array, under their keys of Zarr v3."""
    sharding = Sharding(chunks_per_shard=made["chunks_per_shard"], ndim=len(made["shape"]), path=path)
    return stack(LocalStore(root), sharding, Rekey(rules=[Renamed(made, path)]))


def array(root: Path, made: dict, path: str) -> zarr.Array:
    """An array of a draft archive, under zarr-python 3: chunks above, shards below."""
    codecs = [{"name": "bytes", "configuration": {"endian": "little"}}]
    if made["compressed"]:
        codecs.append({"name": "gzip", "configuration": {"level": 1}})
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": made["shape"],
        "data_type": "int32",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": made["chunks"]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": -1,
        "codecs": codecs,
    }
    metadata = ArrayV3Metadata.from_dict(document)
    return zarr.Array(AsyncArray(metadata, StorePath(chunks(root, made, path), path)))


def keys(root: Path, made: dict, path: str) -> list[str]:
    """The chunk keys of an array, in the draft's names."""
    layer, rule = chunks(root, made, path), Renamed(made, path)

    async def listed() -> list[str | None]:
        return [rule.down(key) async for key in layer.list_prefix(f"{path}/")]

    return sorted(filter(None, asyncio.run(listed())))


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize("path", EXPECTED)
def test_an_array_of_zarr_2_18_reads_as_it_read_it(path) -> None:
    made = EXPECTED[path]
    assert np.asarray(array(ARCHIVE, made, path)[...]).tolist() == made["values"]
    assert keys(ARCHIVE, made, path) == made["keys"]


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize("path", EXPECTED)
def test_an_array_of_zarr_2_18_is_changed_in_part(path, tmp_path) -> None:
    made = EXPECTED[path]
    root = tmp_path / "a.zarr"
    shutil.copytree(ARCHIVE, root)
    values = np.array(made["values"], "i4")
    first = (0,) * values.ndim
    array(root, made, path)[first] = values[first] = 4321
    assert (array(root, made, path)[...] == values).all()
    untouched = [p for p in EXPECTED if p != path]
    assert [p for p in untouched if array(root, EXPECTED[p], p)[...].tolist() != EXPECTED[p]["values"]] == []


def test_a_draft_shard_is_a_ratified_one_but_for_the_checksum() -> None:
    """With its four bytes the same object is read by zarr-python's own sharding codec."""
    made = EXPECTED["group/plane"]
    shard = (ARCHIVE / "data/root/group/plane/c0/0").read_bytes()
    size = IndexFormat.DRAFT.size((2, 2))
    body, index = shard[:-size], shard[-size:]
    ours = Sharding(chunks_per_shard=[2, 2])._form.parse_index(index)
    store = zarr.storage.MemoryStore()
    reader = zarr.create_array(
        store, shape=made["shape"], chunks=(2, 3), shards=(4, 6), dtype="i4", fill_value=-1, compressors=None
    )
    encoded = body + ours.to_bytes(IndexFormat())
    store._store_dict["c/0/0"] = zarr.core.buffer.cpu.Buffer.from_bytes(encoded)
    assert reader[:4, :6].tolist() == np.array(made["values"])[:4, :6].tolist()


# -- with zarr 2.18 itself --------------------------------------------------------------------------


def zarr_2_18(root: Path, *steps: list) -> list:
    """The answers of zarr 2.18.7 to steps of `shards.py`."""
    return ask_zarr_2_18("shards.py", root, steps)


def creation(path: str, made: dict) -> list:
    names = ("shape", "chunks", "chunks_per_shard", "separator", "compressed")
    return ["create", path, *(made[name] for name in names)]


@pytest.mark.needs_reader("zarr-2.18")
def test_zarr_2_18_reads_what_is_written_here(tmp_path) -> None:
    zarr_2_18(tmp_path, *(creation(path, made) for path, made in EXPECTED.items()))
    random = np.random.default_rng(7)
    values = {}
    for path, made in EXPECTED.items():
        ours = array(tmp_path, made, path)
        held = np.full(made["shape"], -1, "i4")
        for turn in range(4):
            box = tuple(slice(*sorted(random.integers(0, n + 1, 2).tolist())) for n in made["shape"])
            held[box] = 1000 * turn + np.arange(held[box].size).reshape(held[box].shape)
            ours[box] = held[box]
        # Chunks that are all fill value are not stored.
        box = tuple(slice(0, c) for c in made["chunks"])
        ours[box] = held[box] = -1
        values[path] = held.tolist()
    answers = zarr_2_18(tmp_path, *itertools.chain(*([["read", p], ["list", p]] for p in EXPECTED)))
    assert dict(zip(EXPECTED, answers[::2], strict=True)) == values
    for path, listed in zip(EXPECTED, answers[1::2], strict=True):
        assert keys(tmp_path, EXPECTED[path], path) == listed


MADE = st.fixed_dictionaries(
    {
        "shape": st.just([7, 9]),
        "chunks": st.tuples(st.integers(1, 4), st.integers(1, 4)).map(list),
        "chunks_per_shard": st.lists(st.integers(1, 4), min_size=1, max_size=2),
        "separator": st.sampled_from(["/", "."]),
        "compressed": st.booleans(),
    }
)
BOX = st.tuples(*[st.tuples(st.integers(0, n), st.integers(0, n)).map(sorted) for n in (7, 9)])
WRITES = st.lists(st.tuples(st.booleans(), BOX), min_size=1, max_size=6)


@pytest.mark.needs_reader("zarr-2.18")
@settings(max_examples=6, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(made=MADE, writes=WRITES)
def test_writing_in_turns_leaves_what_a_plain_array_would_hold(made, writes, tmp_path_factory) -> None:
    root = tmp_path_factory.mktemp("turns")
    zarr_2_18(root, creation("a", made))
    held = np.full(made["shape"], -1, "i4")
    for turn, (here, box) in enumerate(writes):
        place = tuple(slice(*ends) for ends in box)
        part = 1000 * turn + np.arange(held[place].size).reshape(held[place].shape)
        if not part.size:
            continue
        held[place] = part
        if here:
            array(root, made, "a")[place] = part
        else:
            start, stop = ([ends[i] for ends in box] for i in (0, 1))
            zarr_2_18(root, ["write", "a", start, stop, 1000 * turn])
    theirs, listed = zarr_2_18(root, ["read", "a"], ["list", "a"])
    assert theirs == held.tolist()
    assert (array(root, made, "a")[...] == held).all()
    assert keys(root, made, "a") == listed


# Shards by zarr-python 2.18 become Zarr v3's, with either index, and every reader reads them.
#
# Their expectations have a form of their own (`sharded.expected.json`); shards after the text of the
# draft are among the fixtures of test_fixtures.py. Many inner chunks of both are missing.


SOURCE = unpacked("zarr_v3_draft/zarr-2.18/sharded.zarr")
INDEXES = ("bytes", "crc32c")


def recipe(index: str | None) -> zarrlift.Recipe:
    return zarrlift.Recipe(base=zarrlift.ArrayRecipe(shard_index=index))


@pytest.fixture(scope="module", params=INDEXES)
def migrated(request, tmp_path_factory) -> tuple[Path, str, zarrlift.Outcome]:
    """The fixture with either index; nothing said is `bytes`."""
    index = request.param
    destination = tmp_path_factory.mktemp("shards") / index
    outcome = zarrlift.migrate(SOURCE, destination, recipe=recipe(None if index == "bytes" else index))
    return destination, index, outcome


def objects(root: Path, path: str) -> dict[str, bytes]:
    """The shards of an array, by what follows the array's path."""
    files = (file for file in (root / path).rglob("*") if file.is_file() and file.name != "zarr.json")
    return {file.relative_to(root / path).as_posix(): file.read_bytes() for file in files}


def payloads(shard: bytes, per_shard: tuple[int, ...], form: IndexFormat) -> dict[tuple[int, ...], bytes]:
    """The inner chunks that are there."""
    index = ShardIndex.from_bytes(shard[form.place(per_shard, len(shard))], per_shard, form)
    index.check(len(shard), form)
    there = (tuple(map(int, place)) for place in np.argwhere(np.atleast_1d(index.present)))
    return {place: shard[index.get(place[: len(per_shard)])] for place in there}


@pytest.mark.slow(one_in=5)
@pytest.mark.parametrize("path", EXPECTED)
@parametrize_readers(OF_ALL_FEATURES)
def test_a_reader_reads_what_zarr_2_18_reads(reader, path, migrated) -> None:
    destination, _, outcome = migrated
    assert outcome.ok, outcome.problems
    read = READERS[reader]
    assert read(destination, path).values.tolist() == EXPECTED[path]["values"]


@pytest.mark.parametrize("path", EXPECTED)
def test_payloads_stay_as_they_are(path, migrated) -> None:
    """With `bytes` a shard is the same object; with `crc32c` its payloads are packed and indexed anew."""
    destination, index, outcome = migrated
    (route,) = {array.route.name for array in outcome.plan.arrays}
    assert route == ("relink" if index == "bytes" else "reframe")
    per_shard = tuple(EXPECTED[path]["chunks_per_shard"])[: len(EXPECTED[path]["shape"])]
    before = sorted(objects(SOURCE / "data/root", path).values())
    after = sorted(objects(destination, path).values())
    assert len(before) == len(after)
    if index == "bytes":
        assert before == after
        return
    for old, new in zip(before, after, strict=True):
        assert payloads(old, per_shard, IndexFormat.DRAFT) == payloads(new, per_shard, IndexFormat())
        assert len(new) <= len(old) + 4, "what an earlier writing left behind goes"


def test_the_document_says_which_index_there_is(migrated) -> None:
    destination, index, _ = migrated
    (codec,) = json.loads((destination / "group/plane/zarr.json").read_text())["codecs"]
    assert codec["name"] == "sharding_indexed"
    names = [named["name"] for named in codec["configuration"]["index_codecs"]]
    assert names == (["bytes"] if index == "bytes" else ["bytes", "crc32c"])
    assert codec["configuration"]["chunk_shape"] == EXPECTED["group/plane"]["chunks"]


@pytest.mark.parametrize("index", INDEXES)
def test_inner_chunks_are_recoded_one_by_one(index, tmp_path) -> None:
    options = zarrlift.ArrayRecipe(shard_index=index, codecs="zstd:3", dtype="int64")
    outcome = zarrlift.migrate(SOURCE, tmp_path / "out", recipe=zarrlift.Recipe(base=options))
    assert outcome.ok, outcome.problems
    assert {array.route.name for array in outcome.plan.arrays} == {"rewrite"}
    for path, made in EXPECTED.items():
        assert by_zarr_python(tmp_path / "out", path).values.tolist() == made["values"]
        form = IndexFormat(checksum=index == "crc32c")
        per_shard = tuple(made["chunks_per_shard"])[: len(made["shape"])]
        before = [
            payloads(s, per_shard, IndexFormat.DRAFT) for s in objects(SOURCE / "data/root", path).values()
        ]
        after = [payloads(shard, per_shard, form) for shard in objects(tmp_path / "out", path).values()]
        assert sorted(map(sorted, before)) == sorted(map(sorted, after)), "what is missing stays so"
