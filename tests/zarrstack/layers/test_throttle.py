"""`Throttle`: no more bytes, requests and calls at once than allowed, whoever asks."""

from __future__ import annotations

import asyncio
import math
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.fake_clock import FakeClock
from tests.support.stores import PROTOTYPE
from zarr.buffer import cpu
from zarr.storage import MemoryStore

from zarrstack.base.descend import serves_sync
from zarrstack.base.stack import stack
from zarrstack.base.transformer import StorageTransformer
from zarrstack.core.errors import UsageError
from zarrstack.core.sizes import parse_rate
from zarrstack.layers.throttle import Throttle
from zarrstack.system.rate_limits import Places, TokenBucket


def buffer(size):
    return cpu.Buffer.from_bytes(bytes(size))


def over(store=None, **options):
    clock = FakeClock()
    return stack(MemoryStore() if store is None else store, Throttle(clock=clock, **options)), clock


# -- the bucket ------------------------------------------------------------------------------------


@given(
    rate=st.floats(0.5, 1e6),
    burst=st.floats(0, 10),
    steps=st.lists(st.tuples(st.floats(0, 5), st.integers(1, 10**6)), min_size=1, max_size=30),
)
def test_no_window_gets_more_than_the_rate_and_one_burst(rate, burst, steps):
    clock = FakeClock()
    bucket, start, taken = TokenBucket(rate, burst, clock), clock.now(), 0
    for pause, amount in steps:
        clock.pass_by(pause)
        clock.pass_by(bucket.take(amount))
        taken += amount
        assert taken <= (rate * (clock.now() - start + burst)) * (1 + 1e-6) + 1e-3


def test_a_new_rate_applies_to_those_who_wait():
    clock, rates = FakeClock(), [1.0]
    bucket = TokenBucket(lambda: rates[0], 0, clock)
    slept = []
    for step in bucket.steps(bucket.take(100)):
        slept.append(step)
        clock.pass_by(step)
        rates[0] = 2.0 if len(slept) == 20 else math.inf if len(slept) == 30 else rates[0]
    assert slept == [1.0] * 30
    assert bucket.take(1000) == 0  # what was owed at the old rate is forgotten


def test_nothing_is_waited_for_below_the_rate():
    clock = FakeClock()
    bucket = TokenBucket(10, 1, clock)
    for _ in range(50):
        clock.pass_by(0.1)
        assert bucket.take(1) == 0


def test_what_was_not_used_may_be_used_at_once_but_no_more():
    clock = FakeClock()
    bucket = TokenBucket(10, 2, clock)
    clock.pass_by(1000)
    assert bucket.take(20) == 0
    assert bucket.take(5) == pytest.approx(0.5)


# -- the gate --------------------------------------------------------------------------------------


class Busy(StorageTransformer):
    """Counts how many are inside at once; nobody leaves before `company` have come, or are waited for."""

    name = "busy"

    def __init__(self, store=None, *, company=1):
        super().__init__(store)
        self.guard = threading.Lock()
        self.inside = self.most = self.done = 0
        self.company = threading.Barrier(company)

    async def get(self, key, prototype, byte_range=None):
        with self.guard:
            self.inside += 1
            self.most = max(self.most, self.inside)
        for _ in range(3):
            await asyncio.sleep(0)
        with self.guard:
            self.inside -= 1
            self.done += 1


def test_at_most_so_many_are_in_flight_over_several_event_loops():
    busy = Busy()
    store = stack(MemoryStore(), Throttle(in_flight=3), busy)

    def work(_):
        async def run():
            await asyncio.gather(*(store.get(str(number), PROTOTYPE) for number in range(20)))

        asyncio.run(run())

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert busy.done == 80
    assert 1 <= busy.most <= 3


async def test_one_loop_fills_all_places():
    busy = Busy()
    store = stack(MemoryStore(), Throttle(in_flight=3), busy)
    await asyncio.gather(*(store.get(str(number), PROTOTYPE) for number in range(20)))
    assert busy.most == 3


async def test_first_come_first_served():
    gate, order = Places(1), []

    async def enter(number):
        await gate.enter()
        order.append(number)
        await asyncio.sleep(0)
        gate.leave()

    await asyncio.gather(*(enter(number) for number in range(10)))
    assert order == list(range(10))


@given(st.lists(st.integers(0, 9), unique=True), st.integers(1, 3), st.integers(0, 4))
def test_whoever_is_cancelled_takes_no_place_along(cancelled, places, steps):
    gate, passed = Places(places), []

    async def enter(number):
        await gate.enter()
        try:
            await asyncio.sleep(0)
            passed.append(number)
        finally:
            gate.leave()

    async def run():
        tasks = [asyncio.ensure_future(enter(number)) for number in range(10)]
        for _ in range(steps):
            await asyncio.sleep(0)
        for number in cancelled:
            tasks[number].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert set(passed) >= set(range(10)) - set(cancelled)
        for _ in range(places):
            assert gate._queue() is None
        assert gate._queue() is not None

    asyncio.run(run())


def test_a_thread_waits_for_a_place_that_a_loop_holds():
    gate, entered = Places(1), threading.Event()

    def sit():
        gate.enter_sync()
        entered.set()
        gate.leave()

    async def run():
        await gate.enter()
        thread = threading.Thread(target=sit)
        thread.start()
        while not gate._waiting:  # noqa: ASYNC110 nothing tells that somebody has begun to wait
            await asyncio.sleep(0)
        assert not entered.is_set()
        gate.leave()
        await asyncio.to_thread(thread.join)

    asyncio.run(run())
    assert entered.is_set()


def test_the_reader_of_a_listing_may_use_the_layer_meanwhile():
    store, _ = over(MemoryStore({"a": buffer(1), "b": buffer(1)}), in_flight=1)

    async def run():
        return [(key, await store.getsize(key)) async for key in store.list()]

    assert asyncio.run(run()) == [("a", 1), ("b", 1)]


# -- the layer --------------------------------------------------------------------------------------


def test_writes_wait_before_and_reads_after_their_bytes():
    store, clock = over(bytes_per_second=100, burst=0)
    asyncio.run(store.set("a", buffer(50)))
    assert clock.naps == [pytest.approx(0.5)]
    asyncio.run(store.get("a", PROTOTYPE))
    assert clock.naps[1:] == [pytest.approx(0.5)]


async def test_each_operation_is_a_request():
    store, clock = over(requests_per_second=4, burst=0)
    await store.get("a", PROTOTYPE)
    await store.exists("a")
    await store.delete("a")
    assert [key async for key in store.list()] == []
    await store.get_partial_values(PROTOTYPE, [("a", None), ("b", None)])
    assert clock.naps == [pytest.approx(1 / 4)] * 6


def test_so_are_the_synchronous_methods():
    store, clock = over(requests_per_second=4, bytes_per_second=100, burst=0)
    if not serves_sync(MemoryStore()):
        assert not serves_sync(store)
        return
    store.set_sync("a", buffer(50))
    assert clock.naps == pytest.approx([0.25, 0.5])


def test_read_only_copies_share_the_limits():
    store, clock = over(requests_per_second=1, burst=1)
    copy = store.with_read_only(True)
    asyncio.run(store.get("a", PROTOTYPE))
    asyncio.run(copy.get("a", PROTOTYPE))
    assert clock.naps == [pytest.approx(1)]


def test_a_wait_that_is_broken_off_gives_back_its_tokens():
    store, clock = over(bytes_per_second=100, burst=0)

    async def nap(seconds):
        raise asyncio.CancelledError

    clock.sleep = nap
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(store.set("a", buffer(500)))
    del clock.sleep
    asyncio.run(store.set("a", buffer(50)))
    assert clock.naps == [pytest.approx(0.5)]


RATES = {
    "50MB/s": 50_000_000,
    "1.5 MiB / s": 1_572_864,
    "10": 10,
    "10M": 10_000_000,
    "2k/s": 2000,
    "2.5": 2.5,
    "3kB": 3000,
    "50Mb/s": None,
    "fast": None,
    "-1": None,
    "1e3": None,
    "": None,
}


@pytest.mark.parametrize(("text", "rate"), RATES.items(), ids=RATES)
def test_rates_are_read_and_what_is_none_is_refused(text, rate):
    assert parse_rate(text) == rate
    if rate is None:
        with pytest.raises(UsageError, match="bytes_per_second"):
            Throttle(bytes_per_second=text)
    else:
        assert Throttle(bytes_per_second=text) == Throttle(bytes_per_second=rate)


def test_json_has_numbers():
    layer = Throttle(bytes_per_second="50MB/s", in_flight=8)
    assert layer.to_json() == {
        "name": "zarrstack.throttle",
        "configuration": {"bytes_per_second": 50_000_000, "in_flight": 8},
    }
