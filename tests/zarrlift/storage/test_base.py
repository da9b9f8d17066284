"""The contract of `Storage`, held by every kind of place."""

from __future__ import annotations

import asyncio
import os
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.another_user import folder_anybody_may_enter, without_privileges
from tests.zarrlift.storage.test_every_pair import recipe
from zarr.storage import LocalStore, MemoryStore, WrapperStore, ZipStore

import zarrlift
from zarrlift.jobs.run import Run
from zarrlift.storage.base import DirectoryEntry
from zarrlift.storage.local import files as local_files
from zarrlift.storage.local.storage import LocalStorage
from zarrlift.storage.open_storage import open_storage
from zarrlift.storage.remote.store_storage import StoreStorage
from zarrstack.core.errors import StorageError, UsageError

FILES = {"a/b/.zarray": b"{}", "a/b/0.0": b"chunk", "a/.zgroup": b"{}", ".zgroup": b"{}", "c": b""}


def filled(storage):
    for key, data in FILES.items():
        storage.put(key, data)
    return storage


def zipped(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        for key, data in FILES.items():
            archive.writestr(key, data)
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


# A directory that may not be read is named itself in the error.


@pytest.fixture
def unreadable() -> Iterator[Path]:
    """An N5 container without permissions, as a user sees it who is not root."""
    with folder_anybody_may_enter() as folder:
        root = folder / "a.n5"
        root.mkdir()
        (root / "attributes.json").write_text('{"n5": "4.0.0"}')
        open_storage(str(root))  # imports what it needs while this is still possible
        root.chmod(0)
        with without_privileges():
            yield root
        root.chmod(0o755)


def test_an_unreadable_directory_is_named_itself(unreadable: Path) -> None:
    with pytest.raises(StorageError) as caught:
        open_storage(str(unreadable))
    text = str(caught.value)
    assert "cannot read the directory" in text
    assert f"{unreadable}: Permission denied" in text
    assert "data.mdb" not in text


def test_a_path_that_cannot_be_looked_at_is_not_absent(tmp_path: Path) -> None:
    """On every Python; those of pathlib return False since 3.14."""
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path)
    (tmp_path / "nowhere").symlink_to("nothing")
    questions = (local_files.exists, local_files.is_dir, local_files.is_file)
    answers = {
        name: [ask(tmp_path / name) for ask in questions] for name in (".", "file", "link", "nowhere", "no/x")
    }
    assert answers == {
        ".": [True, True, False],
        "file": [True, False, True],
        "link": [True, True, False],
        "nowhere": [False, False, False],
        "no/x": [False, False, False],
    }
    for ask in questions:
        assert not ask(tmp_path / "a\0b")
        with pytest.raises(OSError, match="too long"):
            ask(tmp_path / ("n" * 256))


def test_a_block_that_is_gone_is_missed_without_a_listing_of_the_source(
    archive: Path, web: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What exists in the source is not known, but a block that was written has an object."""
    destination, publish, removed = tmp_path / "out.zarr", Run._write_documents, []

    def removing(run: Run, arrays: list[Any]) -> None:
        for array in arrays:
            if array.plan.path == "g/recode":
                removed.extend((destination / "g" / "recode").rglob("c/*"))
                shutil.rmtree(destination / "g" / "recode" / "c")
        publish(run, arrays)

    monkeypatch.setattr(Run, "_write_documents", removing)
    outcome = zarrlift.migrate(web, destination, recipe=recipe("both"))
    assert removed
    assert [problem.node for problem in outcome.problems] == ["g/recode"]
    assert not (destination / "g" / "recode" / "zarr.json").exists()
