"""Shards by zarr-python 2.18 become Zarr v3's, with either index, and every reader reads them.

Their expectations have a form of their own (`sharded.expected.json`); shards after the text of the
draft are among the fixtures of test_fixtures_migrate.py. Many inner chunks of both are missing.
"""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import numpy as np
import pytest
from tests.end_to_end.readers.base import parametrize_readers
from tests.support.unpacking import FIXTURES, unpacked

import zarrlift
from zarrstack.core.shard_index import IndexFormat, ShardIndex

SOURCE = unpacked("zarr_v3_draft/zarr-2.18/sharded.zarr")
EXPECTED = json.loads((FIXTURES / "zarr_v3_draft/zarr-2.18/sharded.expected.json").read_text())
READERS = {
    "zarr-python": "zarr_python",
    "tensorstore": "tensorstore_zarr3",
    "zarrs": "zarrs_pipeline",
    "zarrita": "zarrita_js",
}
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


@pytest.mark.parametrize("path", EXPECTED)
@parametrize_readers(READERS)
def test_a_reader_reads_what_zarr_2_18_reads(reader, path, migrated) -> None:
    destination, _, outcome = migrated
    assert outcome.ok, outcome.problems
    read = importlib.import_module(f"tests.end_to_end.readers.{READERS[reader]}").read
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


def test_verify_agrees(migrated) -> None:
    destination, _, _ = migrated
    report = zarrlift.verify(SOURCE, destination, full=True)
    assert [str(problem) for problem in report.problems] == []
    assert report.ok


@pytest.mark.parametrize("index", INDEXES)
def test_inner_chunks_are_recoded_one_by_one(index, tmp_path) -> None:
    options = zarrlift.ArrayRecipe(shard_index=index, codecs="zstd:3", dtype="int64")
    outcome = zarrlift.migrate(SOURCE, tmp_path / "out", recipe=zarrlift.Recipe(base=options))
    assert outcome.ok, outcome.problems
    assert {array.route.name for array in outcome.plan.arrays} == {"rewrite"}
    from tests.end_to_end.readers.zarr_python import read

    for path, made in EXPECTED.items():
        assert read(tmp_path / "out", path).values.tolist() == made["values"]
        form = IndexFormat(checksum=index == "crc32c")
        per_shard = tuple(made["chunks_per_shard"])[: len(made["shape"])]
        before = [
            payloads(s, per_shard, IndexFormat.DRAFT) for s in objects(SOURCE / "data/root", path).values()
        ]
        after = [payloads(shard, per_shard, form) for shard in objects(tmp_path / "out", path).values()]
        assert sorted(map(sorted, before)) == sorted(map(sorted, after)), "what is missing stays so"
