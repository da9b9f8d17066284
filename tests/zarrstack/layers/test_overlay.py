"""`Overlay`: the archive with changes, and the archive itself as it was."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from tests.support.chances import examples, fewer
from tests.support.stores import PROTOTYPE, Dying, InAFolder, Killed
from zarr.core.buffer import cpu
from zarr.storage import LocalStore, MemoryStore

from zarrstack.base.stack import stack
from zarrstack.core.errors import UsageError
from zarrstack.layers.overlay.layer import Overlay
from zarrstack.layers.readonly import ReadOnly
from zarrstack.testing import LayerTests
from zarrstack.testing.operations import KEYS, expected, operations, perform


def buffer(data=b"new"):
    return cpu.Buffer.from_bytes(data)


def content(store):
    async def run():
        return {key: (await store.get(key, PROTOTYPE)).to_bytes() async for key in store.list()}

    return asyncio.run(run())


archives = st.dictionaries(st.sampled_from(KEYS), st.binary(max_size=4))


@examples(150)
@given(archives, operations(KEYS), operations(KEYS, most=8))
def test_any_operations_on_an_archive_are_seen_and_do_not_touch_it(archive, first, second):
    below = MemoryStore({key: buffer(value) for key, value in archive.items()})
    upper, model = MemoryStore(), dict(archive)

    def check(sequence):
        store = stack(below, Overlay(writes=upper), ReadOnly())

        async def run():
            for operation in sequence:
                assert await perform(store, operation) == expected(model, operation), operation
            for folder in ("", "a", "a/c", "ab", "data/root"):
                for operation in (("list_dir", folder), ("is_empty", folder)):
                    assert await perform(store, operation) == expected(model, operation), operation

        asyncio.run(run())
        assert content(store) == model

    check(first)
    check(second)  # by another layer, which knows only what lies in the two stores
    assert content(below) == archive


@pytest.mark.parametrize("lives", range(8))
@pytest.mark.parametrize(
    "change",
    [lambda s: s.delete("a/c/0"), lambda s: s.delete_dir("a"), lambda s: s.clear()],
    ids=["delete", "delete_dir", "clear"],
)
def test_what_was_overwritten_never_comes_back(change, lives):
    below = MemoryStore({"a/c/0": buffer(b"old"), "a/c/1": buffer(b"old"), "b": buffer(b"old")})
    memory = {"a/c/0": buffer(), "b": buffer()}
    store = stack(below, Overlay(writes=Dying(memory, lives=lives)))
    with contextlib.suppress(Killed):
        asyncio.run(change(store))
    left = content(stack(below, Overlay(writes=MemoryStore(memory))))
    assert {key: left[key] for key in ("a/c/0", "b") if key in left}.items() <= {
        "a/c/0": b"new",
        "b": b"new",
    }.items()


def test_before_its_first_write_it_reads_as_what_is_below(tmp_path):
    """For reading, zarr's LocalStore refuses a folder that is not there."""
    array = zarr.create_array(tmp_path / "archive", name="g/a", shape=(4,), chunks=(2,), dtype="i4")
    array[:] = [1, 2, 3, 4]
    writes = tmp_path / "not" / "there"
    layer = stack(LocalStore(tmp_path / "archive", read_only=True), Overlay(writes=writes))
    reader = layer.with_read_only(True)
    group = zarr.open_group(reader, mode="r")
    assert group["g/a"][:].tolist() == [1, 2, 3, 4]
    assert {name for name, _ in group.members(max_depth=None)} == {"g", "g/a"}
    assert content(reader) == content(layer.below)
    assert asyncio.run(reader.getsize("g/a/c/0")) == asyncio.run(layer.below.getsize("g/a/c/0"))
    assert not asyncio.run(reader.exists("nothing"))
    assert asyncio.run(reader.changes()).written == ()
    assert not writes.exists()
    zarr.open_array(layer, path="g/a", mode="r+")[:2] = 9
    assert group["g/a"][:].tolist() == [9, 9, 3, 4]  # as soon as it is there


def test_its_changes_can_be_told():
    below = MemoryStore({"a/c/0": buffer(), "a/c/1": buffer(), "b/c/0": buffer()})
    store = stack(below, Overlay(writes=MemoryStore()))

    async def run():
        await store.delete("a/c/0")
        await store.delete("never was there")
        await store.delete_dir("b")
        await store.set("a/c/2", buffer())
        return await store.changes()

    changes = asyncio.run(run())
    assert (changes.written, changes.deleted, changes.deleted_folders) == (("a/c/2",), ("a/c/0",), ("b",))


def test_zarr_changes_an_archive_that_stays_as_it_is(tmp_path):
    source = tmp_path / "archive"
    array = zarr.create_array(LocalStore(source), name="a", shape=(6,), chunks=(2,), dtype="i4", fill_value=0)
    array[:] = [1, 2, 3, 4, 5, 6]
    before = {path: path.read_bytes() for path in source.rglob("*") if path.is_file()}

    def opened():
        return stack(LocalStore(source, read_only=True), Overlay(writes=str(tmp_path / "changes")))

    changed = zarr.open_array(opened(), path="a", mode="r+")
    changed[2:4] = 0  # an empty chunk is deleted
    changed[4] = 50
    changed.attrs["note"] = "tried"
    np.testing.assert_array_equal(zarr.open_array(opened(), path="a", mode="r")[:], [1, 2, 0, 0, 50, 6])
    group = zarr.open_group(opened(), mode="a")
    group.create_array("b", shape=(2,), dtype="i4")
    assert sorted(group.array_keys()) == ["a", "b"]
    del group["a"]
    assert sorted(zarr.open_group(opened(), mode="r").array_keys()) == ["b"]
    assert before == {path: path.read_bytes() for path in source.rglob("*") if path.is_file()}


def _delete(store, key):
    asyncio.run(store.delete(key))


def test_what_another_process_deletes_is_deleted_here(tmp_path):
    below = LocalStore(tmp_path / "archive")
    asyncio.run(below.set("a/c/0", buffer(b"old")))
    store = stack(below, Overlay(writes=LocalStore(tmp_path / "changes")))
    assert content(store) == {"a/c/0": b"old"}
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        pool.submit(_delete, store, "a/c/0").result()
    assert content(store) == {}
    assert asyncio.run(store.get("a/c/0", PROTOTYPE)) is None


def test_the_archive_below_may_be_read_only_and_the_changes_too():
    below = MemoryStore({"a": buffer()}, read_only=True)
    store = stack(below, Overlay(writes=MemoryStore()))
    assert not store.read_only
    copy = store.with_read_only(True)
    assert copy.read_only
    with pytest.raises(ValueError, match="read-only"):
        asyncio.run(copy.delete("a"))
    assert pickle.loads(pickle.dumps(copy)).read_only
    assert not copy.with_read_only(False).read_only


@pytest.mark.parametrize("key", [".overlay/keys/a/.gone", ".overlay", "a/.gone"])
def test_names_of_its_own_are_refused(key):
    store = stack(MemoryStore(), Overlay(writes=MemoryStore()))
    with pytest.raises(UsageError, match="are reserved"):
        asyncio.run(store.set(key, buffer()))
    assert asyncio.run(store.get(key, PROTOTYPE)) is None


def test_the_place_of_writes_is_a_path_a_url_or_a_store(tmp_path):
    layer = Overlay(writes=tmp_path)
    assert layer == Overlay(writes=str(tmp_path)) == Overlay(writes=f"file://{tmp_path}")
    assert layer == Overlay.from_text(str(tmp_path)) == Overlay(writes=LocalStore(tmp_path))
    assert layer.to_json() == {"name": "zarrstack.overlay", "configuration": {"writes": str(tmp_path)}}
    assert Overlay.from_json(layer.to_json()) == layer
    assert isinstance(Overlay(writes="memory:").writes, MemoryStore)
    with pytest.raises(UsageError, match="no JSON form"):
        Overlay(writes="memory:").to_json()


@pytest.mark.parametrize("writes", ["", 3, None], ids=str)
def test_a_wrong_place_is_refused(writes):
    with pytest.raises(UsageError, match="writes"):
        Overlay(writes=writes)


def test_the_place_must_be_said():
    with pytest.raises(UsageError, match="needs the option 'writes'"):
        Overlay.from_json({"name": "overlay"})


# `Overlay` keeps the contract of layers, over an archive that must not change.


class OverlayTests(LayerTests):
    """The place of a test is where writes go; the archive below is given."""

    examples = fewer(20)

    def layers(self):
        place = getattr(self, "_place", None)
        return [Overlay(writes=MemoryStore() if place is None else self.upper(place, read_only=False))]

    def upper(self, place, *, read_only):
        return MemoryStore(place.memory, read_only=read_only)

    def archive(self):
        return MemoryStore()

    def make(self, place, *, read_only=False):
        return stack(self.archive(), Overlay(writes=self.upper(place, read_only=read_only)))


class TestOverAnEmptyStore(OverlayTests):
    pass


class TestOverAnEmptiedArchive(OverlayTests):
    """All that was below is deleted: nothing of it may ever come back."""

    def archive(self):
        value = cpu.Buffer.from_bytes(b"old")
        return MemoryStore(
            dict.fromkeys((*self.keys, "foo", "foo/bar", "c/0", "k", "k2", "zarr.json"), value)
        )

    def upper(self, place, *, read_only):
        place.memory.setdefault(".overlay/folders/.gone", cpu.Buffer.from_bytes(b""))
        return super().upper(place, read_only=read_only)


@pytest.mark.slow
class TestFolderOverFolder(InAFolder, OverlayTests):
    examples = 4
    steps = 8

    @pytest.fixture(autouse=True)
    def archive_folder(self, tmp_path_factory):
        self._archive = tmp_path_factory.mktemp("archive")

    def archive(self):
        return LocalStore(self._archive, read_only=True)

    def upper(self, place, *, read_only):
        return LocalStore(place.folder, read_only=read_only)
