"""The disk tier: one budget for all processes, damage that is never served, a full disk that stops nobody."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from tests.support.stores import Counted, Hours, buffer, read
from tests.zarrstack.layers.cache.test_processes import size
from zarr.abc.store import OffsetByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.storage import LocalStore, MemoryStore

from zarrstack.base.byte_ranges import slice_of
from zarrstack.core.errors import UsageError
from zarrstack.layers.cache import folder_control as control
from zarrstack.layers.cache import folder_tier as local
from zarrstack.layers.cache.layer import Cache
from zarrstack.layers.cache.record import BLOCK

ROOT = Path(__file__).parents[4]
BUDGET = 60_000
VALUE = 4096


@pytest.fixture
def below():
    return Counted({f"a/{place}": buffer(bytes([place]) * VALUE) for place in range(40)})


@pytest.fixture
def open_cache(tmp_path, below):
    """Makes caches over one folder; each is like one process."""
    made = []

    def make(**options):
        options = {
            "disk": tmp_path / "tier",
            "disk_bytes": BUDGET,
            "source": "x",
            "memory_bytes": 0,
        } | options
        made.append(Cache(below, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


async def fill(store, count=40, first=0):
    for place in range(first, count):
        assert await read(store, f"a/{place}") == bytes([place]) * VALUE


# -- budget -----------------------------------------------------------------------------------------


async def test_each_later_process_stays_within_the_same_budget(open_cache, tmp_path) -> None:
    """zp#4282: a folder grew by its whole budget with every process that opened it."""
    for _ in range(3):
        store = open_cache()
        await fill(store)
        assert size(tmp_path / "tier") == store.figures().disk_bytes <= BUDGET
        store.close()


async def test_processes_at_the_same_time_share_one_budget(open_cache, tmp_path) -> None:
    first, second = open_cache(), open_cache()
    await asyncio.gather(fill(first), fill(second))
    assert size(tmp_path / "tier") == first.figures().disk_bytes == second.figures().disk_bytes <= BUDGET


async def test_small_values_are_written_at_once_and_evictions_by_another_thread(
    open_cache, monkeypatch
) -> None:
    """Handing a value to a thread takes longer than writing it; an eviction looks at every file."""
    threads = []
    real = asyncio.to_thread

    def to_thread(act, *given, **options):
        threads.append(act)
        return real(act, *given, **options)

    monkeypatch.setattr(asyncio, "to_thread", to_thread)
    store = open_cache()
    await fill(store, 10)
    assert [each.__name__ for each in threads] == ["open"]
    await fill(store, 20)
    assert store.figures().evictions > 0
    assert threads[1:] and {each.__name__ for each in threads[1:]} == {"to_disk"}


async def test_a_smaller_budget_is_kept_from_the_start(open_cache, tmp_path) -> None:
    store = open_cache()
    await fill(store)
    store.close()
    await read(open_cache(disk_bytes=30_000), "a/0")
    assert size(tmp_path / "tier") <= 30_000


async def test_the_order_of_use_is_known_to_the_next_process(
    open_cache, below, tmp_path, monkeypatch
) -> None:
    """zp#4282: what an earlier process left could not be ranked, nor let go."""
    monkeypatch.setattr(local, "USED_ANEW", 0)
    first = open_cache()
    for place in range(10):
        before = {path for path in tmp_path.rglob("*") if path.is_file()}
        await read(first, f"a/{place}")
        for record in {path for path in tmp_path.rglob("*") if path.is_file()} - before:
            os.utime(record, (place, place))  # a file system may give all of them one time
    await read(first, "a/0")  # the oldest record, and now the newest
    first.close()
    second = open_cache()
    for place in range(10, 20):
        await read(second, f"a/{place}")
    misses = second.figures().misses
    await read(second, "a/0")
    assert second.figures().misses == misses
    await read(second, "a/1")
    assert second.figures().misses == misses + 1


async def test_half_a_record_of_a_dead_process_is_removed(open_cache, tmp_path) -> None:
    store = open_cache()
    await fill(store, 2)
    store.close()
    half = tmp_path / "tier" / "objects" / "new"
    half.write_bytes(bytes(100))
    store = open_cache()
    await fill(store, 2)
    assert store.figures().hits == 2
    assert not half.exists()


# -- processes that share a folder ----------------------------------------------------------------


async def test_a_write_by_one_process_is_seen_in_the_memory_of_another(open_cache) -> None:
    first, second = open_cache(memory_bytes=100_000), open_cache(memory_bytes=100_000)
    assert await read(first, "a/0") == await read(second, "a/0")
    assert await read(second, "a/99") is None
    await first.set("a/0", buffer(b"new"))
    await first.set_if_not_exists("a/99", buffer(b"99"))
    assert await read(second, "a/0") == b"new"
    assert await read(second, "a/99") == b"99"
    await second.delete_dir("a")
    assert await read(first, "a/0") is None


async def test_a_process_that_died_while_writing_leaves_no_old_value_behind(open_cache, below) -> None:
    store = open_cache()
    await read(store, "a/0")
    store._state.versions.place("a/0").begin()  # and then it dies
    await below.set("a/0", buffer(b"new"))
    other = open_cache()
    assert await read(other, "a/0") == b"new"
    await below.set("a/0", buffer(b"newer"))  # its writing may have landed late
    assert await read(other, "a/0") == b"newer"
    store.close()
    other.close()
    healed = open_cache()
    await read(healed, "a/0")
    await read(healed, "a/0")
    assert healed.figures().hits == 1


async def test_sources_in_one_folder_are_kept_apart(tmp_path) -> None:
    """Two archives have an `a/0` each, and a layer between may change the bytes."""
    stores = [LocalStore(tmp_path / name) for name in ("one", "two")]
    for place, store in enumerate(stores):
        await store.set("a/0", buffer(bytes([place])))
    for _ in range(2):
        for place, store in enumerate(stores):
            cache = Cache(store, disk=tmp_path / "tier", memory_bytes=0)
            assert await read(cache, "a/0") == bytes([place])


def test_a_store_without_a_name_needs_one(tmp_path) -> None:
    """The address of a MemoryStore is another one's in the next process."""
    with pytest.raises(UsageError, match="source="):
        asyncio.run(read(Cache(MemoryStore(), disk=tmp_path), "a/0"))


@pytest.mark.parametrize("reads", [0, 5])
async def test_a_folder_that_was_removed_is_made_anew(reads, open_cache, tmp_path, below) -> None:
    store = open_cache(memory_bytes=100_000)
    await fill(store, 3)
    shutil.rmtree(tmp_path / "tier")
    await fill(store, reads)
    other = open_cache()
    await fill(other, 2)
    await store.set("a/0", buffer(b"new"))
    assert await read(other, "a/0") == b"new"
    assert await read(store, "a/0") == b"new"
    await fill(store, 10, first=1)
    assert store.figures().failure is None
    assert store.figures().disk_bytes == other.figures().disk_bytes == size(tmp_path / "tier")


async def test_a_change_during_which_the_folder_is_removed_is_seen_by_those_who_make_it_again(
    open_cache, tmp_path, below
) -> None:
    store = open_cache()
    await fill(store, 3)
    real = below.set

    async def remove_first(key, value):
        shutil.rmtree(tmp_path / "tier")
        others.append(open_cache())
        await fill(others[0], 3)
        await real(key, value)

    others, below.set = [], remove_first
    await store.set("a/0", buffer(b"new"))
    assert await read(others[0], "a/0") == await read(store, "a/0") == b"new"


# -- damage -----------------------------------------------------------------------------------------


def records(tier):
    return sorted(path for path in (tier / "objects").rglob("*") if path.is_file())


DAMAGE = {
    "a flipped bit": lambda data: data[:-9] + bytes([data[-9] ^ 1]) + data[-8:],
    "a flipped bit in the header": lambda data: data[:26] + bytes([data[26] ^ 1]) + data[27:],
    "half": lambda data: data[: len(data) // 2],
    "nothing": lambda data: b"",
    "zeros": lambda data: bytes(len(data)),
    "too long": lambda data: data + b"0",
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
async def test_a_damaged_record_is_never_served(damage, open_cache, tmp_path, below) -> None:
    store = open_cache()
    await read(store, "a/7")
    (record,) = records(tmp_path / "tier")
    record.write_bytes(damage(record.read_bytes()))
    assert await read(store, "a/7") == bytes([7]) * VALUE
    figures = store.figures()
    assert (figures.damaged, figures.misses) == (1, 2)
    assert await read(store, "a/7") == bytes([7]) * VALUE
    assert store.figures().hits == 1


LARGE = np.random.default_rng(0).bytes(1_000_003)
REQUESTS = {
    "at the start": RangeByteRequest(0, 10),
    "across blocks": RangeByteRequest(BLOCK - 5, 2 * BLOCK + 5),
    "past the end": RangeByteRequest(1_000_000, 2_000_000),
    "a suffix": SuffixByteRequest(7),
    "from an offset": OffsetByteRequest(999_000),
}


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)
async def test_a_part_of_a_large_record_is_read_without_the_rest(
    request_, open_cache, tmp_path, below
) -> None:
    await below.set("a/large", buffer(LARGE))
    store = open_cache(disk_bytes=3_000_000)
    assert await read(store, "a/large") == LARGE
    (record,) = records(tmp_path / "tier")
    data = bytearray(record.read_bytes())
    start = len(data) - len(LARGE)
    data[start + 5 * BLOCK] ^= 1  # none of these requests needs this block
    record.write_bytes(data)
    assert await read(store, "a/large", request_) == LARGE[slice_of(request_)]
    assert (store.figures().damaged, store.figures().misses) == (0, 1)
    assert await read(store, "a/large") == LARGE
    assert (store.figures().damaged, store.figures().misses) == (1, 2)


async def test_a_part_of_a_damaged_block_is_never_served(open_cache, tmp_path, below) -> None:
    await below.set("a/large", buffer(LARGE))
    store = open_cache(disk_bytes=3_000_000)
    await read(store, "a/large")
    (record,) = records(tmp_path / "tier")
    data = bytearray(record.read_bytes())
    data[-1] ^= 1
    record.write_bytes(data)
    assert await read(store, "a/large", RangeByteRequest(999_990, 1_000_000)) == LARGE[999_990:1_000_000]
    assert (store.figures().damaged, store.figures().misses) == (1, 2)


async def test_a_part_past_the_end_of_a_record_is_asked_below(open_cache, below) -> None:
    await below.set("a/large", buffer(LARGE))
    store = open_cache(disk_bytes=3_000_000)
    await read(store, "a/large")
    assert await read(store, "a/large", OffsetByteRequest(len(LARGE))) == b""
    assert (store.figures().damaged, store.figures().misses) == (0, 2)


async def test_a_record_under_the_name_of_another_is_never_served(open_cache, tmp_path) -> None:
    store = open_cache()
    await read(store, "a/1")
    (one,) = records(tmp_path / "tier")
    await read(store, "a/2")
    (two,) = set(records(tmp_path / "tier")) - {one}
    shutil.copy(one, two)
    assert await read(store, "a/2") == bytes([2]) * VALUE


HALVES = {
    "no control file": lambda tier: (tier / control.CONTROL).unlink(),
    "half a control file": lambda tier: os.truncate(tier / control.CONTROL, 100),
    "zeros for a control file": lambda tier: (tier / control.CONTROL).write_bytes(
        bytes((tier / control.CONTROL).stat().st_size)
    ),
    "no folder": lambda tier: shutil.rmtree(tier / "objects"),
    "only a lock": lambda tier: [shutil.rmtree(tier), tier.mkdir(), (tier / "lock").touch()],
}


@pytest.mark.parametrize("harm", HALVES.values(), ids=HALVES)
async def test_a_half_written_folder_is_made_anew(harm, open_cache, tmp_path) -> None:
    store = open_cache()
    await fill(store, 3)
    store.close()
    harm(tmp_path / "tier")
    store = open_cache()
    await fill(store, 3)
    await fill(store, 3)
    assert store.figures().hits >= 3
    assert store.figures().failure is None
    assert store.figures().disk_bytes == size(tmp_path / "tier")


IN_USE = {
    "nothing left of it": lambda path: os.truncate(path, 0),
    "half of it": lambda path: os.truncate(path, path.stat().st_size // 2),
    "zeros": lambda path: [size := path.stat().st_size, os.truncate(path, 0), os.truncate(path, size)],
}


@pytest.mark.parametrize("harm", IN_USE.values(), ids=IN_USE)
async def test_a_control_file_that_others_change_in_use_switches_the_tier_off(
    harm, open_cache, tmp_path
) -> None:
    """It is not mapped: that would end the process (SIGBUS)."""
    caches = first, second = [open_cache(memory_bytes=100_000) for _ in range(2)]
    for each in caches:
        await fill(each, 10)
    harm(tmp_path / "tier" / control.CONTROL)
    await second.set("a/0", buffer(b"new"))
    assert await read(first, "a/0") == await read(second, "a/0") == b"new"
    for each in caches:
        for place in range(1, 10):
            assert await read(each, f"a/{place}") == bytes([place]) * VALUE
        assert "is switched off" in each.figures().failure
        assert each.figures().disk_bytes == 0
        hits = each.figures().memory_hits
        await read(each, "a/5")
        assert each.figures().memory_hits == hits + 1
        each.close()
    later = open_cache()
    for _ in range(2):
        assert await read(later, "a/0") == b"new"
    assert (later.figures().failure, later.figures().disk_hits) == (None, 1)


@pytest.mark.parametrize(("clean", "hits"), [(True, 1), (False, 0)], ids=["closed", "crashed"])
async def test_after_a_crash_of_the_machine_the_folder_is_emptied(
    clean, hits, open_cache, monkeypatch
) -> None:
    """The table of changes may be older on the disk than the records are."""
    store = open_cache()
    await fill(store, 1)
    if clean:
        store.close()
    else:
        store._state.after_fork()
    monkeypatch.setattr(control, "boot_id", lambda: os.urandom(16))
    later = open_cache()
    await fill(later, 1)
    assert later.figures().hits == hits


PROGRAM = """
import asyncio, sys
from tests.support.stores import read
from zarr.storage import LocalStore
from zarrstack import Cache
cache = Cache(LocalStore(sys.argv[1]), disk=sys.argv[2])
asyncio.run(read(cache, "a/0"))
"""


def test_a_program_that_ends_leaves_its_folder_clean(tmp_path) -> None:
    """Also without `close`: otherwise the folder would be emptied after the next boot."""
    words = (sys.executable, "-c", PROGRAM, str(tmp_path / "below"), str(tmp_path / "tier"))
    subprocess.run(words, check=True, cwd=ROOT)
    assert control.Control(str(tmp_path / "tier")).read(control.BOOT, 2) == control.CLEAN


def test_a_tier_that_is_collected_while_its_thread_uses_the_folder_waits_for_nothing(tmp_path) -> None:
    """It waited for a lock of the thread that collected it."""
    one, other = (local.LocalTier(str(tmp_path), BUDGET, "x") for _ in range(2))

    def collected() -> None:
        with one._lock:
            other.close()

    thread = threading.Thread(target=collected, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    assert not control.FileLock.held_here()
    one.close()


@pytest.mark.parametrize("name", ["zarrstack-cache.json", "zarrstack-cache-9"])
def test_another_version_is_refused(name, tmp_path) -> None:
    (tmp_path / name).touch()
    with pytest.raises(UsageError, match=rf"another version; found {name} .*expected zarrstack-cache-5"):
        Cache(MemoryStore(), disk=tmp_path)


def test_a_folder_with_other_files_is_refused_and_left_alone(tmp_path) -> None:
    (tmp_path / "thesis.txt").write_text("years")
    with pytest.raises(UsageError, match=r"other files; found 'thesis.txt'"):
        Cache(MemoryStore(), disk=tmp_path)
    assert os.listdir(tmp_path) == ["thesis.txt"]


# -- a disk that is full --------------------------------------------------------------------------


async def test_a_full_disk_stops_nobody_and_is_told(open_cache, monkeypatch, caplog) -> None:
    clock = Hours()

    def full(fd, *data):
        raise OSError(errno.ENOSPC, "No space left on device")

    store = open_cache(clock=clock)
    monkeypatch.setattr(local, "_write_all", full)
    with caplog.at_level(logging.WARNING, "zarrstack.cache"):
        await fill(store, 5)
        await store.set("a/0", buffer(b"new"))
    assert await read(store, "a/0") == b"new"
    assert "No space left" in store.figures().failure
    assert len(caplog.records) == 1
    monkeypatch.undo()
    clock.seconds += 61
    await read(store, "a/1")
    await read(store, "a/1")
    assert store.figures().failure is None
    assert store.figures().hits == 1


async def test_a_record_that_cannot_replace_an_older_one_leaves_neither(
    open_cache, tmp_path, monkeypatch
) -> None:
    """The older one is removed first: ext4 writes a file to the disk that is renamed over another."""

    def fail(*args, **options):
        raise OSError(errno.EIO, "Input/output error")

    store = open_cache()
    await fill(store, 3)
    with monkeypatch.context() as patched:
        patched.setattr(local.os, "rename", fail)
        await store.set("a/0", buffer(b"new"))
    assert "Input/output error" in store.figures().failure
    assert store.figures().disk_bytes == size(tmp_path / "tier")
    assert await read(store, "a/0") == b"new"
    assert [len(await read(store, f"a/{place}")) for place in (1, 2)] == [VALUE, VALUE]
    assert store.figures().disk_hits == 2


async def test_a_disk_that_is_full_from_the_start_is_no_cache(open_cache, monkeypatch) -> None:
    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(control.os, "posix_fallocate", full)
    store = open_cache(memory_bytes=100_000)
    await fill(store, 5)
    await fill(store, 5)
    assert "No space left" in store.figures().failure
    assert store.figures().memory_hits == 5


def test_a_place_that_is_no_folder_is_refused(tmp_path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="disk tier is not a folder"):
        Cache(MemoryStore(), disk=tmp_path / "file")


@pytest.fixture
def bounded(tmp_path):
    """Ends a test in which the cache waits for a pipe."""

    def end(*_):
        for path in (tmp_path / "tier").rglob("*"):
            if path.is_fifo():
                os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK))  # threads cannot be interrupted otherwise
        raise AssertionError("the cache waits for a pipe")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize(
    ("name", "hits"),
    [
        (control.CONTROL, 0),
        *((name, 3) for name in (f"{control.CONTROL}.new", "objects/new", "lock", "step", "users")),
        ("a record", 2),
    ],
)
async def test_a_pipe_in_place_of_a_file_is_never_waited_for(
    name, hits, open_cache, tmp_path, bounded
) -> None:
    """Without its control file, the tier is switched off; a record is replaced, and a pipe can be locked."""
    store = open_cache()
    await fill(store, 3)
    store.close()
    path = records(tmp_path / "tier")[0] if name == "a record" else tmp_path / "tier" / name
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    store = open_cache()
    await fill(store, 3)
    assert store.figures().disk_hits == hits
    assert (store.figures().failure is None) is (hits > 0)
    await fill(store, 3)
    assert store.figures().disk_hits == (hits + 3 if hits else 0)
