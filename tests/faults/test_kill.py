"""Killed at any instant, resumed any number of times: the result equals that of an uninterrupted run.

Each test walks through moments of a migration at which a process can die (see
`killed_run`), kills it there for real, looks at what a reader of the destination would
see, and lets `resume` finish the work.
"""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import zarr
from chances import fewer
from job_archives import OTHERS, other_archive, tree, write_archive

import zarrlift

pytestmark = pytest.mark.needs_reader("once")

RUNNER = Path(__file__).with_name("killed_run.py")
MOMENTS = fewer(12)


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
        prefix = str(document.parent.relative_to(destination))
        for name, content in reference.items():
            if name.startswith(f"{prefix}/"):
                assert (destination / name).read_bytes() == content, name


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("kill") / "source.zarr"
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
def test_a_killed_copy_resumes_to_the_same_bytes(
    seed: int, source: Path, reference: tuple[dict[str, bytes], int], tmp_path: Path
) -> None:
    expected, changes = reference
    destination = tmp_path / "out.zarr"
    moment = in_part(seed, MOMENTS, changes)
    killed = run_and_kill(moment, tmp_path, "migrate", str(source), str(destination))
    assert killed.returncode == -signal.SIGKILL
    assert_whole_where_visible(destination, expected)
    if not destination.with_name("out.zarr.zarrlift.db").exists():
        outcome = zarrlift.migrate(source, destination)  # killed before there was a job
    else:
        outcome = zarrlift.resume(destination)
    assert outcome.ok, outcome.problems
    assert tree(destination) == expected
    again = zarrlift.resume(destination)
    assert again.state == "nothing to do"


def test_killed_again_and_again(
    source: Path, reference: tuple[dict[str, bytes], int], tmp_path: Path
) -> None:
    expected, changes = reference
    destination = tmp_path / "out.zarr"
    rng = random.Random(99)
    run_and_kill(changes // 3, tmp_path, "migrate", str(source), str(destination))
    for _ in range(3):
        run_and_kill(rng.randint(1, changes // 3), tmp_path, "resume", str(destination))
        assert_whole_where_visible(destination, expected)
    assert zarrlift.resume(destination).arrays_done == 4
    assert tree(destination) == expected


@pytest.mark.parametrize("seed", range(4))
def test_in_place_a_kill_never_shows_half_a_hierarchy(seed: int, source: Path, tmp_path: Path) -> None:
    place = tmp_path / "archive.zarr"
    shutil.copytree(source, place)
    before = zarr.open_group(str(place), mode="r", zarr_format=2)["g/relink"][...]
    moment = random.Random(seed).randint(1, 12)
    run_and_kill(moment, tmp_path, "migrate", str(place), "--in-place")
    if (place / "zarr.json").exists():
        assert zarr.open_group(str(place), mode="r", zarr_format=3)["g/relink"][...].shape == (60, 70)
    assert np.array_equal(zarr.open_group(str(place), mode="r", zarr_format=2)["g/relink"][...], before)
    outcome = zarrlift.migrate(place, in_place=True)
    assert outcome.ok, outcome.problems
    assert np.array_equal(zarr.open_group(str(place), mode="r", zarr_format=3)["g/relink"][...], before)


@pytest.mark.parametrize("format", OTHERS)
def test_a_killed_copy_of_another_format_resumes_to_the_same_bytes(format: str, tmp_path: Path) -> None:
    source = other_archive(format, tmp_path / "source")
    destination, reference = tmp_path / "killed/out.zarr", tmp_path / "whole/out.zarr"
    for place in (destination, reference):
        place.parent.mkdir()
    done = run_and_kill(0, reference.parent, "migrate", str(source), str(reference))
    assert done.returncode == 0, done.stderr
    changes = int(done.stderr.split()[-1])
    killed = run_and_kill(changes // 2, destination.parent, "migrate", str(source), str(destination))
    assert killed.returncode == -signal.SIGKILL
    assert_whole_where_visible(destination, tree(reference))
    assert zarrlift.resume(destination).ok
    assert tree(destination) == tree(reference)
    assert zarrlift.verify(source, destination, full=True).ok
