"""A job in parts over every route, and a calm run of the same."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import zarr
from tests.support.job_archives import tree, write_archive
from tests.zarrlift.transfer.test_regrid import leave

import zarrlift
from zarrlift.planning import planner
from zarrlift.planning.regrid.blocks import BASE, available_cores

ROOM = 20_000
"""Bytes of values at once: one pass would read every row many times."""
RECIPE = zarrlift.Recipe(
    sections=(
        ("rows", (("chunks", "-1,2"), ("shards", "none"))),
        ("sharded", (("shards", "2x"),)),
        ("regrid", (("chunks", "9,11"),)),
    )
)


@pytest.fixture(scope="session")
def all_routes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """relink, recode, rewrite, reframe, regrid, two passes, and nothing to move."""
    path = write_archive(tmp_path_factory.mktemp("parts") / "source.zarr")
    rng = np.random.default_rng(3)
    for name, shape, chunks in (
        ("rows", (400, 300), (1, 300)),
        ("sharded", (64, 64), (4, 4)),
        ("regrid", (40, 50), (8, 8)),
    ):
        array = zarr.create_array(
            path / name, shape=shape, chunks=chunks, dtype="<i4", compressors=None, zarr_format=2
        )
        array[...] = rng.integers(0, 99, shape)
    return path


@pytest.fixture
def source(all_routes: Path, tmp_path: Path) -> Path:
    """A copy, which a test may change."""
    return Path(shutil.copytree(all_routes, tmp_path / "source.zarr"))


def tighten(monkeypatch: pytest.MonkeyPatch) -> None:
    leave(ROOM, monkeypatch)
    monkeypatch.setattr(planner, "memory_budget", lambda _: BASE + 8 * available_cores() * ROOM)


@pytest.fixture
def tight(monkeypatch: pytest.MonkeyPatch) -> None:
    tighten(monkeypatch)


@pytest.fixture(scope="session")
def calm(all_routes: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What one process makes of it."""
    result = tmp_path_factory.mktemp("calm") / "calm.zarr"
    with pytest.MonkeyPatch.context() as monkeypatch:
        tighten(monkeypatch)
        assert zarrlift.migrate(all_routes, result, recipe=RECIPE).ok
    return tree(result)


@pytest.fixture
def planned(source: Path, tmp_path: Path, tight: None) -> Callable[..., Path]:
    """Makes a job in parts, and gives its file."""

    def make(parts: int, **options: object) -> Path:
        job = tmp_path / "job.db"
        options = {"recipe": RECIPE, **options}
        zarrlift.plan_parts(source, tmp_path / "out.zarr", job=job, parts=parts, **options)  # type: ignore[arg-type]
        return job

    return make
