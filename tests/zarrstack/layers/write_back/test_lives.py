"""Any use of write-back equals a dictionary, whoever shares it; a killed writer leaves no torn shard."""

from __future__ import annotations

import asyncio
import os
import pickle
import random
import shutil
import signal
import struct
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from tests.support.chances import fewer
from zarr.buffer import cpu, default_buffer_prototype
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


# A killed writer leaves no torn shard, and loses nothing that was flushed.
#
# A forked child writes chunks in random order through 10 tasks, flushes now and then, and reports both. It is
# killed after a drawn number of reports, while it goes on writing. Then every shard must be complete, every
# chunk must have a value that was written, and none an older one than a flush (without write-back, a returned
# `set`) reported as stored.

CHUNKS = 48
PER_SHARD = 8
BUDGETS = (None, "60kB", "1MB")
"""Without write-back, with a budget that is often full, and with room for all shards."""


def sharded(folder: Path, budget: str | None):
    """A folder below a sharding layer, with `WriteBack` above if there is a budget."""
    above = [] if budget is None else [WriteBack(memory_bytes=budget)]
    return stack(LocalStore(folder), *above, Sharding(chunks_per_shard=[PER_SHARD], path="a"))


def write(folder: Path, out: int, rng: random.Random, budget: str | None) -> None:
    """Write chunks until killed.

    A report is a letter (s: set begins, d: it has returned, f: flushed), a chunk and its version.
    """
    store = sharded(folder, budget)
    versions = dict.fromkeys(range(CHUNKS), 0)

    def report(letter: bytes, chunk: int, version: int) -> None:
        os.write(out, struct.pack("<cII", letter, chunk, version))

    async def change(chunk: int) -> None:
        versions[chunk] += 1
        version = versions[chunk]
        report(b"s", chunk, version)
        await store.set(f"a/c/{chunk}", cpu.Buffer.from_bytes(value(chunk, version)))
        report(b"d", chunk, version)

    async def run() -> None:
        while True:
            for _ in range(rng.randrange(1, 5)):
                # Chunks of one round differ, so that their versions are stored in order.
                await asyncio.gather(*(change(chunk) for chunk in rng.sample(range(CHUNKS), 10)))
            before = versions.copy()
            if budget is not None:
                await store.flush()
            for chunk, version in before.items():
                report(b"f", chunk, version)

    asyncio.run(run())


def value(chunk: int, version: int) -> bytes:
    """Bytes that name their chunk and version from the first to the last."""
    return struct.pack("<II", chunk, version) * (100 + (chunk * 7 + version) % 150)


def one_life(seed: int) -> list[str]:
    """Write, kill and check; what was wrong."""
    rng = random.Random(seed)
    budget = rng.choice(BUDGETS)
    reports = rng.randrange(1, 1500)
    folder = Path(tempfile.mkdtemp(prefix="kills-"))
    try:
        written, stored = _until_killed(folder, rng, budget, reports)
        problems = asyncio.run(_check(folder, written, stored))
    finally:
        shutil.rmtree(folder)
    return [f"seed {seed}, budget {budget}: {problem}" for problem in problems]


def _until_killed(
    folder: Path, rng: random.Random, budget: str | None, reports: int
) -> tuple[dict[int, int], dict[int, int]]:
    """The last version of each chunk that may have been stored, and the last that must have been."""
    source, target = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(source)
            write(folder, target, rng, budget)
        finally:
            os._exit(3)
    os.close(target)
    written, stored = dict.fromkeys(range(CHUNKS), 0), dict.fromkeys(range(CHUNKS), 0)
    size = struct.calcsize("<cII")
    with os.fdopen(source, "rb") as file:
        count = 0
        while record := file.read(size):
            letter, chunk, version = struct.unpack("<cII", record)
            if letter == b"s":
                written[chunk] = max(written[chunk], version)
            elif letter == b"f" or budget is None:
                stored[chunk] = max(stored[chunk], version)
            count += 1
            if count == reports:
                os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status), f"the writer ended with status {status}"
    return written, stored


async def _check(folder: Path, written: dict[int, int], stored: dict[int, int]) -> list[str]:
    store = sharded(folder, None)
    problems = []
    for chunk in range(CHUNKS):
        try:
            found = await store.get(f"a/c/{chunk}", default_buffer_prototype())
        except Exception as error:  # noqa: BLE001 - reported
            problems.append(f"chunk {chunk} cannot be read: {error}")
            continue
        data = b"" if found is None else found.to_bytes()
        version = struct.unpack_from("<II", data)[1] if data else 0
        if data and data != value(chunk, version):
            problems.append(f"chunk {chunk} is torn")
        if not stored[chunk] <= version <= written[chunk]:
            problems.append(f"chunk {chunk}: {stored[chunk]} was stored, {version} is there")
    return problems


FEW = (1, 5, 6, 7, 9)
"""Seeds that cover each budget; set ZARRSTACK_KILLS to a number to try that many others."""
SEEDS = range(10, 10 + int(os.environ.get("ZARRSTACK_KILLS", "30")))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="not everywhere: it forks")
@pytest.mark.parametrize("seed", [*FEW, *(pytest.param(seed, marks=pytest.mark.slow) for seed in SEEDS)])
def test_a_killed_writer_leaves_what_was_flushed_and_no_torn_shard(seed):
    assert one_life(seed) == []
