"""Every damaged archive of the 2022 draft: one clear error, all else migrated, nothing wrong visible."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.support.damaged_archives import assert_told, copied, migrate, read, run, tree
from tests.support.fixtures_index import GOOD, BadCase, bad_cases

CASES = bad_cases("zarr_v3_draft")
NOT_AN_ARCHIVE = {"nothing"}
"""There is neither an entry point nor a document of the draft: the request makes no sense (exit 2)."""
NO_CHUNKS = {"both_dialects"}
"""By its own entry point an array whose chunks are all missing; that they lie elsewhere nobody can tell."""
MEANT_SO = {
    "zarr_array_filters_text",  # an attribute of the user's that happens to bear the name
    "name_empty",  # the root, which is a group, is whole; the document of no node is told
}
"""The damaged node is visible, and is right."""
ALSO_AT = {
    "array_transformer_too_many": {"data/bad/c0/0"},  # zarr-python takes it so: the shards are none
    "zarr_array_pickle": {"meta/root/bad.array.json"},
}
SHARDS = [case for case in CASES if case.name.startswith("shard_")]


IN_CHUNKS = [case for case in CASES if case.name.startswith(("shard_", "chunk_", "array_transformer"))]
RUNS = [
    *((case, ()) for case in CASES),
    *((case, ("--set", "shard-index=crc32c")) for case in IN_CHUNKS),
    *((case, ("--codecs", "zstd:3")) for case in IN_CHUNKS),
]
"""Chunks are looked at by other code where they are changed."""


@pytest.mark.slow(one_in=20)
@pytest.mark.parametrize(("case", "options"), RUNS, ids=str)
def test_a_copy_keeps_back_what_is_damaged_and_nothing_else(case: BadCase, options, tmp_path: Path) -> None:
    destination = tmp_path / "out.zarr"
    before = tree(case.path)
    ran = migrate(case.path, destination, *options)
    assert tree(case.path) == before
    if case.name in NOT_AN_ARCHIVE:
        assert (ran.code, len(ran.problems)) == (2, 1)
        assert not destination.exists()
        return
    if case.damaged == ("",) and case.keys == ("zarr.json",) and ran.code:
        # Without its entry point nothing of a hierarchy can be read.
        (problem,) = ran.problems
        assert (ran.code, problem["key"]) == (1, "zarr.json")
        assert not destination.exists()
        return
    if case.name != "root_array_and_group":
        assert read(destination / "good").tolist() == GOOD.tolist()
    assert ran.code == (1 if ran.refusals else 0)
    for node in case.damaged:
        document = destination / node / "zarr.json"
        if document.is_file():
            assert case.readable or case.name in MEANT_SO
            if json.loads(document.read_text())["node_type"] == "array" and case.name not in NO_CHUNKS:
                assert np.array_equal(read(destination / node), GOOD)
            continue
        assert_told(ran, node, {*case.keys} | ALSO_AT.get(case.name, set()))
    if ran.refusals:
        assert any(p.get("key") in {*case.keys} | ALSO_AT.get(case.name, set()) for p in ran.refusals)


@pytest.mark.parametrize("case", CASES[::7], ids=str)
def test_nothing_is_done_in_place(case: BadCase, tmp_path: Path) -> None:
    source = copied(case.path, tmp_path / "source.zarr")
    before = tree(source)
    ran = migrate(source, "--in-place")
    assert ran.code
    assert tree(source) == before
    assert [path.name for path in tmp_path.iterdir()] == ["source.zarr"]


@pytest.mark.needs_reader("once")
@pytest.mark.parametrize("case", SHARDS, ids=str)
def test_verify_says_which_shard_is_damaged(case: BadCase, tmp_path: Path) -> None:
    """A result that was made while the source was sound, against a source that is not any more."""
    source, destination = copied(case.path, tmp_path / "source.zarr"), tmp_path / "out.zarr"
    damaged = (source / "data/bad/c0/0").read_bytes()
    (source / "data/bad/c0/0").write_bytes(sound_shard())
    assert run("migrate", source, destination).code == 0
    assert np.array_equal(read(destination / "bad"), GOOD)
    (source / "data/bad/c0/0").write_bytes(damaged)
    ran = run("verify", source, destination, "--full", "--json")
    assert ran.code == 1
    assert {(p.get("node"), p.get("key")) for p in json.loads(ran.out)["result"]["problems"]} == {
        ("bad", "data/bad/c0/0")
    }


@pytest.mark.parametrize("case", SHARDS[::3], ids=str)
def test_resume_finishes_once_the_shard_is_mended(case: BadCase, tmp_path: Path) -> None:
    source, destination = copied(case.path, tmp_path / "source.zarr"), tmp_path / "out.zarr"
    assert migrate(source, destination).code == 1
    (source / "data/bad/c0/0").write_bytes(sound_shard())
    assert run("resume", destination).code == 0
    assert np.array_equal(read(destination / "bad"), GOOD)


def test_resume_finishes_once_the_document_is_mended(tmp_path: Path) -> None:
    (case,) = (case for case in CASES if case.name == "array_truncated")
    source, destination = copied(case.path, tmp_path / "source.zarr"), tmp_path / "out.zarr"
    assert migrate(source, destination).code == 1
    shutil.copy(source / "meta/good.array.json", source / "meta/bad.array.json")
    assert run("resume", destination).code == 0
    assert np.array_equal(read(destination / "bad"), GOOD)
    assert (destination / "zarr.json").is_file()


def sound_shard() -> bytes:
    """The shard that the damaged ones of the fixtures were meant to be."""
    import gzip

    chunks = [gzip.compress(GOOD[3 * i : 3 * i + 3].tobytes(), 1) for i in range(2)]
    places = [(0, len(chunks[0])), (len(chunks[0]), len(chunks[1]))]
    return b"".join(chunks) + np.array(places, "<u8").tobytes()
