"""A full cache that keeps what it holds: for data that is read in random order, epoch after epoch."""

from __future__ import annotations

import asyncio
import random
import threading

import numpy as np
import pytest
from tests.support.stores import PROTOTYPE, Counted, Hours, buffer, read
from zarr.buffer import cpu

from zarrstack.base.byte_ranges import immutable
from zarrstack.core.errors import UsageError
from zarrstack.layers.cache.layer import Cache

KEYS = [f"a/c/{number}" for number in range(100)]


def filled() -> Counted:
    return Counted({key: buffer(bytes(400)) for key in KEYS})


def epochs(store: Cache, count: int) -> None:
    """Read every key once per epoch, each time in another order."""
    order = random.Random(7)

    async def body():
        for _ in range(count):
            for key in order.sample(KEYS, len(KEYS)):
                await read(store, key)

    asyncio.run(body())


@pytest.mark.parametrize("tier", ["memory", "folder"])
def test_random_epochs_find_again_what_fits(tier, tmp_path) -> None:
    """zp#3357: the least recently used value is the one that the next epoch reads first."""

    def cache(below, when_full):
        where = {"memory_bytes": 51_000}  # room for half of the values
        if tier == "folder":
            where = {"memory_bytes": 0, "disk": tmp_path / when_full, "source": "x", "disk_bytes": 25_000}
        return Cache(below, when_full=when_full, **where)

    keeping = cache(filled(), "keep")
    epochs(keeping, 1)
    first = keeping.figures()
    held = 100 - first.refusals
    assert 30 <= held <= 60
    epochs(keeping, 4)
    figures = keeping.figures()
    assert figures.hits == 4 * held
    assert figures.evictions == 0
    evicting = cache(filled(), "evict")
    epochs(evicting, 5)
    assert evicting.figures().hits < figures.hits
    assert evicting.figures().refusals == 0


def test_a_rewritten_value_replaces_the_one_that_is_held() -> None:
    store = Cache(filled(), memory_bytes=5100, when_full="keep")
    epochs(store, 1)

    async def body():
        for key in KEYS:
            await store.set(key, buffer(key.encode()))
        for key in KEYS:
            assert await read(store, key) == key.encode()

    asyncio.run(body())


CHANGES = {
    "deleted": lambda store, clock: store.delete_dir("a"),
    "expired": lambda store, clock: asyncio.sleep(0, setattr(clock, "seconds", clock.seconds + 90)),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_values_that_are_no_longer_valid_make_room(change) -> None:
    clock, below = Hours(), filled()
    store = Cache(below, memory_bytes=10_200, when_full="keep", ttl=60, clock=clock)
    epochs(store, 1)

    async def body():
        await change(store, clock)
        for key in range(200):
            await below.set(f"b/{key}", buffer(bytes(400)))
        for _ in range(2):
            for key in range(200):
                await read(store, f"b/{key}")
        return [place for place in store._state.memory._entries if not place.startswith("b")]

    assert asyncio.run(body()) == []


def test_a_record_in_a_folder_that_is_no_longer_valid_makes_room_when_it_is_read(tmp_path) -> None:
    below = Counted({key: buffer(bytes(9000)) for key in KEYS})
    store = Cache(below, memory_bytes=0, disk=tmp_path, source="x", disk_bytes=500_000, when_full="keep")
    epochs(store, 1)

    async def body():
        held = [key for key in KEYS if store._state.tier.read(key, None, None) is not None]
        for key in held:
            await store.set(key, buffer(bytes(9000)))
            await read(store, key)
        misses = store.figures().misses
        for key in held:
            await read(store, key)
        assert store.figures().misses == misses
        assert store.figures().disk_bytes <= 500_000
        assert len(held) > 40

    asyncio.run(body())


def test_threads_that_fill_a_cache_stay_within_its_budget() -> None:
    below = filled()
    store = Cache(below, memory_bytes=20_000, when_full="keep")
    start = threading.Barrier(4)
    wrong = []

    def work(seed: int) -> None:
        start.wait()
        order = random.Random(seed)
        for _ in range(300):
            key = order.choice(KEYS)
            if order.random() < 0.2:
                store.set_sync(key, buffer(bytes(order.randrange(900))))
            elif store.get_sync(key, prototype=PROTOTYPE) is None:
                wrong.append(key)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    memory = store._state.memory
    assert memory.used == sum(entry[2] for entry in memory._entries.values()) <= 20_000
    for key in KEYS:
        whole = below.get_sync(key, prototype=PROTOTYPE).to_bytes()
        assert store.get_sync(key, prototype=PROTOTYPE).to_bytes() == whole


def test_the_option_has_two_values() -> None:
    for given in ("lru", None, True):
        with pytest.raises(UsageError, match=r"when_full.*'evict' or 'keep'"):
            Cache(when_full=given)
    assert Cache.from_json(Cache(when_full="keep").to_json()) == Cache(when_full="keep")


def _array(values: np.ndarray) -> cpu.Buffer:
    return cpu.Buffer.from_array_like(values)


WHOLE = b"0123456789"
SHARED = {
    "bytes": (cpu.Buffer.from_bytes(WHOLE), True),
    "a slice of all": (cpu.Buffer.from_bytes(WHOLE)[0:10], True),
    "a part": (cpu.Buffer.from_bytes(WHOLE)[2:5], False),
    "an array": (_array(np.frombuffer(WHOLE, "u1").copy()), False),
    "a bytearray": (cpu.Buffer.from_bytes(bytearray(WHOLE)), False),
    "reversed": (_array(np.frombuffer(WHOLE, "u1")[::-1]), False),
    "nothing": (cpu.Buffer.from_bytes(b""), True),
}


@pytest.mark.parametrize(("value", "is_shared"), SHARED.values(), ids=SHARED)
def test_only_bytes_that_nobody_can_change_are_shared(value, is_shared) -> None:
    data = immutable(value)
    assert type(data) is bytes
    assert bytes(data) == value.to_bytes()
    if len(data):
        view = np.frombuffer(data, "u1")
        assert np.shares_memory(view, value.as_numpy_array()) == is_shared
