"""Processes that share one folder, and are killed: never a wrong byte, never a wrong sample."""

from __future__ import annotations

import asyncio
import importlib.util
import multiprocessing
import os
import random
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from tests.support import cache_worker
from tests.support.stores import buffer, read
from zarr.storage import LocalStore

from zarrstack import stack
from zarrstack.layers.cache.layer import Cache

# Six processes of eight threads share one folder and are killed at random: never a wrong byte.


BUDGET = 150_000
"""Bytes; about 50 values of 3 KB, so that there is a good deal of evicting."""
PROCESSES = 6
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
    (tmp_path / "board").write_bytes(bytes(cache_worker.WORDS * 8))
    board = cache_worker.board(tmp_path)
    below = LocalStore(tmp_path / "below")

    async def fill() -> None:
        for key in range(cache_worker.KEYS):
            await below.set(f"a/c/{key}", buffer(cache_worker.value(key, 0)))

    asyncio.run(fill())
    tier, most = tmp_path / "tier", 0
    chance = random.Random(3)

    def start(number: int) -> subprocess.Popen[bytes]:
        words = [sys.executable, cache_worker.__file__, str(tmp_path), str(number), str(BUDGET)]
        with (tmp_path / "errors").open("ab") as errors:
            return subprocess.Popen(words, stderr=errors)

    def operations(number: int) -> int:
        first = cache_worker.OPERATIONS + number * cache_worker.THREADS
        return sum(board[first : first + cache_worker.THREADS])

    running = [start(number) for number in range(PROCESSES)]
    try:
        for _ in range(KILLS):
            number = chance.randrange(PROCESSES)
            enough = operations(number) + BETWEEN + chance.randrange(BETWEEN)
            while operations(number) < enough and board[cache_worker.WRONG] == 0:
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
    assert most <= BUDGET + PROCESSES * cache_worker.MOST

    # What the dead left behind is found, counted and true; with room for all, whatever their versions.
    roomy = 2 * cache_worker.KEYS * cache_worker.MOST

    async def look() -> None:
        store = Cache(below, disk=tier, disk_bytes=roomy)
        for key in range(cache_worker.KEYS):
            name = f"a/c/{key}"
            assert await read(store, name) == await read(below, name)
        assert store.figures().disk_bytes == size(tier)
        store.close()
        again = Cache(below, disk=tier, disk_bytes=roomy)
        for key in range(cache_worker.KEYS):
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
    assert "\ndocs/transformers/loader-example/patches.py\n" in (DOCS / "cache.md").read_text()
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


# Workers that read a dataset as those of a DataLoader do: each receives it once, and then numbers.


def serve(dataset: Any, parent: Connection) -> None:
    """Answer numbers with samples, until the parent is gone."""
    signal.alarm(300)  # a worker that hangs ends, and its loader with it
    try:
        while True:
            parent.send(dataset[parent.recv()])
    except EOFError:
        return


class Worker:
    """A process with a dataset, and the sample that it was asked for."""

    def __init__(self, context: Any, dataset: Any) -> None:
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(dataset, theirs), daemon=True)
        self.process.start()
        theirs.close()
        self.number: int | None = None

    def kill(self) -> None:
        self.process.kill()
        self.process.join()
        assert self.process.exitcode == -signal.SIGKILL
        self.pipe.close()


class Loader:
    """Some workers; one that is killed is replaced, and its sample asked for again."""

    def __init__(self, context: BaseContext, dataset: Any, count: int) -> None:
        self.context, self.dataset, self.asked = context, dataset, 0
        self.workers = [Worker(context, dataset) for _ in range(count)]

    def epoch(self, order: Sequence[int], kills: Collection[int] = ()) -> Iterator[tuple[int, Any]]:
        """Number and sample, in the order of arrival; kill a worker that has one of these requests."""
        todo = deque(order)
        while todo or any(worker.number is not None for worker in self.workers):
            for place, worker in enumerate(self.workers):
                if worker.number is None and todo:
                    worker.number = todo.popleft()
                    worker.pipe.send(worker.number)
                    self.asked += 1
                    if self.asked in kills:
                        todo.append(worker.number)
                        worker.kill()
                        self.workers[place] = Worker(self.context, self.dataset)
            pipes = {worker.pipe: worker for worker in self.workers if worker.number is not None}
            for pipe in wait(list(pipes)):
                worker = pipes[pipe]
                number, worker.number = worker.number, None
                yield number, pipe.recv()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop all workers wherever they are."""
        processes = [worker.process.pid for worker in self.workers]
        for process in processes:
            os.kill(process, signal.SIGSTOP)
            assert os.WIFSTOPPED(os.waitpid(process, os.WUNTRACED)[1])
        yield
        for process in processes:
            os.kill(process, signal.SIGCONT)

    def close(self) -> None:
        for worker in self.workers:
            worker.kill()
