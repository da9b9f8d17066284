"""Any use of write-back equals a dictionary, whoever shares it, and other processes see no torn shard."""

from __future__ import annotations

import asyncio
import os
import pickle
import shutil
import tempfile

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from tests.support.chances import fewer
from zarr.storage import LocalStore, MemoryStore, WrapperStore

from zarrstack import Cache, Log, Sharding, WriteBack, stack
from zarrstack.testing.operations import expected, perform

KEYS = [f"a/c/{number}" for number in range(9)]
OTHERS = ["a/zarr.json", "zarr.json", "b/c/0"]
SHARDS = {"chunks_per_shard": [3], "path": "a"}

keys = st.sampled_from(KEYS)
data = st.binary(max_size=400)
which = st.integers(0, 2)


class Apart(WrapperStore[LocalStore]):
    """A store whose objects are not known to be those of another: it stands for another process."""


class Lives(RuleBasedStateMachine):
    """Three stacks over one folder, whose changes wait; one is below another write-back."""

    def __init__(self, folder, *, on_disk):
        super().__init__()
        self.folder, self.on_disk = folder, on_disk
        self.objects = {}

    @initialize(budget=st.sampled_from([3000, 20_000, 10**6]))
    def open(self, budget):
        self.stacks = [
            stack(self.bottom(), WriteBack(memory_bytes=budget), Sharding(**SHARDS)),
            stack(
                self.bottom(),
                Log(),
                Cache(memory_bytes=5000),
                WriteBack(memory_bytes=budget),
                Sharding(**SHARDS),
            ),
            stack(self.bottom(), WriteBack(), WriteBack(memory_bytes=budget), Sharding(**SHARDS)),
        ]
        self.apart = Sharding(Apart(self.bottom()), **SHARDS)
        self.model = {}
        self.since = {}  # what each chunk was since the last flush

    def bottom(self):
        return LocalStore(self.folder) if self.on_disk else MemoryStore(self.objects)

    def act(self, number, operation):
        if operation[0] in ("delete_dir", "_set_many", "set", "delete", "set_if_not_exists"):
            wanted = expected(self.model, operation)
        else:
            wanted = expected(dict(self.model), operation)
        # A Cache does not see changes that bypass it: the stack with one is used only to write and flush.
        assert asyncio.run(perform(self.stacks[number], operation)) == wanted
        for key in KEYS:
            self.since.setdefault(key, {None}).add(self.model.get(key))

    @rule(number=which, key=keys, value=data)
    def set(self, number, key, value):
        self.act(number, ("set", key, value))

    @rule(number=which, pairs=st.dictionaries(keys, data, max_size=6))
    def set_many(self, number, pairs):
        self.act(number, ("_set_many", tuple(pairs.items())))

    @rule(number=which, key=keys, value=data)
    def set_if_not_exists(self, number, key, value):
        self.act(number, ("set_if_not_exists", key, value))

    @rule(number=which, key=st.sampled_from(OTHERS), value=data)
    def set_other(self, number, key, value):
        self.act(number, ("set", key, value))

    @rule(number=which, key=keys)
    def delete(self, number, key):
        self.act(number, ("delete", key))

    @rule(number=which, path=st.sampled_from(["a/c", "b"]))
    def delete_dir(self, number, path):
        self.act(number, ("delete_dir", path))

    @rule(number=st.sampled_from([0, 2]), key=keys, twin=st.booleans())
    def read(self, number, key, twin):
        store = self.stacks[number].with_read_only(True) if twin else self.stacks[number]
        for operation in (("get", key, None), ("exists", key), ("getsize", key)):
            assert asyncio.run(perform(store, operation)) == expected(self.model, operation)

    @rule(number=st.sampled_from([0, 2]))
    def list(self, number):
        self.act(number, ("list",))

    @rule(number=which, how=st.sampled_from(["flush", "flush_sync", "close", "pickle"]))
    def flush(self, number, how):
        store = self.stacks[number]
        if how == "flush":
            asyncio.run(store.flush())
        elif how == "pickle":
            arrived = pickle.dumps(store)
            if self.on_disk:
                self.stacks[number] = pickle.loads(arrived)
        else:
            getattr(store, how)()
        self.flushed()

    def flushed(self):
        self.since = {key: {self.model.get(key)} for key in KEYS}
        self.nothing_is_torn()

    @rule(key=keys, value=data)
    def fork(self, key, value):
        """A child sees what is stored, and what it writes itself."""
        store = self.stacks[0]
        child = os.fork()
        if child == 0:
            code = 1
            try:
                for each in KEYS:
                    if (found := read(store, each)) != read(self.apart, each):
                        raise AssertionError((each, found))
                if not self.on_disk:  # on disk the parent would see it
                    asyncio.run(perform(store, ("set", key, value)))
                    assert read(store, key) == value
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0

    @invariant()
    def nothing_is_torn(self):
        if hasattr(self, "since"):
            for key in KEYS:
                assert read(self.apart, key) in self.since.get(key, {None}), key


def read(store, key):
    return asyncio.run(perform(store, ("get", key, None)))


@pytest.mark.hypothesis
@pytest.mark.parametrize(
    "on_disk", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["memory", "folder"]
)
def test_any_life_of_write_back_equals_a_dictionary(on_disk):
    base = tempfile.mkdtemp()
    run_state_machine_as_test(
        lambda: Lives(tempfile.mkdtemp(dir=base), on_disk=on_disk),
        settings=settings(max_examples=fewer(40), stateful_step_count=25, deadline=None),
    )
    shutil.rmtree(base)
