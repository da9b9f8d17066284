"""Processes that share one folder, and are killed: never a wrong byte, never a wrong sample."""

from __future__ import annotations

import asyncio
import importlib.util
import multiprocessing
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import zarr
from tests.support import cache_worker as worker
from tests.support.counted import buffer, read
from tests.support.loaders import Loader
from zarr.storage import LocalStore

from zarrstack import stack
from zarrstack.layers.cache.layer import Cache

# Four processes of eight threads share one folder and are killed at random: never a wrong byte.


BUDGET = 150_000
"""Bytes; about 50 values of 3 KB, so that there is a good deal of evicting."""
PROCESSES = 4
KILLS = int(os.environ.get("ZARRLIFT_CACHE_KILLS", "6"))
BETWEEN = 150
"""Operations of the process to be killed between its start and its death, at least."""


def size(folder: Path) -> int:
    """Bytes in all files of a folder, as others see them."""
    total = 0
    for root, _, files in os.walk(folder):
        for name in files:
            try:
                total += os.stat(os.path.join(root, name)).st_size
            except FileNotFoundError:
                continue
    return total


@pytest.mark.slow
@pytest.mark.needs_reader("once")
def test_processes_that_are_killed_leave_no_wrong_byte_and_stay_within_budget(tmp_path) -> None:
    (tmp_path / "locks").mkdir()
    (tmp_path / "board").write_bytes(bytes(worker.WORDS * 8))
    board = worker.board(tmp_path)
    below = LocalStore(tmp_path / "below")

    async def fill() -> None:
        for key in range(worker.KEYS):
            await below.set(f"a/c/{key}", buffer(worker.value(key, 0)))

    asyncio.run(fill())
    tier, most = tmp_path / "tier", 0
    chance = random.Random(3)

    def start(number: int) -> subprocess.Popen[bytes]:
        words = [sys.executable, worker.__file__, str(tmp_path), str(number), str(BUDGET)]
        with (tmp_path / "errors").open("ab") as errors:
            return subprocess.Popen(words, stderr=errors)

    def operations(number: int) -> int:
        first = worker.OPERATIONS + number * worker.THREADS
        return sum(board[first : first + worker.THREADS])

    running = [start(number) for number in range(PROCESSES)]
    try:
        for _ in range(KILLS):
            number = chance.randrange(PROCESSES)
            enough = operations(number) + BETWEEN + chance.randrange(BETWEEN)
            while operations(number) < enough and board[worker.WRONG] == 0:
                most = max(most, size(tier))
                assert running[number].poll() is None, (tmp_path / "errors").read_text()
            running[number].kill()
            running[number].wait()
            running[number] = start(number)
    finally:
        for each in running:
            each.kill()
            each.wait()
    complaints = tmp_path / "complaints"
    assert not complaints.exists(), complaints.read_text()
    assert most <= BUDGET + PROCESSES * worker.MOST

    # What the dead left behind is found, counted and true; with room for all, whatever their versions.
    roomy = 2 * worker.KEYS * worker.MOST

    async def look() -> None:
        store = Cache(below, disk=tier, disk_bytes=roomy)
        for key in range(worker.KEYS):
            name = f"a/c/{key}"
            assert await read(store, name) == await read(below, name)
        assert store.figures().disk_bytes == size(tier)
        store.close()
        again = Cache(below, disk=tier, disk_bytes=roomy)
        for key in range(worker.KEYS):
            await read(again, f"a/c/{key}")
        assert again.figures().misses == 0

    asyncio.run(look())
    assert size(tier) <= roomy


# Workers of a data loader share one folder, are killed, and never return a wrong sample.


DOCS = Path(__file__).parents[4] / "docs" / "transformers"
IMAGES, SIDE = 60, 128
LIMIT = 600_000
"""Bytes on disk; the images take a million, so that every epoch writes and removes records."""


@pytest.fixture
def patches(monkeypatch):
    """The module that the page shows."""
    path = DOCS / "loader-example" / "patches.py"
    assert "\ndocs/transformers/loader-example/patches.py\n" in (DOCS / "data-loaders.md").read_text()
    spec = importlib.util.spec_from_file_location("patches", path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "patches", module)
    monkeypatch.syspath_prepend(path.parent)  # for children that are spawned
    spec.loader.exec_module(module)
    return module


def image(number: int) -> np.ndarray:
    return np.random.default_rng(number).integers(0, 256, (SIDE, SIDE), dtype="u1")


def bytes_below(folder: Path) -> int:
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
                    most = max(most, bytes_below(tier))
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
