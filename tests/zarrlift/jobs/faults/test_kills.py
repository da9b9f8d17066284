"""A copy that is killed, wherever Python runs: readers see whole arrays, and `resume` gives the same bytes.

`killed_run` kills it for real before a change to the destination, `lives.py` before any call of the system.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.job_archives import tree, write_archive
from tests.support.unpacking import unpacked

import zarrlift
from zarrstack.system.this import system

RUNNER = Path(__file__).with_name("killed_run.py")
MOMENTS = int(os.environ.get("ZARRLIFT_KILLS", "3"))
KILLED = {-9, 15}
"""Exit codes of POSIX and of Windows."""
NOTHING_LEFT = {"nothing to do"} if system.boot() else {"nothing to do", "done"}
"""Without an id of the boot, `resume` compares what may not have been flushed."""


def run_and_kill(moment: int, directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(RUNNER), str(moment), str(directory), *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


def in_part(number: int, parts: int, changes: int) -> int:
    """One of so many changes, at random in one of as many equal parts of a run: each phase is met."""
    return random.Random(number).randint(changes * number // parts + 1, changes * (number + 1) // parts)


def assert_whole_where_visible(destination: Path, reference: dict[str, bytes]) -> None:
    """Whoever sees an array's zarr.json sees every one of its chunks."""
    for document in destination.rglob("zarr.json"):
        if json.loads(document.read_bytes())["node_type"] != "array":
            continue
        prefix = document.parent.relative_to(destination).as_posix()
        for name, content in reference.items():
            if name.startswith(f"{prefix}/"):
                assert (destination / name).read_bytes() == content, name


@pytest.fixture(scope="module", params=["described", "passed through"])
def source(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("kill") / "source.zarr"
    if request.param == "passed through":
        return Path(shutil.copytree(unpacked("zarr_v3/extensions/by_hand.zarr"), path))
    return write_archive(path)


@pytest.fixture(scope="module")
def reference(source: Path) -> tuple[dict[str, bytes], int]:
    """The uninterrupted result, and how many changes a run makes."""
    directory = source.parent / "uninterrupted"
    directory.mkdir()
    done = run_and_kill(0, directory, "migrate", str(source), str(directory / "out.zarr"))
    assert done.returncode == 0, done.stderr
    return tree(directory / "out.zarr"), int(done.stderr.split()[-1])


@pytest.mark.parametrize("seed", range(MOMENTS))
@pytest.mark.slow(one_in=7)
def test_a_killed_copy_resumes_to_the_same_bytes(
    seed: int, source: Path, reference: tuple[dict[str, bytes], int], tmp_path: Path, destination: Path
) -> None:
    expected, changes = reference
    moment = in_part(seed, MOMENTS, changes)
    killed = run_and_kill(moment, tmp_path, "migrate", str(source), str(destination))
    assert killed.returncode in KILLED
    assert_whole_where_visible(destination, expected)
    if not destination.with_name("out.zarr.zarrlift.db").exists():
        outcome = zarrlift.migrate(source, destination)  # killed before there was a job
    else:
        outcome = zarrlift.resume(destination)
    assert outcome.ok, outcome.problems
    assert tree(destination) == expected
    again = zarrlift.resume(destination)
    assert again.state in NOTHING_LEFT
