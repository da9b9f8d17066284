"""Tiny chunks are moved by copies of the command's process: killed at any instant, nothing is lost either."""

from __future__ import annotations

import random
import signal
import sys
from pathlib import Path

import pytest
from tests.support.job_archives import tree
from tests.zarrlift.jobs.faults.test_kill import assert_whole_where_visible, run_and_kill

import zarrlift

pytestmark = [
    pytest.mark.needs_reader("once"),
    pytest.mark.skipif(sys.platform != "linux", reason="not everywhere: only Linux forks here"),
]


def migrate(moment: int, who: str, source: Path, destination: Path):
    words = ("--forked", who, "migrate", str(source), str(destination), "--workers", "2")
    return run_and_kill(moment, destination.parent, *words)


@pytest.mark.slow
def test_two_workers_and_the_checks_are_forked(tiny, tiny_result, tmp_path) -> None:
    done = migrate(0, "coordinator", tiny, tmp_path / "out.zarr")
    assert (done.returncode, done.stderr.split()[-1]) == (0, "3")
    assert tree(tmp_path / "out.zarr") == tiny_result


@pytest.mark.slow(one_in=4)
@pytest.mark.parametrize("seed", range(4))
def test_copies_end_with_the_command_that_was_killed(seed: int, tiny, tiny_result, tmp_path) -> None:
    destination = tmp_path / "out.zarr"
    moment = random.Random(seed).randint(50, 1500)
    # This waits for the copies too: they hold the other end of standard error.
    assert migrate(moment, "coordinator", tiny, destination).returncode == -signal.SIGKILL
    assert_whole_where_visible(destination, tiny_result)
    assert zarrlift.resume(destination).ok
    assert tree(destination) == tiny_result


def test_a_copy_that_dies_stops_the_run_which_can_be_resumed(tiny, tiny_result, tmp_path) -> None:
    destination = tmp_path / "out.zarr"
    done = migrate(200, "itself", tiny, destination)
    assert done.returncode == 1
    assert "a worker died" in done.stdout + done.stderr
    assert zarrlift.resume(destination).ok
    assert tree(destination) == tiny_result
