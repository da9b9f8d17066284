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
from tests.end_to_end.readers.zarr_2_18 import ask
from tests.support.unpacking import FIXTURES, unpacked
from zarr.core.array import AsyncArray
from zarr.core.metadata import ArrayV3Metadata
from zarr.storage import LocalStore, StorePath

from zarrlift.core.grid.chunk_keys_draft import DraftKeys
from zarrstack.base.stack import stack
from zarrstack.core.chunk_keys_v3 import KeyEncoding
from zarrstack.core.shard_index import IndexFormat
from zarrstack.layers.rekey import Functions, Rekey
from zarrstack.layers.sharding.layer import Sharding

ARCHIVE = unpacked("zarr_v3_draft/zarr-2.18/sharded.zarr")
EXPECTED = json.loads((FIXTURES / "zarr_v3_draft/zarr-2.18/sharded.expected.json").read_text())


V3 = KeyEncoding("default", "/")


def renamed(made: dict, path: str) -> Functions:
    """Chunk keys of Zarr v3 above, those of the draft below; zarr 2.18.7 has `c0` for no axes."""
    draft, ndim = DraftKeys(made["separator"], "c0"), len(made["shape"])

    def between(key: str, above: str, names: object, below: str, others: object) -> str | None:
        chunk = names.coordinates(key.removeprefix(above), ndim) if key.startswith(above) else None
        return None if chunk is None else below + others.key(chunk)

    ours, theirs = f"{path}/", f"data/root/{path}/"
    return Functions(
        lambda key: between(key, ours, V3, theirs, draft), lambda key: between(key, theirs, draft, ours, V3)
    )


def chunks(root: Path, made: dict, path: str) -> zarr.abc.store.Store:
    """The chunks of a draft array, under their keys of Zarr v3."""
    sharding = Sharding(chunks_per_shard=made["chunks_per_shard"], ndim=len(made["shape"]), path=path)
    return stack(LocalStore(root), sharding, Rekey(rules=[renamed(made, path)]))


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
    layer, rule = chunks(root, made, path), renamed(made, path)

    async def listed() -> list[str | None]:
        return [rule.down(key) async for key in layer.list_prefix(f"{path}/")]

    return sorted(filter(None, asyncio.run(listed())))


@pytest.mark.parametrize("path", EXPECTED)
def test_an_array_of_zarr_2_18_reads_as_it_read_it(path) -> None:
    made = EXPECTED[path]
    assert np.asarray(array(ARCHIVE, made, path)[...]).tolist() == made["values"]
    assert keys(ARCHIVE, made, path) == made["keys"]


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
    ours = Sharding(chunks_per_shard=[2, 2])._form.parse_index(index, len(shard))
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
    return ask("shards.py", root, steps)


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
