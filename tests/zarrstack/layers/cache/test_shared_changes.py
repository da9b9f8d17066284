"""Processes that share a cache folder never read a value older than one whose `set` had returned."""

from __future__ import annotations

import asyncio
import os
import struct
from multiprocessing import get_context

import pytest
from tests.support.stores import buffer, read
from zarr.storage import LocalStore

from zarrstack import Cache

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="not everywhere: it forks")
FORK = get_context("fork")
KEYS, ROUNDS = 6, 40


def cache_over(store, folder):
    return Cache(store, disk=folder / "tier", disk_bytes=200_000, source="x")


def content(key, version):
    return struct.pack("<II", key, version) * 500


def write(folder, keys, begun, ended):
    """Write rising versions of some keys, and say before and after each which one it is."""
    store = cache_over(LocalStore(folder / "store"), folder)

    async def body():
        for version in range(1, ROUNDS + 1):
            for key in keys:
                begun[key] = version
                await store.set(f"v/{key}", buffer(content(key, version)))
                ended[key] = version

    asyncio.run(body())
    store.close()


def check(folder, begun, ended, done, wrong):
    """Read until the writers have ended; a version is wrong that is older than one that was stored before."""
    store = cache_over(LocalStore(folder / "store"), folder)

    async def body():
        last = False
        while not last:
            last = done.is_set()
            for key in range(KEYS):
                stored = ended[key]
                data = await read(store, f"v/{key}")
                version = 0 if data is None else struct.unpack_from("<II", data)[1]
                if (data or content(key, 0)) != content(key, version) or not stored <= version <= begun[key]:
                    wrong.value += 1

    asyncio.run(body())
    hits = store.figures().hits
    store.close()
    os._exit(0 if hits else 2)


class Stops(LocalStore):
    """Stops between fetching a value and returning it."""

    async def get(self, key, *more, **options):
        value = await super().get(key, *more, **options)
        self.line.send("fetched")
        self.line.recv()
        return value


def read_slowly(folder, line):
    below = Stops(folder / "store")
    below.line = line
    store = cache_over(below, folder)
    line.send(asyncio.run(read(store, "v/0")))
    store.close()


def started(target, *given):
    process = FORK.Process(target=target, args=given)
    process.start()
    return process


def ended_well(process):
    process.join()
    return process.exitcode == 0


@pytest.mark.parametrize("changes", [1, 2])
def test_what_a_stopped_reader_fetched_is_not_served_after_a_change(tmp_path, changes):
    asyncio.run(LocalStore(tmp_path / "store").set("v/0", buffer(content(0, 1))))
    mine, its = FORK.Pipe()
    reader = started(read_slowly, tmp_path, its)
    assert mine.recv() == "fetched"
    for _ in range(changes):
        begun, ended = FORK.Array("Q", KEYS), FORK.Array("Q", KEYS)
        assert ended_well(started(write, tmp_path, [0], begun, ended))
    mine.send("go on")
    assert mine.recv() == content(0, 1), "it was fetched before the change"
    assert ended_well(reader)
    line, other = FORK.Pipe()
    last = started(_read_into, tmp_path, other)
    assert line.recv() == content(0, ROUNDS)
    assert ended_well(last)


def _read_into(folder, line):
    line.send(asyncio.run(read(cache_over(LocalStore(folder / "store"), folder), "v/0")))


def test_two_writers_and_four_readers_see_no_old_value(tmp_path):
    begun, ended = FORK.Array("Q", KEYS), FORK.Array("Q", KEYS)
    done, wrong = FORK.Event(), FORK.Value("Q", 0)
    readers = [started(check, tmp_path, begun, ended, done, wrong) for _ in range(4)]
    writers = [started(write, tmp_path, range(first, KEYS, 2), begun, ended) for first in range(2)]
    codes = [ended_well(each) for each in writers]
    done.set()
    codes += [ended_well(each) for each in readers]
    assert codes == [True] * 6
    assert wrong.value == 0
