"""Chunks that unpack to far more than they should: refused by name, within 200 MiB for the whole command."""

from __future__ import annotations

import bz2
import json
import lzma
import struct
import subprocess
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import zarr
from tests.support.damaged_archives import (
    PEAK,
    assert_good,
    measured,
    migrate,
    python,
    write_archive,
    write_array,
)
from tests.support.fixtures_index import bad_cases

from zarrlift.core.chain.chain import Chain
from zarrlift.core.codec_spec import CodecSpec
from zarrlift.core.codecs.pipeline import Pipeline
from zarrlift.core.data_types.v3 import DataType
from zarrlift.planning.chunk_checks import machine_memory
from zarrstack.core.errors import ChunkError

MIB = 1 << 20
MOST = 200
"""MiB; Python with numpy and zarr takes 60 to 140 of them."""


def zeros(size: int, wbits: int) -> bytes:
    """A deflate stream of so many zero bytes, made without ever holding them."""
    packer, piece = zlib.compressobj(9, zlib.DEFLATED, wbits), bytes(MIB)
    return b"".join([*(packer.compress(piece) for _ in range(size // MIB)), packer.flush()])


def lz4_header(size: int) -> bytes:
    return struct.pack("<I", size) + bytes(64)


BYTES: dict[str, tuple[Any, Callable[[], bytes]]] = {
    "gzip": ({"id": "gzip", "level": 1}, lambda: zeros(384 * MIB, 31)),
    "zlib": ({"id": "zlib", "level": 1}, lambda: zeros(384 * MIB, 15)),
    "bz2": ({"id": "bz2", "level": 9}, lambda: bz2.compress(bytes(256 * MIB))),
    "lzma": ({"id": "lzma", "preset": 1}, lambda: lzma.compress(bytes(256 * MIB), preset=1)),
    "zstd": ({"id": "zstd", "level": 1}, lambda: numcodecs.Zstd(1).encode(bytes(384 * MIB))),
    "lz4": ({"id": "lz4", "acceleration": 1}, lambda: lz4_header(2**31 - 1)),
}
JSON2 = numcodecs.JSON().get_config()
SHAPES: dict[str, dict[str, Any]] = {
    "numbers": {"dtype": "<i4"},
    "text": {"dtype": "|O", "filters": [{"id": "vlen-utf8"}], "fill_value": ""},
    "objects": {"dtype": "|O", "filters": [JSON2], "fill_value": ""},
}


@cache
def made(codec: str) -> bytes:
    """The bomb; made once."""
    return BYTES[codec][1]()


ONCE = pytest.mark.needs_reader("once")
"""What is done with the bytes does not depend on the libraries that unpack them, which differ at each end."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "shape", ["numbers", pytest.param("text", marks=ONCE), pytest.param("objects", marks=ONCE)]
)
@pytest.mark.parametrize("codec", BYTES)
def test_a_bomb_is_refused_before_it_fills_the_memory(codec: str, shape: str, tmp_path: Path) -> None:
    source = write_archive(tmp_path / "source.zarr")
    compressor, _ = BYTES[codec]
    write_array(source / "bad", {"0": made(codec)}, compressor=compressor, **SHAPES[shape])
    ran, peak = measured("migrate", source, tmp_path / "out.zarr")
    assert (ran.code, [(p["node"], p["key"]) for p in ran.refusals]) == (1, [("bad", "bad/0")])
    assert peak < MOST
    assert_good(tmp_path / "out.zarr")
    assert not (tmp_path / "out.zarr/bad/zarr.json").exists()


@pytest.mark.slow
@pytest.mark.needs_reader("once")
@pytest.mark.parametrize("case", [case for case in bad_cases() if "bomb" in case.name], ids=str)
def test_a_bomb_of_the_fixtures_stays_small(case: Any, tmp_path: Path) -> None:
    ran, peak = measured("migrate", case.path, tmp_path / "out.zarr")
    assert ran.code == 1
    assert peak < MOST


ABSURD: dict[str, dict[str, Any]] = {
    "raw": {},
    "gzip": {"compressor": {"id": "gzip", "level": 1}},
    "zlib, F order": {"compressor": {"id": "zlib", "level": 1}, "order": "F"},
    "delta": {"filters": [{"id": "delta", "dtype": "<i4"}]},
    "text": {"dtype": "|O", "filters": [{"id": "vlen-utf8"}], "fill_value": ""},
}


@pytest.mark.slow(one_in=5)
@pytest.mark.parametrize("members", ABSURD.values(), ids=ABSURD)
def test_a_chunk_beyond_any_memory_is_refused_in_the_plan(members: dict[str, Any], tmp_path: Path) -> None:
    source = write_archive(tmp_path / "source.zarr")
    tiny = {"0.0": zlib.compress(b"abcd")}
    write_array(source / "bad", tiny, shape=[10**7, 10**6], chunks=[10**7, 10**6], **members)
    ran, peak = measured("migrate", source, tmp_path / "out.zarr")
    assert ran.code == 1
    (problem,) = ran.refusals
    assert (problem["kind"], problem["node"], problem["key"]) == ("memory", "bad", "bad/.zarray")
    assert peak < MOST
    assert_good(tmp_path / "out.zarr")


@pytest.mark.slow
def test_a_sparse_array_of_10_to_the_18_elements_costs_what_is_stored(tmp_path: Path) -> None:
    source = write_archive(tmp_path / "source.zarr")
    write_array(source / "sparse", {"5.999999999": b"x"}, shape=[10**9, 10**9], chunks=[1, 1], dtype="|u1")
    ran, peak = measured("migrate", source, tmp_path / "out.zarr")
    assert ran.code == 0
    assert peak < MOST
    assert (tmp_path / "out.zarr/sparse/c/5/999999999").read_bytes() == b"x"


def test_absurd_chunks_without_any_stored_one_are_only_metadata(tmp_path: Path) -> None:
    source = write_archive(tmp_path / "source.zarr")
    write_array(source / "none", {}, shape=[10**15], chunks=[10**15])
    assert migrate(source, tmp_path / "out.zarr").code == 0
    document = json.loads((tmp_path / "out.zarr/none/zarr.json").read_text())
    assert document["shape"] == [10**15]


def test_text_that_was_meant_is_no_bomb() -> None:
    """A million empty strings compress a thousandfold and are read all the same."""
    pipeline = Pipeline(
        Chain((CodecSpec("vlen-utf8"), CodecSpec("zstd", {"level": 3}))), (10**6,), DataType("string")
    )
    values = np.full(10**6, "", dtype=object)
    assert pipeline.decode(pipeline.encode(values)).tolist() == values.tolist()
    few = Pipeline(Chain((CodecSpec("vlen-utf8"), CodecSpec("zstd", {"level": 3}))), (1,), DataType("string"))
    payload = few.encode(np.array(["a" * 100 * MIB], dtype=object))
    with pytest.raises(ChunkError, match="size that its chunk cannot have"):
        few.decode(payload)


def test_the_machine_says_how_much_memory_it_has() -> None:
    assert machine_memory() > 256 * MIB


# Shards and chunks larger than the memory that is allowed: the whole process stays within `--memory`.


MEMORY = 256 * 10**6
SHAPE = (96, 1024, 1024)
"""Of uint16: 201 MB in one shard, when it is asked for."""


@pytest.fixture(scope="module")
def planes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Zarr v2 array of 2 MB planes, not compressed."""
    path = tmp_path_factory.mktemp("memory") / "planes.zarr"
    array = zarr.create_array(
        path, shape=SHAPE, chunks=(1, 1024, 1024), dtype="<u2", compressors=None, zarr_format=2
    )
    rng = np.random.default_rng(4)
    for number in range(SHAPE[0]):
        array[number] = rng.integers(0, 1 << 16, SHAPE[1:], dtype="u2")
    return path


def peak(*words: str | Path) -> int:
    """The most bytes that the work took; checks that read results back have a process of their own."""
    done = subprocess.run(
        python("-c", PEAK, "migrate", *words, "--memory", str(MEMORY), "--workers", "8"),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return int(done.stderr.rpartition("peak ")[2]) << 20


@pytest.mark.needs_reader("once")
@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        pytest.param(("--shards", "96,1,1"), id="one shard of all"),
        pytest.param(("--shards", "96,1,1", "--set", "shard-index-location=start"), id="index at the start"),
        pytest.param(("--chunks", "32,256,256", "--codecs", "none"), id="chunks"),
        pytest.param(
            ("--chunks", "8,128,128", "--shards", "12,8,8", "--codecs", "none"),
            id="one shard of other chunks",
        ),
    ],
)
def test_a_shard_is_never_held_and_values_no_more_than_is_allowed(
    options: tuple[str, ...], planes: Path, tmp_path: Path
) -> None:
    most = peak(planes, tmp_path / "new", *options)
    assert most < MEMORY
    before = zarr.open_array(planes, mode="r")
    after = zarr.open_array(tmp_path / "new", mode="r")
    for start in range(0, SHAPE[0], 32):
        assert np.array_equal(before[start : start + 32], after[start : start + 32])


@pytest.mark.needs_reader("once")
@pytest.mark.slow
def test_shards_come_apart_within_the_memory(planes: Path, tmp_path: Path) -> None:
    peak(planes, tmp_path / "one", "--shards", "96,1,1")
    assert peak(tmp_path / "one", tmp_path / "many", "--shards", "none") < MEMORY
    assert peak(tmp_path / "one", tmp_path / "other", "--shards", "7,1,1") < MEMORY
    assert peak(tmp_path / "one", tmp_path / "cut", "--chunks", "16,512,512", "--shards", "none") < MEMORY
    assert (tmp_path / "many/c/95/0/0").read_bytes() == (planes / "95.0.0").read_bytes()
