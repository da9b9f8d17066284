"""Chunks of several zstd frames or gzip members: found in a sample, encoded again, kept on request."""

from __future__ import annotations

import gzip
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorstore
import zarr
import zstandard
from tests.support.reader_cases import LITTLE, Case, checked, codec, sharded
from tests.support.v2_trees import array, tree

import zarrlift
from zarrlift.recipe.recipe import ArrayRecipe, Recipe

RAW = np.arange(32, dtype="<i4").tobytes()
SKIPPABLE = struct.pack("<II", 0x184D2A50, 4) + b"size"
zstd: Callable[[bytes], bytes] = zstandard.ZstdCompressor().compress
unsized: Callable[[bytes], bytes] = zstandard.ZstdCompressor(write_content_size=False).compress
SEVERAL = {
    "two frames": ("zstd", zstd(RAW[:64]) + zstd(RAW[64:])),
    "frames of other lengths": ("zstd", zstd(RAW[:24]) + zstd(RAW[24:])),
    "frames without a size": ("zstd", unsized(RAW[:24]) + unsized(RAW[24:])),
    "skippable frame first": ("zstd", SKIPPABLE + zstd(RAW)),
    "empty frame first": ("zstd", zstd(b"") + zstd(RAW)),
    "skippable frame between": ("zstd", zstd(RAW[:64]) + SKIPPABLE + zstd(RAW[64:])),
    "two members": ("gzip", gzip.compress(RAW[:24]) + gzip.compress(RAW[24:])),
    "empty member first": ("gzip", gzip.compress(b"") + gzip.compress(RAW)),
    "empty member last": ("gzip", gzip.compress(RAW) + gzip.compress(b"")),
}
SINGLE = {
    "one frame": ("zstd", zstd(RAW)),
    "skippable frame last": ("zstd", zstd(RAW) + SKIPPABLE),
    "empty frame last": ("zstd", zstd(RAW) + zstd(b"")),
    "one member": ("gzip", gzip.compress(RAW)),
}


def written(root: Path, name: str, payload: bytes, **changes: Any) -> Path:
    """An archive of one array with one chunk."""
    document = array(shape=[32], chunks=[32], compressor={"id": name, "level": 3}, **changes)
    tree(root, {".zgroup": {"zarr_format": 2}, "x/.zarray": document, "x/0": payload})
    return root


def read_by_both(place: Path) -> list[bytes]:
    """The values by zarr-python and by tensorstore."""
    store = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(place)}}
    return [
        np.asarray(zarr.open_array(place, mode="r")[...]).tobytes(),
        tensorstore.open(store).result().read().result().tobytes(),
    ]


@pytest.mark.parametrize(("name", "payload"), SEVERAL.values(), ids=SEVERAL)
def test_an_array_whose_chunks_have_several_streams_is_encoded_again(
    name: str, payload: bytes, tmp_path: Path
) -> None:
    source, target = written(tmp_path / "a.zarr", name, payload), tmp_path / "b.zarr"
    (planned,) = zarrlift.plan(source, target).arrays
    assert planned.route.name == "recode"
    assert any("several streams" in str(problem) for problem in planned.problems)
    assert zarrlift.migrate(source, target, verify="full").ok
    assert read_by_both(target / "x") == [RAW, RAW]
    assert zarrlift.verify(source, target, full=True).ok
    assert zarrlift.open(source)["x"][...].tobytes() == RAW


@pytest.mark.parametrize(("name", "payload"), SINGLE.values(), ids=SINGLE)
def test_what_tensorstore_reads_is_copied(name: str, payload: bytes, tmp_path: Path) -> None:
    source, target = written(tmp_path / "a.zarr", name, payload), tmp_path / "b.zarr"
    assert zarrlift.migrate(source, target, verify="full").ok
    assert (target / "x/c/0").read_bytes() == payload
    assert read_by_both(target / "x") == [RAW, RAW]


def test_frames_inside_a_checksum_and_in_shards_are_found(tmp_path: Path) -> None:
    def halves(chunk: Any) -> bytes:
        raw = chunk.tobytes()
        return checked(zstd(raw[:8]) + zstd(raw[8:]))

    codecs = [LITTLE, codec("zstd", level=3, checksum=False), codec("crc32c")]
    case = sharded(inner=(codecs, halves))
    case.write(tmp_path / "a.zarr")
    outcome = zarrlift.migrate(tmp_path / "a.zarr", tmp_path / "b.zarr", verify="full")
    assert outcome.ok
    assert read_by_both(tmp_path / "b.zarr") == [case.values.tobytes()] * 2
    assert zarrlift.verify(tmp_path / "a.zarr", tmp_path / "b.zarr", full=True).ok


@pytest.mark.parametrize("in_place", [False, True])
def test_kept_bytes_stay_with_a_warning_that_names_the_reader(in_place: bool, tmp_path: Path) -> None:
    payload = SEVERAL["two frames"][1]
    source = written(tmp_path / "a.zarr", "zstd", payload)
    target = source if in_place else tmp_path / "b.zarr"
    recipe = None if in_place else Recipe(base=ArrayRecipe(codecs="keep"))
    where: dict[str, Any] = {"in_place": True} if in_place else {"destination": target, "recipe": recipe}
    (planned,) = zarrlift.plan(source, **where).arrays
    (warned,) = (each for each in planned.problems if "several streams" in str(each))
    assert (warned.severity, "tensorstore refuses" in warned.message) == ("warning", True)
    assert zarrlift.migrate(source, **where).ok
    document = json.loads((target / "x/zarr.json").read_text())
    assert document["codecs"][-1]["name"] == "zstd"
    assert (target / ("x/0" if in_place else "x/c/0")).read_bytes() == payload
    assert np.asarray(zarr.open_array(target / "x", mode="r", zarr_format=3)[...]).tobytes() == RAW


def test_a_chunk_that_the_sample_missed_fails_its_task_with_the_way_out(tmp_path: Path) -> None:
    document = array(shape=[32 * 8], chunks=[32], compressor={"id": "zstd", "level": 3})
    chunks = {f"x/{number}": zstd(RAW) for number in range(8)}
    chunks["x/1"] = SEVERAL["two frames"][1]
    source = tmp_path / "a.zarr"
    tree(source, {".zgroup": {"zarr_format": 2}, "x/.zarray": document, **chunks})
    outcome = zarrlift.migrate(source, tmp_path / "b.zarr")
    assert not outcome.ok
    (problem,) = outcome.problems
    assert problem.key == "x/1"
    assert "several streams" in problem.message
    assert "--codecs zstd:3" in str(problem.advice)
    recipe = Recipe(base=ArrayRecipe(codecs="zstd:1"))
    assert zarrlift.migrate(source, tmp_path / "c.zarr", recipe=recipe, verify="full").ok
    assert read_by_both(tmp_path / "c.zarr/x") == [RAW * 8, RAW * 8]
    assert not zarrlift.verify(tmp_path / "c.zarr", full=True).problems  # its bytes are others


@pytest.mark.parametrize("name", ["zstd", "gzip"])
def test_a_full_verification_names_the_chunks_with_several_streams(name: str, tmp_path: Path) -> None:
    document = array(shape=[32 * 8], chunks=[32], compressor={"id": name, "level": 3})
    kind = "frame" if name == "zstd" else "member"
    one, two = SINGLE[f"one {kind}"][1], SEVERAL[f"two {kind}s"][1]
    chunks = {f"x/{number}": two if number == 1 else one for number in range(8)}
    tree(tmp_path, {".zgroup": {"zarr_format": 2}, "x/.zarray": document, **chunks})
    assert zarrlift.migrate(tmp_path, in_place=True).ok
    assert not zarrlift.verify(tmp_path).problems
    report = zarrlift.verify(tmp_path, full=True)
    assert (report.ok, report.differences) == (True, ())
    assert [(each.severity, each.key) for each in report.problems] == [("warning", "x/1")]


@pytest.mark.parametrize("bare", [{"name": "gzip"}, {"name": "gzip", "configuration": {}}, {"name": "zstd"}])
def test_a_codec_without_the_level_that_readers_require_keeps_its_chunks(
    bare: dict[str, Any], tmp_path: Path
) -> None:
    payload = SINGLE["one member" if bare["name"] == "gzip" else "one frame"][1]
    values = np.frombuffer(RAW, "<i4")
    Case(values=values, codecs=[LITTLE, bare], encode=lambda _: payload, names=("x",)).write(
        tmp_path / "a.zarr"
    )
    assert zarrlift.migrate(tmp_path / "a.zarr", tmp_path / "b.zarr", verify="full").ok
    document = json.loads((tmp_path / "b.zarr/zarr.json").read_text())
    assert document["codecs"][1]["name"] == bare["name"]
    assert (tmp_path / "b.zarr/c/0").read_bytes() == payload
    assert read_by_both(tmp_path / "b.zarr") == [RAW, RAW]
