"""The contract of `Storage`, held by every kind of place."""

from __future__ import annotations

import asyncio
import os
import zipfile

import pytest
import zarr
from zarr.storage import LocalStore, MemoryStore, WrapperStore, ZipStore

from zarrlift.storage.base import DirectoryEntry
from zarrlift.storage.local.storage import LocalStorage
from zarrlift.storage.open_storage import open_storage
from zarrlift.storage.remote.zarr_store import StoreStorage
from zarrstack.core.errors import StorageError, UsageError

FILES = {"a/b/.zarray": b"{}", "a/b/0.0": b"chunk", "a/.zgroup": b"{}", ".zgroup": b"{}", "c": b""}


def filled(storage):
    for key, content in FILES.items():
        storage.put(key, content)
    return storage


def zipped(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        for key, content in FILES.items():
            archive.writestr(key, content)
    return open_storage(ZipStore(tmp_path / "x.zip", mode="r"))


PLACES = {
    "local": lambda tmp_path: filled(LocalStorage(tmp_path)),
    "memory": lambda tmp_path: filled(StoreStorage(MemoryStore())),
    "below a path": lambda tmp_path: filled(StoreStorage(MemoryStore(), "some/where")),
    "zip": zipped,
    "fsspec": lambda tmp_path: filled(open_storage(f"memory://{tmp_path}", mode="w")),
    "stack": lambda tmp_path: filled(StoreStorage(WrapperStore(LocalStore(tmp_path)))),
}


@pytest.fixture(params=PLACES)
def storage(request, tmp_path):
    return PLACES[request.param](tmp_path)


def test_objects_are_whole_and_none_means_absent(storage):
    assert storage.get("a/b/0.0") == b"chunk"
    assert storage.get("c") == b""
    assert storage.get("a/b/1.0") is None
    assert storage.get("nowhere/x") is None
    assert storage.get_many(["c", "x", "a/.zgroup"]) == [b"", None, b"{}"]
    assert storage.get_many([]) == []


def test_names_below_a_prefix_say_what_is_a_directory(storage):
    def names(prefix):
        return {(entry.name, entry.is_dir) for entry in storage.list_dir(prefix)}

    assert names("") == {("a", True), (".zgroup", False), ("c", False)}
    assert names("a") == {("b", True), (".zgroup", False)}
    assert names("a/b") == {(".zarray", False), ("0.0", False)}
    assert names("nowhere") == set()
    assert [{e.name for e in found} for found in storage.list_dirs(["a/b", "nowhere"])] == [
        {".zarray", "0.0"},
        set(),
    ]


def test_keys_below_a_prefix_are_listed_whole(storage):
    assert set(storage.list_prefix("")) == FILES.keys()
    assert set(storage.list_prefix("a/b/")) == {"a/b/.zarray", "a/b/0.0"}
    assert list(storage.list_prefix("nowhere/")) == []


@pytest.mark.parametrize("key", ["../x", "a/../../x", "/etc/passwd"])
def test_no_key_leaves_the_root(storage, key):
    with pytest.raises(UsageError, match="may not leave"):
        storage.get(key)


def test_zarr_sees_the_same_place(storage):
    from zarr.core.buffer import default_buffer_prototype

    async def look():
        store = storage.zarr_store()
        value = await store.get("a/b/0.0", default_buffer_prototype())
        missing = await store.get("x", default_buffer_prototype())
        return value.to_bytes(), missing, {name async for name in store.list_dir("a")}

    # In an event loop that is not ours, as zarr's own is.
    assert asyncio.run(look()) == (b"chunk", None, {"b", ".zgroup"})


def test_deleting_is_fine_twice(storage):
    if storage.url.endswith("zip"):
        with pytest.raises(StorageError, match=r"'c'.*read-only"):
            storage.delete("c")
        return
    storage.delete("c")
    storage.delete("c")
    assert storage.get("c") is None


def test_zarr_can_use_a_storage_written_by_us():
    store = MemoryStore()
    group = zarr.open_group(store, mode="w", zarr_format=2)
    group.create_array("x", shape=(4,), chunks=(2,), dtype="i4")[:] = 7
    assert zarr.open_group(StoreStorage(store).zarr_store(), mode="r")["x"][:].tolist() == [7] * 4


class Failing(WrapperStore):
    """A store that refuses."""

    async def get(self, key, prototype, byte_range=None):
        raise PermissionError(f"https://me:secret@host/{key}?sig=abc is forbidden; tok3n-of-mine")


def test_any_failure_is_a_storage_error_with_its_key_and_without_secrets():
    storage = StoreStorage(Failing(MemoryStore()), "p", secrets=("tok3n-of-mine",))
    with pytest.raises(StorageError) as caught:
        storage.get_many(["a", "b/.zarray"])
    assert caught.value.problem.key in ("a", "b/.zarray")
    assert "PermissionError" in str(caught.value)
    assert not [secret for secret in ("secret", "abc", "tok3n") if secret in str(caught.value)]


def test_requests_in_flight_are_bounded():
    class Counting(WrapperStore):
        now = most = 0

        async def get(self, key, prototype, byte_range=None):
            self.now += 1
            self.most = max(self.most, self.now)
            await asyncio.sleep(0)
            self.now -= 1

    store = Counting(MemoryStore())
    assert StoreStorage(store).get_many([str(i) for i in range(500)]) == [None] * 500
    assert 1 < store.most <= 256


# ----- links


def test_a_link_that_leads_nowhere_is_no_absence(tmp_path):
    (tmp_path / "0.0").symlink_to("annex/objects/abc")
    storage = LocalStorage(tmp_path)
    with pytest.raises(StorageError, match=r"0\.0"):
        storage.get("0.0")
    assert [(entry.name, entry.is_dir) for entry in storage.list_dir("")] == [("0.0", False)]


def test_links_say_where_they_lead_and_whether_that_is_outside(tmp_path):
    (tmp_path / "root/a").mkdir(parents=True)
    (tmp_path / "root/in").symlink_to("a")
    (tmp_path / "root/out").symlink_to(tmp_path)
    (tmp_path / "root/self").symlink_to("self")
    (tmp_path / "alias").symlink_to("root")
    storage = LocalStorage(tmp_path / "alias")
    links = {entry.name: storage.leaves_root(entry.link) for entry in storage.list_dir("")}
    assert links == {"a": False, "in": False, "out": True, "self": False}
    assert DirectoryEntry("in", is_dir=True, link=str(tmp_path / "root/a")) in set(storage.list_dir(""))
    assert storage.link("in") == str(tmp_path / "root/a")
    assert storage.link("a") is None


def test_a_forked_process_has_a_loop_of_its_own():
    storage = StoreStorage(MemoryStore())
    storage.put("a", b"1")
    child = os.fork()
    if child == 0:
        os._exit(0 if storage.get("a") == b"1" else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
