"""Workers of a data loader share one folder, are killed, and never return a wrong sample."""

from __future__ import annotations

import importlib.util
import multiprocessing
import random
import sys
from pathlib import Path

import numpy as np
import pytest
import zarr
from tests.support.loaders import Loader
from zarr.storage import LocalStore

from zarrstack import Cache, stack

DOCS = Path(__file__).parents[4] / "docs" / "transformers"
IMAGES, SIDE = 60, 128
LIMIT = 600_000
"""Bytes on disk; the images take a million, so that every epoch writes and removes records."""


@pytest.fixture
def patches(monkeypatch):
    """The module that the page shows."""
    path = DOCS / "loader-example" / "patches.py"
    assert path.read_text() in (DOCS / "data-loaders.md").read_text()
    spec = importlib.util.spec_from_file_location("patches", path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "patches", module)
    monkeypatch.syspath_prepend(path.parent)  # for children that are spawned
    spec.loader.exec_module(module)
    return module


def image(number: int) -> np.ndarray:
    return np.random.default_rng(number).integers(0, 256, (SIDE, SIDE), dtype="u1")


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("when_full", ["evict", "keep"])
@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_three_epochs_by_workers_of_which_three_are_killed(method, when_full, patches, tmp_path):
    below = LocalStore(tmp_path / "images.zarr")
    shape, chunks = (IMAGES, SIDE, SIDE), (1, SIDE, SIDE)
    zarr.create_array(below, shape=shape, chunks=chunks, dtype="u1", compressors=None)[:] = np.stack(
        [image(number) for number in range(IMAGES)]
    )
    tier = tmp_path / "tier"
    cache = Cache(memory_bytes=100_000, disk=tier, disk_bytes=LIMIT, when_full=when_full)
    dataset = patches.Patches(stack(below, cache))
    chance = random.Random(5)
    kills = chance.sample(range(10, 3 * IMAGES), 3)
    loader = Loader(multiprocessing.get_context(method), dataset, 2)
    wrong, most, seen = [], 0, []
    try:
        for _ in range(3):
            order = chance.sample(range(IMAGES), IMAGES)
            for number, sample in loader.epoch(order, kills):
                seen.append(number)
                with loader.paused():
                    most = max(most, size(tier))
                if not np.array_equal(sample, image(number)):
                    wrong.append(number)
    finally:
        loader.close()
    assert wrong == []
    assert sorted(seen) == sorted(3 * list(range(IMAGES)))
    assert loader.asked == 3 * IMAGES + 3
    assert 0.5 * LIMIT < most <= LIMIT
    assert all(np.array_equal(dataset[number], image(number)) for number in range(IMAGES))
    assert cache.figures().failure is None
    assert cache.figures().disk_hits > 0
