"""`Checksum`: no damaged byte is given out, and no sound one refused, whenever the writer was killed."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.support.chances import fewer
from tests.support.stores import PROTOTYPE, Dying, InAFolder, Killed, buffer
from zarr.abc.store import RangeByteRequest
from zarr.storage import MemoryStore

from zarrstack.base.stack import stack
from zarrstack.base.transformer import StorageTransformer
from zarrstack.core.errors import ChunkError, UsageError
from zarrstack.layers.checksum.layer import Checksum
from zarrstack.testing import LayerTests


def read(store, key, part=None):
    value = asyncio.run(store.get(key, PROTOTYPE, part))
    return None if value is None else value.to_bytes()


def written(*, memory=None, values=(("a/c/0", b"old value"), ("a/c/1", b""))):
    """A dictionary with some values and their checksums."""
    memory = {} if memory is None else memory
    store = stack(MemoryStore(memory), Checksum())

    async def run():
        for key, value in values:
            await store.set(key, buffer(value))

    asyncio.run(run())
    return memory


def reopened(memory, **options):
    return stack(MemoryStore(memory), Checksum(**options))


DAMAGES = {
    "a flipped bit": lambda memory: memory.update({"a/c/0": buffer(b"ole value")}),
    "cut short": lambda memory: memory.update({"a/c/0": buffer(b"old val")}),
    "nothing left": lambda memory: memory.update({"a/c/0": buffer(b"")}),
    "more than there was": lambda memory: memory.update({"a/c/0": buffer(b"old value ")}),
    "another object's bytes": lambda memory: memory.update({"a/c/0": memory["a/c/1"]}),
    "lost": lambda memory: memory.pop("a/c/0"),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.parametrize("part", [None, RangeByteRequest(1, 2)], ids=["whole", "range"])
def test_damage_is_an_error_that_names_the_key(damage, part):
    memory = written()
    damage(memory)
    with pytest.raises(ChunkError) as caught:
        read(reopened(memory), "a/c/0", part)
    problem = caught.value.problem
    assert problem.key == "a/c/0"
    assert "layer 'checksum'" in problem.message
    assert problem.expected == "crc32c 486f40cc 9"
    assert read(reopened(memory), "a/c/1") == b""


def test_what_is_sound_is_read_and_what_is_missing_is_missing():
    store = reopened(written())
    assert read(store, "a/c/0") == b"old value"
    assert read(store, "a/c/0", RangeByteRequest(4, 9)) == b"value"
    assert read(store, "a/c/2") is None


# -- killed at any moment ---------------------------------------------------------------------------


@pytest.mark.parametrize("lives", range(6))
@pytest.mark.parametrize(
    ("change", "after"),
    [
        (lambda store: store.set("a/c/0", buffer(b"new")), b"new"),
        (lambda store: store.delete("a/c/0"), None),
    ],
    ids=["overwriting", "deleting"],
)
def test_a_killed_writer_leaves_the_old_value_or_the_new(lives, change, after):
    memory = written()
    store = stack(Dying(memory, lives=lives), Checksum())
    try:
        asyncio.run(change(store))
        finished = True
    except Killed:
        finished = False
    again = reopened(memory)
    assert read(again, "a/c/0") in ({after} if finished else {b"old value", after})
    asyncio.run(again.set("a/c/0", buffer(b"third")))
    assert read(reopened(memory), "a/c/0") == b"third"


@pytest.mark.parametrize("lives", range(4))
def test_a_killed_first_writer_leaves_nothing_or_the_value(lives):
    memory = {}
    store = stack(Dying(memory, lives=lives), Checksum())
    try:
        asyncio.run(store.set("a", buffer(b"new")))
        assert lives == 3
    except Killed:
        pass
    again = reopened(memory)
    assert read(again, "a") in ({b"new"} if lives >= 2 else {None})
    asyncio.run(again.delete("a"))
    assert read(again, "a") is None


# -- several at a time --------------------------------------------------------------------------------


class Interrupted(StorageTransformer):
    """Between reading an object and its record, somebody else writes both."""

    name = "interrupted"

    def __init__(self, store=None, *, other=None, times=1):
        super().__init__(store)
        self.other, self.times = other, times

    async def get(self, key, prototype, byte_range=None):
        value = await super().get(key, prototype, byte_range)
        if not key.endswith(".crc32c") and self.times:
            self.times -= 1
            await self.other.set(key, buffer(b"new %d" % self.times))
        return value


def test_a_reader_beside_a_writer_sees_no_damage():
    memory = written()
    store = stack(MemoryStore(memory), Checksum(), Interrupted(other=reopened(memory), times=3))
    assert read(store, "a/c/0") == b"new 0"


def test_writers_of_one_key_take_turns_in_all_threads():
    memory = {}
    store = reopened(memory)

    def work(number):
        async def run():
            await asyncio.gather(*(store.set(f"k{n % 3}", buffer(b"%d %d" % (number, n))) for n in range(12)))

        asyncio.run(run())

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    for n in range(3):
        assert read(reopened(memory), f"k{n}") is not None


class Threaded(MemoryStore):
    """Its first write of a key is done by a thread, which goes on when its caller is cancelled, as a
    LocalStore's do."""

    def __init__(self, memory, *, held):
        super().__init__(memory)
        self.held, self.begun = held, asyncio.Event()
        self.free, self.done = threading.Event(), threading.Event()

    async def set(self, key, value, byte_range=None):
        if key == self.held and not self.begun.is_set():
            self.begun.set()
            await asyncio.to_thread(self.write, key, value)
        else:
            await super().set(key, value)

    def write(self, key, value):
        self.free.wait(30)
        self._store_dict[key] = value
        self.done.set()


@pytest.mark.parametrize("held", ["a/c/0", "a/c/0.crc32c"])
def test_a_write_that_nobody_waits_for_any_more_does_not_overtake_the_next_one(held):
    memory = written()
    slow = Threaded(memory, held=held)
    store = stack(slow, Checksum())

    async def run():
        first = asyncio.ensure_future(store.set("a/c/0", buffer(b"first")))
        await slow.begun.wait()
        first.cancel()
        second = asyncio.ensure_future(store.set("a/c/0", buffer(b"second")))
        for _ in range(50):  # as far as it gets
            await asyncio.sleep(0)
        slow.free.set()
        await second
        await asyncio.to_thread(slow.done.wait, 30)
        with pytest.raises(asyncio.CancelledError):
            await first

    asyncio.run(run())
    assert read(reopened(memory), "a/c/0") == b"second"


# -- objects without a checksum -------------------------------------------------------------------------


def test_an_object_without_a_checksum_is_refused_until_it_is_sealed():
    memory = written()
    memory["b"] = buffer(b"foreign")
    store = reopened(memory)
    with pytest.raises(ChunkError, match="has no checksum") as caught:
        read(store, "b")
    assert "seal" in caught.value.problem.advice
    assert [problem.key for problem in asyncio.run(store.check())] == ["b"]
    assert asyncio.run(store.seal()) == 1
    assert read(store, "b") == b"foreign"
    assert asyncio.run(store.check()) == []
    memory["b"] = buffer(b"changed")
    assert [problem.key for problem in asyncio.run(reopened(memory).check())] == ["b"]


def test_it_may_pass_when_that_is_wished():
    memory = {"b": buffer(b"foreign")}
    store = reopened(memory, unknown="pass")
    assert read(store, "b") == b"foreign"
    asyncio.run(store.set("b", buffer(b"ours")))
    memory["b"] = buffer(b"other")
    with pytest.raises(ChunkError, match="damaged"):
        read(store, "b")


# -- the records ------------------------------------------------------------------------------------------


def test_a_record_beside_is_a_line_of_text():
    assert written()["a/c/0.crc32c"].to_bytes() == b"crc32c 486f40cc 9\n"


def test_records_show_nowhere():
    store = reopened(written())

    async def run():
        for key in ("a/c/0.crc32c", "other.crc32c"):
            assert not await store.exists(key)
            assert await store.get(key, PROTOTYPE) is None
            with pytest.raises(FileNotFoundError):
                await store.getsize(key)
            with pytest.raises(UsageError, match="reserved for its records"):
                await store.set(key, buffer(b""))
        assert sorted([key async for key in store.list()]) == ["a/c/0", "a/c/1"]
        assert [name async for name in store.list_dir("")] == ["a"]
        assert sorted([name async for name in store.list_dir("a/c")]) == ["0", "1"]
        assert await store.getsize_prefix("a") == 9
        await store.delete_dir("a")
        assert await store.is_empty("")

    asyncio.run(run())


def test_nothing_is_left_behind():
    memory = written()
    store = reopened(memory)
    asyncio.run(store.delete("a/c/0"))
    asyncio.run(store.delete_dir("a"))
    assert memory == {}


STATE = b"crc32c 486f40cc 9"  # that of the object
BROKEN = [b"", b"nonsense", b"crc32c 12 9\n", b"crc32c 486f40cc 09\n", b"\xff\xfe", b"[]", b'{"format": "x"}']
BROKEN += [STATE, STATE + b"\r\n", STATE + b"\n\n", STATE + b"\nabsent", STATE + b"\x0babsent\n"]


@pytest.mark.parametrize("record", BROKEN, ids=str)
def test_a_broken_record_is_an_error_that_names_it(record):
    memory = written()
    name = "a/c/0.crc32c"
    memory[name] = buffer(record)
    with pytest.raises(ChunkError) as caught:
        read(reopened(memory), "a/c/0")
    assert caught.value.problem.key == name


def test_two_of_them_do_not_stand_over_each_other():
    with pytest.raises(UsageError, match="one layer of checksums is enough"):
        stack(MemoryStore(), Checksum(), Checksum(unknown="pass"))


def test_text_says_what_is_done_with_unknown_objects():
    assert Checksum.from_text("pass") == Checksum(unknown="pass")
    assert Checksum(unknown="pass").to_json() == {
        "name": "zarrstack.checksum",
        "configuration": {"unknown": "pass"},
    }


# `Checksum` keeps the contract of layers.


class TestInMemory(LayerTests):
    examples = fewer(20)

    def layers(self):
        return [Checksum()]


class TestOverFiles(InAFolder, LayerTests):
    examples = fewer(5)
    steps = 8

    def layers(self):
        return [Checksum(unknown="pass")]
