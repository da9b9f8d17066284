"""A cache is emptied without its archive: in both tiers, for all processes, and for this source alone."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap

import pytest
from tests.support.stores import PROTOTYPE
from tests.support.stores import buffer as value
from zarr.storage import LocalStore, MemoryStore

from zarrstack import Cache, stack

KEYS = ["a/c/0", "a/c/10", "a/zarr.json", "ab/c/0", "zarr.json"]


def read(store, key):
    found = asyncio.run(store.get(key, PROTOTYPE))
    return None if found is None else found.to_bytes()


def files(folder):
    return sorted(path for path in (folder / "objects").rglob("*") if path.is_file())


def change_behind(below, data):
    for key in KEYS:
        asyncio.run(below.set(key, value(data)))


@pytest.fixture(params=["memory", "folder", "both"])
def options(request, tmp_path):
    memory = {"memory": {}, "folder": {"memory_bytes": 0}, "both": {}}[request.param]
    return memory if request.param == "memory" else {**memory, "disk": tmp_path / "cache", "source": "x"}


def test_a_cleared_cache_reads_everything_again_and_the_archive_stays(options):
    below = MemoryStore()
    change_behind(below, b"old")
    cache = Cache(below, **options)
    assert [read(cache, key) for key in KEYS] == [b"old"] * 5
    change_behind(below, b"new")
    assert [read(cache, key) for key in KEYS] == [b"old"] * 5
    cache.clear_cache()
    assert cache.figures().memory_entries == 0
    if "disk" in options:
        assert files(options["disk"]) == []
    assert [read(cache, key) for key in KEYS] == [b"new"] * 5
    assert read(cache, "a/c/10") == b"new"
    assert cache.figures().misses == 10


@pytest.mark.parametrize("prefix", ["a", "a/", "/a"])
def test_a_folder_is_forgotten_with_what_is_below_it_and_not_its_siblings(options, prefix):
    below = MemoryStore()
    change_behind(below, b"old")
    cache = Cache(below, **options)
    for key in KEYS:
        read(cache, key)
    change_behind(below, b"new")
    cache.invalidate(prefix)
    assert [read(cache, key) for key in KEYS] == [b"new"] * 3 + [b"old"] * 2


def test_a_single_key_is_forgotten_and_its_missing_answer_too(options):
    below = MemoryStore()
    cache = Cache(below, **options)
    assert read(cache, "a/c/1") is None
    change_behind(below, b"new")
    asyncio.run(below.set("a/c/1", value(b"there")))
    assert read(cache, "a/c/1") is None
    cache.invalidate("a/c/1")
    assert read(cache, "a/c/1") == b"there"


def test_a_read_in_progress_is_not_cached():
    class Slow(MemoryStore):
        async def get(self, key, prototype=None, byte_range=None):
            found = await super().get(key, prototype, byte_range)
            if not self.__dict__.get("done"):
                self.done = True
                cache.invalidate("a")
                await self.set(key, value(b"new"))
            return found

    below = Slow()
    asyncio.run(below.set("a/c/0", value(b"old")))
    cache = Cache(below)
    assert read(cache, "a/c/0") == b"old"
    assert read(cache, "a/c/0") == b"new"


def test_other_sources_in_the_folder_keep_their_values(tmp_path):
    caches = [Cache(MemoryStore(), disk=tmp_path / "cache", source=name) for name in ("x", "y")]
    for cache in caches:
        change_behind(cache.below, b"old")
        read(cache, "a/c/0")
        change_behind(cache.below, b"new")
    caches[0].clear_cache()
    assert len(files(tmp_path / "cache")) == 1
    assert [read(cache, "a/c/0") for cache in caches] == [b"new", b"old"]


def test_all_processes_forget(tmp_path):
    below = LocalStore(tmp_path / "x")
    change_behind(below, b"old")
    cache = Cache(below, disk=tmp_path / "cache")
    assert read(cache, "a/c/0") == b"old"
    change_behind(below, b"new")
    code = f"""
        import asyncio
        from zarr.storage import LocalStore
        from zarrstack import Cache
        cache = Cache(LocalStore({str(tmp_path / "x")!r}), disk={str(tmp_path / "cache")!r})
        cache.clear_cache()
    """
    assert read(cache, "a/c/0") == b"old"
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)
    assert read(cache, "a/c/0") == b"new"


def test_a_read_only_cache_can_be_emptied(options):
    below = MemoryStore()
    change_behind(below, b"old")
    cache = stack(below, Cache(**options)).with_read_only(True)
    assert read(cache, "a/c/0") == b"old"
    change_behind(below, b"new")
    cache.clear_cache()
    assert read(cache, "a/c/0") == b"new"
