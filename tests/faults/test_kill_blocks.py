"""Killed while shards are written and chunks cut anew: no half shard is seen, `resume` ends the same."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest
import zarr
from chances import fewer
from faults.test_kill import assert_whole_where_visible, in_part, run_and_kill
from job_archives import tree

import zarrlift
from zarrstack.core.shard import IndexFormat, ShardIndex

pytestmark = pytest.mark.needs_reader("once")

OPTIONS = {
    "shards": ("--shards", "4,4"),
    "index at the start": ("--shards", "4,4", "--shard-index-location", "start", "--codecs", "none"),
    "chunks": ("--chunks", "9,11"),
    "chunks in shards": ("--chunks", "5,7", "--shards", "3x"),
}
COUNTS = {"shards": (4, 4), "index at the start": (4, 4), "chunks in shards": (3, 3)}
MOMENTS = fewer(6)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two arrays of some hundred chunks each, every seventh of which is missing."""
    path = tmp_path_factory.mktemp("kill-blocks") / "source.zarr"
    root = zarr.open_group(str(path), mode="w", zarr_format=2)
    for name in ("a", "b"):
        array = root.create_array(name, shape=(90, 70), chunks=(6, 7), dtype="<i4", compressors=None)
        array[...] = np.random.default_rng(5).integers(1, 99, (90, 70))
        for number, file in enumerate(sorted((path / name).glob("[0-9]*"))):
            if number % 7 == 0:
                file.unlink()
    return path


@pytest.fixture(scope="module", params=OPTIONS)
def case(request: pytest.FixtureRequest, source: Path) -> tuple[str, dict[str, bytes], int]:
    """Options by their name, the uninterrupted result, and how many changes a run makes."""
    directory = source.parent / request.param.replace(" ", "-")
    directory.mkdir()
    done = run_and_kill(
        0, directory, "migrate", str(source), str(directory / "out.zarr"), *OPTIONS[request.param]
    )
    assert done.returncode == 0, done.stderr
    made = tree(directory / "out.zarr")
    assert sum("/c/" in name for name in made) > 20
    return request.param, made, int(done.stderr.split()[-1])


@pytest.mark.parametrize("seed", range(MOMENTS))
def test_a_killed_run_resumes_to_the_same_bytes(
    seed: int, case: tuple[str, dict[str, bytes], int], source: Path, tmp_path: Path
) -> None:
    name, expected, changes = case
    destination = tmp_path / "out.zarr"
    moment = in_part(seed, MOMENTS, changes)
    killed = run_and_kill(moment, tmp_path, "migrate", str(source), str(destination), *OPTIONS[name])
    assert killed.returncode == -signal.SIGKILL
    assert_whole_where_visible(destination, expected)
    assert_no_half_shard(destination, name)
    recipe = zarrlift.Recipe(base=zarrlift.ArrayRecipe(**_fields(OPTIONS[name])))
    if not destination.with_name("out.zarr.zarrlift.db").exists():
        outcome = zarrlift.migrate(source, destination, recipe=recipe)  # killed before there was a job
    else:
        outcome = zarrlift.resume(destination)
    assert outcome.ok, outcome.problems
    assert tree(destination) == expected


def assert_no_half_shard(destination: Path, name: str) -> None:
    """Every object under a key of its own is whole: its index is there and fits."""
    if name not in COUNTS:
        return
    form = IndexFormat(location="start" if name == "index at the start" else "end")
    for array in ("a", "b"):
        for file in (destination / array / "c").rglob("*"):
            if file.is_file():
                data = file.read_bytes()
                place = form.place(COUNTS[name], len(data))
                ShardIndex.from_bytes(data[place], COUNTS[name], form).check(len(data), form)


def _fields(words: tuple[str, ...]) -> dict[str, str]:
    names = (word.removeprefix("--").replace("-", "_") for word in words[::2])
    return dict(zip(names, words[1::2], strict=True))


def test_a_stopped_disk_is_no_half_shard(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full while the third shard is renamed into place; with room again, `resume` goes on."""
    recipe = zarrlift.Recipe(base=zarrlift.ArrayRecipe(chunks="5,7", shards="3x"))
    assert zarrlift.migrate(source, tmp_path / "whole", recipe=recipe).ok
    real, left = os.replace, [3]

    def replace(before: str, after: str) -> None:
        if "/c/" in str(after):
            left[0] -= 1
            if left[0] <= 0:
                raise OSError(28, "No space left on device")
        real(before, after)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", replace)
        outcome = zarrlift.migrate(source, tmp_path / "new", recipe=recipe)
    assert outcome.state == "incomplete"
    assert {problem.kind for problem in outcome.problems} == {"storage"}
    assert zarrlift.resume(tmp_path / "new").ok
    assert tree(tmp_path / "new") == tree(tmp_path / "whole")
