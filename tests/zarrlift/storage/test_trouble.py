"""Stores over broken lines, processes that do not live to the end, and how much memory it takes."""

from __future__ import annotations

import random
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from tests.support.damaged_archives import PEAK, python
from tests.zarrlift.storage.conftest import files, fill
from zarr.storage import MemoryStore, WrapperStore

import zarrlift
from zarrlift import ArrayRecipe, Recipe

KILLER = Path(__file__).parents[1] / "jobs" / "faults" / "killed_run.py"
PATIENT = '[{"name": "retry", "configuration": {"first": 0}}]'


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hundred chunks."""
    path = tmp_path_factory.mktemp("numbers") / "old.zarr"
    array = zarr.create_array(
        path, name="a", shape=(40, 50), chunks=(4, 5), dtype="<i4", compressors=None, zarr_format=2
    )
    array[:] = np.arange(2000).reshape(40, 50)
    return path


class Flaky(WrapperStore[MemoryStore]):
    """A store over a line that breaks at the first request for each key."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store)
        self.seen: set[tuple[str, str]] = set()

    def with_read_only(self, read_only: bool = False) -> Any:
        return self

    def _line(self, what: str, key: str) -> None:
        if key[-1].isdigit() and (what, key) not in self.seen:
            self.seen.add((what, key))
            raise ConnectionResetError("the line is broken")

    async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
        self._line("get", key)
        return await super().get(key, prototype, byte_range)

    async def set(self, key: str, value: Any) -> None:
        self._line("set", key)
        await super().set(key, value)


@pytest.mark.parametrize("through", [None, PATIENT], ids=["store", "retry"])
@pytest.mark.parametrize("wish", [{}, {"shards": "2x"}, {"chunks": "8,5"}], ids=str)
@pytest.mark.parametrize("end", ["source", "destination"])
@pytest.mark.slow(one_in=20)
def test_what_a_broken_line_lost_is_asked_for_again(
    end: str, wish: dict[str, Any], through: str | None, numbers: Path, tmp_path: Path
) -> None:
    there = Flaky(fill(MemoryStore(), numbers) if end == "source" else MemoryStore())
    ends = (there, tmp_path / "new.zarr") if end == "source" else (numbers, there)
    layers: dict[str, Any] = {"source_through" if end == "source" else "dest_through": through}
    recipe, job = Recipe(base=ArrayRecipe(**wish)), tmp_path / "job.db"
    outcome = zarrlift.migrate(*ends, recipe=recipe, verify="none", job=job, **layers)
    assert outcome.ok, outcome.problems
    assert there.seen
    place = tmp_path / "new.zarr" if end == "source" else there._store
    assert (zarr.open_array(place, path="a", mode="r")[:].ravel() == np.arange(2000)).all()


@pytest.mark.slow(one_in=7)
@pytest.mark.parametrize("wish", [(), ("--chunks", "8,5")], ids=["recode", "regrid"])
@pytest.mark.parametrize("seed", range(3))
def test_a_kill_while_objects_are_on_their_way_loses_none(
    seed: int, wish: tuple[str, ...], numbers: Path, tmp_path: Path
) -> None:
    wish = (*wish, "--codecs", "zstd:1")
    assert zarrlift.migrate(numbers, tmp_path / "right.zarr", recipe=recipe_of(wish)).ok
    place, job = f"local://{tmp_path}/out.zarr", tmp_path / "job.db"
    arguments = ["migrate", str(numbers), place, "--job", str(job), "--verify", "none", *wish]
    moment = random.Random(seed).randint(20, 90)
    folder = str(tmp_path / "out.zarr")
    killed = subprocess.run(
        [sys.executable, str(KILLER), str(moment), folder, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert not (tmp_path / "out.zarr/a/zarr.json").exists()
    again = zarrlift.resume(job)
    assert again.ok, again.problems
    assert files(tmp_path / "out.zarr") == files(tmp_path / "right.zarr")


def recipe_of(wish: tuple[str, ...]) -> Recipe:
    """The recipe that some options of the command are."""
    options = {name.removeprefix("--"): value for name, value in zip(wish[::2], wish[1::2], strict=True)}
    return Recipe(base=ArrayRecipe(**options))


@pytest.mark.slow
@pytest.mark.parametrize(
    "wish",
    [("--codecs", "zstd:1"), ("--shards", "4x"), ("--chunks", "1000,1000"), ("--chunks", "500,2000")],
    ids=" ".join,
)
def test_what_is_under_way_is_within_the_memory_that_is_allowed(
    wish: tuple[str, ...], tmp_path: Path
) -> None:
    """40 chunks of 4 MB, through a file system of fsspec's on both sides."""
    array = zarr.create_array(
        tmp_path / "old.zarr",
        name="a",
        shape=(8000, 5000),
        chunks=(1000, 1000),
        dtype="<i4",
        compressors=None,
        zarr_format=2,
    )
    array[:] = np.arange(40_000_000, dtype="<i4").reshape(8000, 5000)
    ends = (f"local://{tmp_path}/old.zarr", f"local://{tmp_path}/new.zarr")
    options = ("--memory", "256MB", "--verify", "none", "--job", str(tmp_path / "job.db"))
    done = subprocess.run(
        python("-c", PEAK, "migrate", *ends, *wish, *options),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(r"peak (\d+)", done.stderr)
    assert found is not None
    assert int(found[1]) << 20 <= 256_000_000
