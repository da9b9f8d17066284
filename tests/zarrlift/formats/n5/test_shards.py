"""N5 with shards, which Java's n5 4.0 writes and no document states: refused by name, and no value is wrong.

`attributes.json` has the size of an inner chunk as `blockSize`, so the first chunk of each shard looks like a
block; for some compressions the Java library itself returns it as one.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import zarr
from tests.support.damaged_archives import copied
from tests.support.fixtures_index import archive
from tests.zarrlift.storage.test_n5_stores import in_memory

import zarrlift
from zarrstack.core.errors import ZarrstackError

FIXTURE = archive("n5/java-4.0.2/shards")
SHARDS = FIXTURE.path
SHARDED = sorted(set(FIXTURE.arrays) - {"plain"})
WHAT = "shards are stored in the place of N5 blocks"


def told(plan: zarrlift.Plan) -> dict[str, str]:
    """The problems of each refused node, as text."""
    return {item.path: " ".join(map(str, item.problems)) for item in plan.refusals}


@pytest.mark.parametrize("axes", ["reversed", "kept"])
def test_the_plan_refuses_every_dataset_with_shards(axes: str, tmp_path: Path) -> None:
    plan = zarrlift.plan(SHARDS, tmp_path / "out.zarr", axes=axes)
    refused = told(plan)
    assert sorted(refused) == SHARDED
    for path, text in refused.items():
        assert WHAT in text, path
        assert "docs/howto/n5.md, Shards" in text, path
    problems = [problem for item in plan.refusals for problem in item.problems]
    assert {problem.kind for problem in problems if problem.severity == "refusal"} == {"unsupported"}
    assert "a shard index of 4 chunks" in refused["end/blosc"]


def test_the_other_datasets_are_migrated(tmp_path: Path) -> None:
    outcome = zarrlift.migrate(SHARDS, tmp_path / "out.zarr", verify="full")
    assert not outcome.ok
    arrays = [path for path, node in zarr.open_group(tmp_path / "out.zarr", mode="r").members(max_depth=None)
              if isinstance(node, zarr.Array)]  # fmt: skip
    assert arrays == ["plain"]
    found = zarr.open_array(tmp_path / "out.zarr/plain", mode="r")[...]
    assert np.array_equal(found, FIXTURE["plain"].in_axes("reversed"))


@pytest.mark.parametrize("path", ["end/raw", "end/gzip", "end/blosc", "start/raw"])
def test_blocks_that_would_stay_in_place_are_looked_at(path: str, tmp_path: Path) -> None:
    source = copied(SHARDS, tmp_path / "shards.n5")
    plan = zarrlift.plan(source, in_place=True)
    assert WHAT in told(plan)[path]
    assert WHAT in told(zarrlift.plan(in_memory(SHARDS, tmp_path), in_place=True))[path]


def test_no_reference_to_a_shard_is_written(tmp_path: Path) -> None:
    plan = zarrlift.plan(SHARDS, tmp_path / "out.json", virtual="kerchunk")
    assert sorted(path for path, text in told(plan).items() if WHAT in text) == SHARDED


def test_in_a_store_the_migration_says_so(tmp_path: Path) -> None:
    source = in_memory(SHARDS, tmp_path)
    outcome = zarrlift.migrate(source, tmp_path / "out.zarr")
    failed = {problem.node: str(problem) for problem in outcome.problems if problem.severity == "refusal"}
    assert sorted(failed) == SHARDED
    assert all(WHAT in text for text in failed.values())
    documents = {path.parent.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("zarr.json")}
    assert documents == {"out.zarr", "out.zarr/end", "out.zarr/start", "out.zarr/plain"}


@pytest.mark.parametrize("axes", ["reversed", "kept"])
@pytest.mark.parametrize("path", SHARDED)
def test_a_view_never_shows_a_chunk_of_a_shard_as_a_block(path: str, axes: str) -> None:
    array = zarrlift.open_array(SHARDS, path=path, axes=axes)
    for start in np.ndindex(*(-(-n // c) for n, c in zip(array.shape, array.chunks, strict=True))):
        place = tuple(slice(i * c, (i + 1) * c) for i, c in zip(start, array.chunks, strict=True))
        try:
            assert not array[place].any(), place  # missing
        except ZarrstackError:
            continue


def block_ending_like_an_index() -> bytes:
    """A valid raw block of uint64 whose last values are the index of a shard that fills the object."""
    header = bytes([0, 0, 0, 1, 0, 0, 0, 8])
    return header + bytes(48) + (0).to_bytes(8, "big") + (8 + 48).to_bytes(8, "big")


def test_a_block_that_decodes_is_a_block_whatever_its_values_are(tmp_path: Path) -> None:
    dataset = {"dimensions": [8], "blockSize": [8], "dataType": "uint64", "compression": {"type": "raw"}}
    (tmp_path / "root.n5").mkdir()
    (tmp_path / "root.n5/attributes.json").write_text(json.dumps({"n5": "4.0.0", **dataset}))
    (tmp_path / "root.n5/0").write_bytes(block_ending_like_an_index())
    assert zarrlift.migrate(tmp_path / "root.n5", tmp_path / "out.zarr", verify="full").ok
    assert zarr.open_array(tmp_path / "out.zarr", mode="r")[...].tolist() == [0] * 7 + [56]


SHARDING = {"name": "sharding_indexed", "configuration": {"chunk_shape": [2, 4], "index_location": "end"}}


@pytest.mark.parametrize(
    ("codecs", "what"),
    [
        ([SHARDING], "an N5 dataset with shards"),
        ([{"type": "sharding_indexed"}], "an N5 dataset with shards"),
        ([{"name": "n5bytes"}], "an N5 dataset with a list of codecs"),
        ([], "an N5 dataset with a list of codecs"),
        (7, "an N5 dataset with a list of codecs"),
    ],
)
def test_a_document_with_codecs_is_refused_whatever_else_it_states(
    codecs: object, what: str, tmp_path: Path
) -> None:
    source = copied(SHARDS, tmp_path / "shards.n5")
    for path in SHARDED:
        shutil.rmtree(source / path.partition("/")[0], ignore_errors=True)
    document = json.loads((source / "plain/attributes.json").read_text())
    (source / "plain/attributes.json").write_text(json.dumps({**document, "codecs": codecs}))
    (refusal,) = zarrlift.plan(source, tmp_path / "out.zarr").refusals
    text = " ".join(map(str, refusal.problems))
    assert what in text
    assert "docs/howto/n5.md, Shards" in text
