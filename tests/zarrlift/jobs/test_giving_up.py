"""What is interrupted ends at once, whatever its threads wait for, and is resumed."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from concurrent.futures import Future
from pathlib import Path

import numpy as np
import pytest
import zarr
from tests.support.job_archives import tree
from tests.support.job_processes import ctrl_c
from zarr.storage import MemoryStore

import zarrlift
from zarrlift.storage.bandwidth import Bandwidth
from zarrlift.storage.giving_up import Stop, Threads, check, result_of
from zarrlift.storage.open_storage import open_storage
from zarrstack.system.clock import Clock

CHUNKS, SIZE = 16, 1000


class NeverEnough(Clock):
    """A clock under which no wait for a limit ever ends; Ctrl-C comes with the wait of this number."""

    def __init__(self, number: int = 1) -> None:
        self._left = number

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = None  # type: ignore[assignment]

    async def sleep(self, seconds: float) -> None:
        self._left -= 1
        if self._left > 0:
            return  # how many wait at the same time depends on the machine
        if self._left == 0:
            ctrl_c()
        await asyncio.Event().wait()


def source(folder: Path) -> Path:
    array = zarr.create_array(
        folder, shape=(CHUNKS * SIZE,), chunks=(SIZE,), dtype="u1", zarr_format=2, compressors=None
    )
    array[:] = np.random.default_rng(0).integers(0, 255, CHUNKS * SIZE, dtype="u1")
    return folder


RECIPES = {
    "copy": None,
    "recode": zarrlift.ArrayRecipe(codecs="zstd:1"),
    "a large shard": zarrlift.ArrayRecipe(shards=(CHUNKS,)),
    "regrid": zarrlift.ArrayRecipe(chunks=(500,), shards=(2 * CHUNKS,)),
}


@pytest.mark.parametrize(("name", "number"), [*zip(RECIPES, (1, 2, 1, 2), strict=True)])
def test_waits_for_a_limit_end_with_ctrl_c(name, number, tmp_path):
    old, new = source(tmp_path / "old"), tmp_path / "new"
    base = RECIPES[name]
    recipe = None if base is None else zarrlift.Recipe(base=base)
    limit = Bandwidth(2 * SIZE, NeverEnough(number))
    with pytest.raises(zarrlift.Interrupted):
        zarrlift.migrate(old, new, recipe=recipe, workers=2, bwlimit=limit)
    whole = {f"c/{chunk}": SIZE for chunk in range(CHUNKS)}
    found = {
        each.relative_to(new).as_posix(): each.stat().st_size for each in new.rglob("*") if each.is_file()
    }
    assert name in ("copy", "recode") or not found  # the others make one object
    assert found.keys() <= whole.keys()
    assert zarrlift.resume(new, bwlimit="off").raise_for_problems().state == "done"
    zarrlift.migrate(old, tmp_path / "calm", recipe=recipe)
    assert tree(new) == tree(tmp_path / "calm")


def test_waits_for_a_limit_end_where_the_destination_is_a_store(tmp_path):
    old, store = source(tmp_path / "old"), MemoryStore()
    limit = Bandwidth(2 * SIZE, NeverEnough())
    job = tmp_path / "job.zarrlift.db"
    with pytest.raises(zarrlift.Interrupted):
        zarrlift.migrate(old, store, job=job, bwlimit=limit)
    assert not any("zarr.json" in key or "/c/" in key for key in store._store_dict)
    zarrlift.migrate(old, store, job=job, bwlimit="off").raise_for_problems()
    assert np.array_equal(zarr.open_array(store)[:], zarr.open_array(old)[:])


def test_archives_side_by_side_end_together(tmp_path):
    for name in ("a", "b", "c"):
        source(tmp_path / "in" / name)
    limit = Bandwidth(2 * SIZE, NeverEnough(2))
    words = str(tmp_path / "in" / "*")
    with pytest.raises(KeyboardInterrupt):
        zarrlift.batch(words, to=str(tmp_path / "out/{relative}"), workers=2, bwlimit=limit)
    batch = zarrlift.batch(words, to=str(tmp_path / "out/{relative}"), bwlimit="off")
    batch.outcome.raise_for_problems()
    for name in ("a", "b", "c"):
        assert np.array_equal(
            zarr.open_array(tmp_path / "out" / name)[:], zarr.open_array(tmp_path / "in" / name)[:]
        )


def test_a_verification_ends_with_ctrl_c(tmp_path):
    old, new = source(tmp_path / "old"), tmp_path / "new"
    zarrlift.migrate(old, new)
    with pytest.raises(KeyboardInterrupt):
        zarrlift.verify(old, new, full=True, workers=2, bwlimit=Bandwidth(SIZE, NeverEnough()))
    assert zarrlift.verify(old, new, full=True).ok


def test_ctrl_c_that_wakes_no_wait_ends_it():
    timer = threading.Timer(0.1, signal.raise_signal, [signal.SIGINT])  # another thread takes the signal
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        result_of(Future())


def test_a_pool_that_is_left_by_an_error_waits_for_nothing(tmp_path):
    """Requests that wait end, work done piece by piece ends at its next piece, and nothing else begins."""
    limited = Bandwidth(1, NeverEnough(-1)).over(open_storage(source(tmp_path / "old")), "source")
    begun, ended = threading.Barrier(3), []

    def read() -> None:
        begun.wait()
        try:
            limited.get("0")
        except BaseException as error:
            ended.append(type(error))
            raise

    def count() -> None:
        begun.wait()
        try:
            while True:
                check()
        except BaseException as error:
            ended.append(type(error))
            raise

    def run() -> None:
        with Threads(2, "test") as pool:
            for work in (read, count, read):
                pool.submit(work)
            begun.wait()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run()
    assert len(ended) == 2
    assert KeyboardInterrupt in ended


def test_a_stop_reaches_the_threads_of_those_who_heed_it():
    stop, running = Stop(), threading.Event()

    def count() -> None:
        running.set()
        while True:
            check()

    with stop.heeded(), Threads(1, "test") as pool:
        future = pool.submit(count)
        running.wait()
        stop.set()
        assert isinstance(future.exception(), KeyboardInterrupt)
    check()


BUSY = """
import ctypes, sys, threading
import zarrlift
def work(*args, **options):
    try:
        print("ready", flush=True)
        threading.Event().wait()
    finally:
        print("ready", flush=True)
        mutex = ctypes.create_string_buffer(64)
        for _ in range(2):  # the second one never returns, whatever signal comes
            ctypes.CDLL(None).pthread_mutex_lock(mutex)
zarrlift.migrate = work
from zarrlift.cli import main
sys.exit(main())
"""


def test_the_first_ctrl_c_is_announced_and_the_second_ends_a_busy_process():
    """Also while the main thread runs no bytecode, in which Python would call a handler."""
    process = subprocess.Popen(
        [sys.executable, "-c", BUSY, "migrate", "a", "b"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said == "zarrlift: Stopping: unfinished objects are given up. Ctrl-C again ends at once.\n"
