"""Shards and chunks larger than the memory that is allowed: the whole process stays within `--memory`."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
import zarr
from tests.support.damaged_archives import PEAK, python

pytestmark = pytest.mark.needs_reader("once")

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


@pytest.mark.slow
def test_shards_come_apart_within_the_memory(planes: Path, tmp_path: Path) -> None:
    peak(planes, tmp_path / "one", "--shards", "96,1,1")
    assert peak(tmp_path / "one", tmp_path / "many", "--shards", "none") < MEMORY
    assert peak(tmp_path / "one", tmp_path / "other", "--shards", "7,1,1") < MEMORY
    assert peak(tmp_path / "one", tmp_path / "cut", "--chunks", "16,512,512", "--shards", "none") < MEMORY
    assert (tmp_path / "many/c/95/0/0").read_bytes() == (planes / "95.0.0").read_bytes()
