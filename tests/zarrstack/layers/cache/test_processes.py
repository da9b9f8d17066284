"""Processes that share one folder, and are killed: never a wrong byte."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.support.stores import buffer, read
from tests.zarrstack.layers.cache import cache_worker
from zarr.storage import LocalStore

from zarrstack.layers.cache.layer import Cache

BUDGET = 80_000
"""Bytes; about 25 of the 40 values of 3 KB, so that there is a good deal of evicting and refusing."""
PROCESSES = 6
"""Of eight threads; every other one keeps what a full folder holds."""
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

    def paused_size() -> int:
        """Bytes in the folder with all processes stopped wherever they are."""
        for each in running:
            each.send_signal(signal.SIGSTOP)
        for each in running:
            assert os.WIFSTOPPED(os.waitpid(each.pid, os.WUNTRACED)[1]), (tmp_path / "errors").read_text()
        found = size(tier)
        for each in running:
            each.send_signal(signal.SIGCONT)
        return found

    running = [start(number) for number in range(PROCESSES)]
    try:
        for _ in range(KILLS):
            number = chance.randrange(PROCESSES)
            enough = operations(number) + BETWEEN + chance.randrange(BETWEEN)
            while operations(number) < enough and board[cache_worker.WRONG] == 0:
                assert running[number].poll() is None, (tmp_path / "errors").read_text()
                time.sleep(0.005)
            most = max(most, paused_size())
            running[number].kill()
            running[number].wait()
            running[number] = start(number)
    finally:
        for each in running:
            each.kill()
            each.wait()
    complaints = tmp_path / "complaints"
    assert not complaints.exists(), complaints.read_text()
    assert 0.25 * BUDGET < most <= BUDGET

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
