"""Tiny chunks are moved by copies of the command's process: killed at any instant, nothing is lost either."""

from __future__ import annotations

import json
import random
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
from faults.test_kill import assert_whole_where_visible, run_and_kill
from job_archives import tree

import zarrlift

pytestmark = [
    pytest.mark.needs_reader("once"),
    pytest.mark.skipif(sys.platform != "linux", reason="not everywhere: only Linux forks here"),
]
SIDE = 50


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """2,500 chunks of a few bytes: as many as are worth a fork."""
    path = tmp_path_factory.mktemp("forked") / "source.zarr"
    path.mkdir()
    document = {
        "zarr_format": 2, "shape": [SIDE, SIDE], "chunks": [1, 1], "dtype": "<u2", "order": "C",
        "fill_value": 0, "compressor": None, "filters": None,
    }  # fmt: skip
    (path / ".zarray").write_text(json.dumps(document))
    for row in range(SIDE):
        for column in range(SIDE):
            (path / f"{row}.{column}").write_bytes(np.uint16(row * SIDE + column).tobytes())
    return path


@pytest.fixture(scope="module")
def expected(source: Path) -> dict[str, bytes]:
    """The result of threads, which a library uses."""
    destination = source.parent / "expected.zarr"
    assert zarrlift.migrate(source, destination).ok
    return tree(destination)


def migrate(moment: int, who: str, source: Path, destination: Path):
    words = ("--forked", who, "migrate", str(source), str(destination), "--workers", "2")
    return run_and_kill(moment, destination.parent, *words)


def test_two_workers_and_the_checks_are_forked(source, expected, tmp_path) -> None:
    done = migrate(0, "coordinator", source, tmp_path / "out.zarr")
    assert (done.returncode, done.stderr.split()[-1]) == (0, "3")
    assert tree(tmp_path / "out.zarr") == expected


@pytest.mark.parametrize("seed", range(4))
def test_copies_end_with_the_command_that_was_killed(seed: int, source, expected, tmp_path) -> None:
    destination = tmp_path / "out.zarr"
    moment = random.Random(seed).randint(50, 1500)
    # This waits for the copies too: they hold the other end of standard error.
    assert migrate(moment, "coordinator", source, destination).returncode == -signal.SIGKILL
    assert_whole_where_visible(destination, expected)
    assert zarrlift.resume(destination).ok
    assert tree(destination) == expected


def test_a_copy_that_dies_stops_the_run_which_can_be_resumed(source, expected, tmp_path) -> None:
    destination = tmp_path / "out.zarr"
    done = migrate(200, "itself", source, destination)
    assert done.returncode == 1
    assert "a worker died" in done.stdout + done.stderr
    assert zarrlift.resume(destination).ok
    assert tree(destination) == expected
