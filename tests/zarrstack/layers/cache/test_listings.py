"""Remembered listings: asked for once, and never older than a write through the cache."""

from __future__ import annotations

import asyncio
import shutil
import tempfile

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from tests.support.chances import fewer
from tests.support.stores import Counted, Hours, buffer, read
from zarr.storage import LocalStore, MemoryStore

from zarrstack.core.errors import StorageError, UsageError
from zarrstack.layers.cache.layer import Cache
from zarrstack.testing.operations import KEYS, expected, perform


class Listed(Counted):
    """Counts questions too, and can hold up a listing after its first name."""

    async def list_prefix(self, prefix):
        self.calls["list_prefix"] += 1
        async for name in super().list_prefix(prefix):
            yield name
            if self.gate is not None:
                self.reached.set()
                await self.gate.wait()

    async def list_dir(self, prefix):
        self.calls["list_dir"] += 1
        async for name in super().list_dir(prefix):
            yield name

    async def exists(self, key):
        self.calls["exists"] += 1
        return await super().exists(key)


def filled() -> Listed:
    return Listed({key: buffer(b"1") for key in ("a/b/0", "a/b/1", "a/c/0", "d/0")})


async def names(listing) -> list[str]:
    return sorted([name async for name in listing])


QUESTIONS = {
    "list": lambda store: names(store.list()),
    "list_prefix": lambda store: names(store.list_prefix("a/b/")),
    "list_prefix of a part of a name": lambda store: names(store.list_prefix("a/b/1")),
    "list_dir": lambda store: names(store.list_dir("a")),
    "list_dir of the root": lambda store: names(store.list_dir("")),
    "is_empty": lambda store: store.is_empty("a"),
    "is_empty of a missing folder": lambda store: store.is_empty("x"),
    "exists": lambda store: store.exists("a/b/0"),
    "exists of a missing key": lambda store: store.exists("x/y"),
}


@pytest.mark.parametrize("ask", QUESTIONS.values(), ids=QUESTIONS)
async def test_a_question_is_asked_once(ask) -> None:
    """zp#295: every listing of a cached store was a listing of the store below."""
    below = filled()
    store = Cache(below, listings=True)
    wanted = await ask(below)
    below.calls.clear()
    assert [await ask(store) for _ in range(3)] == [wanted] * 3
    assert below.calls.total() == 1


@pytest.mark.parametrize("ask", QUESTIONS.values(), ids=QUESTIONS)
async def test_nothing_is_remembered_unless_asked_for(ask) -> None:
    below = filled()
    store = Cache(below)
    for _ in range(2):
        await ask(store)
    assert below.calls.total() == 2


CHANGES = {
    "set": lambda store: store.set("a/b/2", buffer(b"1")),
    "set, two folders down": lambda store: store.set("a/x/y/2", buffer(b"1")),
    "set in a new folder": lambda store: store.set("x/y", buffer(b"1")),
    "set_if_not_exists": lambda store: store.set_if_not_exists("x/y", buffer(b"1")),
    "_set_many": lambda store: store._set_many([("x/y", buffer(b"1")), ("a/b/10", buffer(b"1"))]),
    "delete": lambda store: store.delete("a/b/0"),
    "delete of a folder": lambda store: store.delete_dir("a/b"),
    "delete of the folder above": lambda store: store.delete_dir("a"),
    "delete of everything": lambda store: store.delete_dir(""),
    "clear": lambda store: store.clear(),
    "set by another spelling": lambda store: store.set("a/./b/5", buffer(b"1")),
    "set without an event loop": None,
}


@pytest.mark.parametrize("tier", ["memory", "folder"])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
async def test_every_change_shows_in_every_listing(change, tier, tmp_path) -> None:
    below = LocalStore(tmp_path / "below") if tier == "folder" else MemoryStore()
    disk = tmp_path / "tier" if tier == "folder" else None
    store = Cache(below, disk=disk, listings=True)
    for key in ("a/b/0", "a/b/1", "a/c/0", "d/0"):
        await below.set(key, buffer(b"1"))
    for ask in QUESTIONS.values():
        await ask(store)
    if change is not None:
        await change(store)
    else:
        store.set_sync("x/y", buffer(b"1"))
    for ask in QUESTIONS.values():
        assert await ask(store) == await ask(below)


async def test_a_write_leaves_the_listings_of_other_folders() -> None:
    below = filled()
    store = Cache(below, listings=True)
    for folder in ("a/b", "a/c", "a", ""):
        await names(store.list_dir(folder))
    below.calls.clear()
    await store.set("a/b/7", buffer(b"1"))
    await names(store.list_dir("a/c"))
    assert below.calls["list_dir"] == 0
    assert await names(store.list_dir("a/b")) == ["0", "1", "7"]


async def test_a_listing_that_was_overtaken_by_a_write_is_not_kept() -> None:
    below = filled()
    store = Cache(below, listings=True)
    below.hold()
    slow = asyncio.create_task(names(store.list_prefix("a/b/")))
    await below.reached.wait()
    gate, below.gate = below.gate, None
    await store.set("a/b/2", buffer(b"1"))
    gate.set()
    await slow
    assert await names(store.list_prefix("a/b/")) == ["a/b/0", "a/b/1", "a/b/2"]


async def test_a_listing_during_a_write_is_not_kept() -> None:
    """The write may still add its key, after the listing has passed its place."""

    class Slow(Listed):
        async def set(self, key, value, byte_range=None):
            self.reached.set()
            await self.go.wait()
            await super().set(key, value)

    below = Slow({"a/b/0": buffer(b"1")})
    store = Cache(below, listings=True)
    below.go, below.reached = asyncio.Event(), asyncio.Event()
    writing = asyncio.create_task(store.set("a/b/2", buffer(b"1")))
    await below.reached.wait()
    for ask in QUESTIONS.values():
        await ask(store)
    below.go.set()
    await writing
    for ask in QUESTIONS.values():
        assert await ask(store) == await ask(below)


async def test_a_listing_that_was_not_read_to_its_end_is_not_kept() -> None:
    store = Cache(filled(), listings=True)
    listing = store.list_prefix("")
    await anext(listing)
    await listing.aclose()
    assert len(await names(store.list_prefix(""))) == 4


async def test_listings_stay_within_the_budget() -> None:
    below = Listed({f"{folder}/{key}": buffer(b"") for folder in range(50) for key in range(50)})
    store = Cache(below, memory_bytes=8000, listings=True)
    for folder in range(50):
        assert len(await names(store.list_dir(str(folder)))) == 50
        assert store.figures().memory_bytes <= 8000
    assert store.figures().memory_entries > 1
    # A listing of more than a quarter of the budget is not kept: it would evict too much.
    entries = store.figures().memory_entries
    assert len(await names(store.list())) == 2500
    assert store.figures().memory_entries == entries


async def test_a_foreign_write_shows_after_the_ttl() -> None:
    clock, below = Hours(), filled()
    store = Cache(below, listings=True, ttl=60, clock=clock)
    await names(store.list_dir("d"))
    await below.set("d/1", buffer(b"1"))
    assert await names(store.list_dir("d")) == ["0"]
    clock.seconds += 61
    assert await names(store.list_dir("d")) == ["0", "1"]


async def test_a_missing_key_that_was_asked_for_is_known_to_be_missing() -> None:
    below = filled()
    store = Cache(below, listings=True)
    assert not await store.exists("x")
    below.calls.clear()
    assert await read(store, "x") is None
    with pytest.raises(FileNotFoundError):
        await store.getsize("x")
    assert below.calls.total() == 0


@pytest.mark.parametrize("prefix", ["..", "a/..", "/", "//", "a//b", "/a"])
async def test_a_prefix_that_may_name_any_folder_is_left_to_the_store_below(prefix) -> None:
    below = filled()
    store = Cache(below, listings=True)
    for _ in range(2):
        await names(store.list_prefix(prefix))
        await names(store.list_dir(prefix))
    assert below.calls["list_prefix"] == below.calls["list_dir"] == 2


async def test_offline_lists_what_was_listed(tmp_path) -> None:
    below = filled()
    online = Cache(below, disk=tmp_path, source="x", listings=True)
    await names(online.list_dir("a"))
    online.close()
    store = Cache(below, disk=tmp_path, source="x", listings=True, offline=True)
    assert await names(store.list_dir("a")) == ["b", "c"]
    with pytest.raises(StorageError, match="listing"):
        await names(store.list_dir("d"))


def test_the_option_is_true_or_false() -> None:
    with pytest.raises(UsageError, match="listings"):
        Cache(listings="yes")
    assert Cache.from_json(Cache(listings=True).to_json()) == Cache(listings=True)


class TwoCaches(RuleBasedStateMachine):
    """Two caches share a folder, as two processes do, and only one of them remembers listings."""

    keys = KEYS[:8]
    key = st.sampled_from(keys)
    path = st.sampled_from(["", "a", "a/c", "a/c/0", "ab", "missing"])
    first = st.booleans()

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.mkdtemp()
        self.model: dict[str, bytes] = {}
        below = MemoryStore()
        self.stores = [
            Cache(below, disk=self.folder, source="x", disk_bytes=30_000, memory_bytes=4000, **options)
            for options in ({"listings": True, "when_full": "keep"}, {"keep_writes": False})
        ]

    def do(self, first: bool, *operation):
        async def both():
            return await perform(self.stores[not first], operation), expected(self.model, operation)

        found, wanted = asyncio.run(both())
        assert found == wanted, operation

    @rule(first=first, key=key, value=st.binary(max_size=9))
    def set(self, first, key, value):
        self.do(first, "set", key, value)

    @rule(first=first, key=key)
    def delete(self, first, key):
        self.do(first, "delete", key)

    @rule(first=first, path=path)
    def delete_dir(self, first, path):
        self.do(first, "delete_dir", path)

    @rule(first=first, key=key)
    def get(self, first, key):
        self.do(first, "get", key, None)

    @rule(path=path)
    def is_empty(self, path):
        self.do(True, "is_empty", path)

    @rule(path=path)
    def list_dir(self, path):
        self.do(True, "list_dir", path)

    @rule(folder=st.sampled_from(["", "a/", "a/c/", "ab/"]))
    def list_prefix(self, folder):
        self.do(True, "list_prefix", folder)

    @rule(key=key)
    def exists(self, key):
        self.do(True, "exists", key)

    @invariant()
    def bounded(self):
        for store in self.stores:
            assert store.figures().memory_bytes <= 4000
            assert store.figures().disk_bytes <= 30_000

    def teardown(self):
        for store in self.stores:
            store.close()
        shutil.rmtree(self.folder)


def test_caches_that_share_a_folder_list_what_a_dictionary_does() -> None:
    run_state_machine_as_test(
        TwoCaches, settings=settings(max_examples=fewer(20), stateful_step_count=30, deadline=None)
    )
