"""A child that is forked while its parent works is not held up, and does not do the parent's work again."""

from __future__ import annotations

import asyncio
import os
import signal
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.support.stores import PROTOTYPE
from zarr.buffer import cpu
from zarr.storage import MemoryStore

from zarrstack import Sharding, Throttle, stack
from zarrstack.base.transformer import StorageTransformer
from zarrstack.layers.log.layer import OperationTotals, ToFile
from zarrstack.layers.retry import _Counts as RetryCounts
from zarrstack.layers.sharding.stored_shard import ShardWriters
from zarrstack.system.clock import Clock
from zarrstack.system.rate_limits import TokenBucket


def fork():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12+ warns of threads
        return os.fork()


class Forking(StorageTransformer):
    """Forks in the midst of the first operation; the child goes through the whole stack again."""

    name = "forking"
    whole = None
    child = None

    async def set(self, key, value):
        if self.child is None:
            await asyncio.sleep(0)  # all that was started together waits above
            self.child = fork()
            if self.child == 0:
                signal.alarm(60)
                with ThreadPoolExecutor(1) as pool:
                    good = pool.submit(asyncio.run, self.again()).result()
                os._exit(0 if good else 1)
        await super().set(key, value)

    async def again(self):
        await self.whole.set("c/7", cpu.Buffer.from_bytes(b"child"))
        seen = [key async for key in self.whole.list_prefix("c/")]
        value = await self.whole.get("c/7", PROTOTYPE)
        return seen == ["c/7"] and value.to_bytes() == b"child"


@pytest.mark.parametrize(
    "layers",
    [
        lambda: [Throttle(in_flight=1, requests_per_second=1e9, bytes_per_second=1e9)],
        lambda: [Sharding(chunks_per_shard=[8])],
    ],
    ids=["a place", "changes of a shard"],
)
def test_a_child_works_on_alone(layers):
    forking = Forking()
    store = forking.whole = stack(MemoryStore(), *layers(), forking)

    async def run():
        await asyncio.gather(*(store.set(f"c/{n}", cpu.Buffer.from_bytes(b"parent")) for n in range(3)))

    asyncio.run(run())
    assert os.waitstatus_to_exitcode(os.waitpid(forking.child, 0)[1]) == 0
    for n in range(3):
        assert asyncio.run(store.get(f"c/{n}", PROTOTYPE)).to_bytes() == b"parent"


@pytest.mark.parametrize(
    "thing",
    [
        TokenBucket(1, 1, Clock()),
        Throttle(in_flight=1)._gate,
        OperationTotals(),
        ToFile("events.jsonl"),
        ShardWriters(),
        RetryCounts(),
    ],
    ids=lambda thing: type(thing).__name__,
)
def test_a_lock_that_a_thread_of_the_parent_holds_is_free_in_the_child(thing):
    guard = "guard" if isinstance(thing, RetryCounts) else "_guard"
    with getattr(thing, guard):
        child = fork()
        if child == 0:
            os._exit(0 if getattr(thing, guard).acquire(blocking=False) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
