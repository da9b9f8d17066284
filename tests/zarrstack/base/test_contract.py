"""What every layer and every stack can rely on, whichever codec pipeline an array uses."""

from __future__ import annotations

import asyncio
import pickle
import subprocess
import sys

import numpy as np
import pytest
import zarr
from tests.support.example_layers import Count, CountSync, Mask, Top
from tests.support.stores import got, listed, put
from zarr.abc.store import (
    ByteRequest,
    OffsetByteRequest,
    RangeByteRequest,
    SuffixByteRequest,
    SupportsGetSync,
)
from zarr.buffer import cpu
from zarr.storage import LocalStore, LoggingStore, MemoryStore, StorePath

import zarrstack
from zarrstack import Cache, Log, PerArray, Retry, Sharding, StorageTransformer, Throttle, stack
from zarrstack.base.byte_ranges import bounds, cut, slice_of
from zarrstack.base.descend import descend, serves_sync
from zarrstack.core.errors import UsageError
from zarrstack.testing import PIPELINES


def test_a_stack_reads_from_the_array_down_to_the_store():
    bottom, upper, lower = MemoryStore(), Count(), Mask()
    store = stack(bottom, upper, lower)
    assert [type(each) for each in descend(store)] == [Count, Mask, MemoryStore]
    assert (store, upper.below, lower.below) == (upper, lower, bottom)


def test_the_layers_of_a_stack_are_the_objects_that_were_given():
    count = Count()
    put(stack(MemoryStore(), count), "a", b"1")
    assert count.seen == {("set", "a"): 1}


def test_a_stack_prints_the_call_that_makes_it(tmp_path):
    store = stack(LocalStore(tmp_path), Count(), Mask(mask=7))
    assert repr(store) == f"stack(LocalStore('file://{tmp_path.as_posix()}'), Count(), Mask(mask=7))"
    assert str(store) == f"count > mask > file://{tmp_path.as_posix()}"
    assert repr(Mask(mask=7)) == "Mask(mask=7)"


def test_secrets_are_neither_printed_nor_written():
    class Secret(Mask):
        name = "secret"
        secrets = frozenset({"mask"})

    assert "mask=77" not in repr(stack(MemoryStore(), Secret(mask=77)))
    assert Secret(mask=77).to_json() == {"name": "secret", "configuration": {}}


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ([Mask(mask=1)], [Mask(mask=1)], True),
        ([Mask(mask=1)], [Mask(mask=2)], False),
        ([Mask(mask=1)], [Mask()], False),
        ([Count(), Mask()], [Mask(), Count()], False),
        ([Count()], [CountSync()], False),
    ],
    ids=["same options", "other option", "option or default", "other order", "subclass"],
)
def test_stacks_are_equal_when_layers_options_and_stores_are(one, other, same, tmp_path):
    one, other = pickle.loads(pickle.dumps([one, other]))
    bottom = MemoryStore()
    assert (stack(bottom, *one) == stack(bottom, *other)) is same
    assert stack(LocalStore(tmp_path), Mask()) != stack(LocalStore(tmp_path / "b"), Mask())


def test_an_inner_layer_is_found_also_through_stores_of_zarr():
    mask, bottom = Mask(), MemoryStore()
    store = stack(LoggingStore(stack(bottom, mask)), Count())
    assert store.inner(Mask) is mask
    assert store.inner(MemoryStore) is bottom
    assert store.inner(Top) is None


def test_a_layer_stands_in_one_stack_only():
    mask = Mask()
    stack(MemoryStore(), mask)
    with pytest.raises(UsageError, match="has a store already"):
        stack(MemoryStore(), mask)
    twice = Mask()
    with pytest.raises(UsageError, match="has a store already"):
        stack(MemoryStore(), twice, twice)


# ----- slips of whoever writes a layer


def test_a_layer_needs_a_name_of_its_own():
    class Nameless(StorageTransformer):
        pass

    with pytest.raises(TypeError, match="the class Nameless has no name: define `name` in it"):
        Nameless()


def test_options_are_given_by_keyword():
    with pytest.raises(TypeError, match=r"Mask\(\) takes options by keyword only"):
        Mask(None, 7)


def test_a_layer_that_does_not_call_the_constructor_above_it_is_told_to():
    class Hasty(StorageTransformer):
        name = "hasty"

        def __init__(self, store=None):
            pass

    with pytest.raises(UsageError, match=r"'hasty' is not initialised. Call super\(\).__init__\(store\)"):
        stack(MemoryStore(), Hasty())


@pytest.mark.parametrize("name", ["_open", "_is_open", "_ensure_open", "_check_writable", "_list_dir"])
def test_a_name_that_zarr_or_zarrstack_uses_itself_is_refused_when_the_class_is_made(name):
    with pytest.raises(TypeError, match=rf"the class Decrypts defines {name}, which zarr or zarrstack calls"):
        type("Decrypts", (Mask,), {name: lambda self, data: data})


@pytest.mark.parametrize("name", ["_get_many", "_set_many", "_with_store", "_decrypt"])
def test_a_hook_or_a_name_of_its_own_is_not_refused(name):
    type("Decrypts", (Mask,), {name: lambda self, data: data})


@pytest.mark.parametrize(
    "bottom",
    [7, None, "", "nowhere-at-all://x", StorePath(MemoryStore(), "a")],
    ids=["number", "None", "no path", "unknown protocol", "path in a store"],
)
def test_what_is_no_store_carries_no_stack(bottom):
    with pytest.raises(UsageError, match=r"a stack needs a store below it; found .*; expected a zarr Store"):
        stack(bottom, Mask())


PACKAGES = {  # what is missing: a URL that needs it, and what to install
    "gcsfs": ("gs://b/x", "fsspec gcsfs"),
    "paramiko": ("zip::sftp://h/x.zip", "fsspec paramiko"),
    "fsspec": ("s3://b/x", "fsspec s3fs"),
}
WITHOUT = """
import sys
import zarrstack
from zarrstack.errors import UsageError
for url, package in zip(sys.argv[1::2], sys.argv[2::2]):
    sys.modules[package] = None
    try:
        zarrstack.open(url)
    except UsageError as error:
        print(error)
"""


def test_a_package_that_is_missing_is_named_with_the_command_that_installs_it():
    words = [word for missing, (url, _) in PACKAGES.items() for word in (url, missing)]
    command = [sys.executable, "-c", WITHOUT, *words]
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    for line, (_, install) in zip(run.stdout.splitlines(), PACKAGES.values(), strict=True):
        assert ":// needs a package that is not installed" in line
        assert f"Install it: pip install {install}." in line


def test_a_wrong_profile_of_aws_is_named_with_the_places_to_correct_it():
    class ProfileNotFound(Exception):
        """As botocore's."""

    class Bucket(MemoryStore):
        """As one of s3fs 2026.9, which looks for its profile when it is first used."""

        async def get(self, *arguments, **options):
            raise ProfileNotFound("The config profile (prd) could not be found")

    with pytest.raises(UsageError, match=r"no such profile of AWS; found .*prd.*AWS_PROFILE") as caught:
        zarrstack.open(Bucket())
    assert isinstance(caught.value.__cause__, ProfileNotFound)


BOTTOMS = {
    "text": str,
    "path": lambda folder: folder,
    "URL": lambda folder: f"local://{folder.as_posix()}",
    "store": LocalStore,
    "store path": lambda folder: StorePath(LocalStore(folder)),
    "dictionary": lambda folder: {},
}


@pytest.mark.parametrize("given", BOTTOMS.values(), ids=BOTTOMS)
def test_a_stack_stands_on_whatever_zarr_takes_for_a_store(given, tmp_path):
    folder = tmp_path / "not" / "yet"
    bottom = given(folder)
    options = {"storage_options": {"auto_mkdir": True}} if isinstance(bottom, str) and "://" in bottom else {}
    store = stack(bottom, Mask(), **options)
    assert not folder.exists()
    zarr.create_array(store, name="a", shape=(2,), dtype="i4")[:] = [1, 2]
    assert zarr.open_array(store, path="a", mode="r")[:].tolist() == [1, 2]
    again = stack(bottom, Mask(), **options)
    assert zarr.open_array(again, path="a", mode="r")[:].tolist() == [1, 2]


@pytest.mark.parametrize(
    "make",
    [
        lambda top, mask: stack(MemoryStore(), top, mask),
        lambda top, mask: stack(MemoryStore(), top, Count(), mask),
        lambda top, mask: stack(stack(MemoryStore(), mask), top),
        lambda top, mask: stack(LoggingStore(stack(MemoryStore(), mask)), top),
    ],
    ids=["next", "deeper", "in the store", "under a store of zarr"],
)
def test_a_wrong_order_is_refused_with_the_reason(make):
    top = Top()
    with pytest.raises(UsageError, match=r"'top' cannot be above 'mask': it needs the values as they are"):
        make(top, Mask())
    stack(MemoryStore(), Mask(), top)  # and nothing was bound


def test_what_is_no_layer_is_refused():
    with pytest.raises(UsageError, match="consists of layers"):
        stack(MemoryStore(), MemoryStore())


def test_a_read_only_copy_shares_what_the_layer_counts():
    count = Count()
    copy = stack(MemoryStore(), count).with_read_only(True)
    assert got(copy, "a") is None
    assert count.seen == {("get", "a"): 1}


def test_a_layer_without_synchronous_methods_does_not_seem_to_have_them():
    assert not isinstance(stack(MemoryStore(), Mask()), SupportsGetSync)
    assert not serves_sync(stack(MemoryStore(), Mask()))
    assert serves_sync(stack(MemoryStore(), CountSync()))


def test_the_store_below_decides_whether_synchronous_methods_can_serve():
    assert not serves_sync(stack(MemoryStore(), CountSync(), Mask()))
    assert serves_sync(stack(MemoryStore(), CountSync(), CountSync()))


@pytest.mark.parametrize("method", ["get", "set", "delete"])
def test_a_subclass_that_changes_a_method_loses_the_synchronous_ones_it_did_not_write(method):
    changed = type("Changed", (CountSync,), {"name": "changed", method: getattr(Mask, method)})
    assert changed.get_sync is changed.set_sync is changed.delete_sync is None
    again = type("Again", (changed,), {"name": "again", "awaits_only_below": True})
    assert None not in (again.get_sync, again.set_sync, again.delete_sync)


def test_synchronous_methods_are_made_from_the_coroutines():
    count = CountSync()
    store = stack(MemoryStore(), count, CountSync())
    if not serves_sync(MemoryStore()):
        assert not serves_sync(store)
        return
    store.set_sync("a", cpu.Buffer.from_bytes(b"1"))
    assert store.get_sync("a").to_bytes() == b"1"
    store.delete_sync("a")
    assert count.seen == {("set", "a"): 1, ("get", "a"): 1, ("delete", "a"): 1}


def test_deleting_a_folder_leaves_no_empty_folders_behind(tmp_path):
    store = stack(LocalStore(tmp_path), Mask())
    put(store, "a/b/c", b"1")
    put(store, "d", b"2")
    asyncio.run(store.delete_dir("a"))
    assert [path.name for path in tmp_path.iterdir()] == ["d"]
    asyncio.run(store.clear())
    assert list(tmp_path.iterdir()) == []


def test_a_layer_with_its_own_listing_lists_through_it_everywhere():
    class Prefix(StorageTransformer):
        name = "prefix"

        async def list_prefix(self, prefix):
            async for key in self._store.list_prefix("x/" + prefix):
                yield key.removeprefix("x/")

    bottom = MemoryStore()
    for key in ("x/a/b", "x/a/c", "y/z"):
        put(bottom, key, b"")
    store = stack(bottom, Prefix())
    assert listed(store.list()) == ["a/b", "a/c"]
    assert listed(store.list_dir("")) == ["a"]
    assert listed(store.list_dir("a/")) == ["b", "c"]
    assert asyncio.run(store.is_empty("y"))


def test_open_makes_an_open_layer_over_a_class_of_stores():
    store = asyncio.run(Mask.open(MemoryStore))
    assert store._is_open
    with store as same:
        assert same is store
    assert not store._is_open


# Byte ranges are cut as zarr 3.4.2's MemoryStore cuts them.


VALUE = b"0123456789"

RANGES = [
    (None, VALUE),
    (RangeByteRequest(2, 5), b"234"),
    (RangeByteRequest(0, 0), b""),
    (RangeByteRequest(8, 20), b"89"),
    (RangeByteRequest(12, 20), b""),
    (RangeByteRequest(5, 2), b""),
    (RangeByteRequest(-3, -1), b"78"),
    (OffsetByteRequest(7), b"789"),
    (OffsetByteRequest(10), b""),
    (SuffixByteRequest(3), b"789"),
    (SuffixByteRequest(10), VALUE),
    (SuffixByteRequest(11), VALUE),
    (SuffixByteRequest(0), b""),
]


@pytest.mark.parametrize(("request_", "part"), RANGES, ids=str)
def test_a_range_is_a_slice_of_the_value(request_: ByteRequest | None, part: bytes) -> None:
    assert VALUE[slice_of(request_)] == part
    start, stop = bounds(request_, len(VALUE))
    assert 0 <= start <= stop <= len(VALUE)
    assert VALUE[start:stop] == part
    assert cut(cpu.Buffer.from_bytes(VALUE), request_).to_bytes() == part


def test_an_unknown_kind_of_range_is_refused() -> None:
    with pytest.raises(ValueError, match="Unexpected byte_range"):
        slice_of((0, 3))


# xarray and dask run unchanged over a stack, dask in several processes.


def over(folder, *, read_only=False):
    """A stack as one might use it every day."""
    bottom = LocalStore(folder, read_only=read_only)
    return stack(bottom, PerArray(), Log(), Cache(), Retry(), Throttle(in_flight=4))


@pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part")
@pytest.mark.parametrize("consolidated", [True, False])
def test_xarray_writes_appends_and_reads(tmp_path, consolidated):
    import xarray as xr

    first = xr.Dataset(
        {"t": (("time", "x"), np.arange(12.0).reshape(3, 4))}, {"time": [0, 1, 2], "x": list("abcd")}
    )
    second = first.assign_coords(time=[3, 4, 5])
    store = over(tmp_path)
    first.to_zarr(store, zarr_format=3, consolidated=consolidated)
    second.to_zarr(store, append_dim="time", consolidated=consolidated)
    for each in (store, over(tmp_path), over(tmp_path, read_only=True)):
        found = xr.open_zarr(each, consolidated=consolidated, chunks=None)
        xr.testing.assert_identical(found.load(), xr.concat([first, second], "time").load())


@pytest.mark.slow
def test_dask_writes_an_array_whose_metadata_names_a_transformer(tmp_path):
    import dask.array as dask_array

    values = np.arange(64).reshape(8, 8)
    target = zarrstack.create_array(
        tmp_path, name="a", shape=(8, 8), chunks=(2, 2), dtype="i8",
        storage_transformers=[Sharding(chunks_per_shard=[2, 2])],
    )  # fmt: skip
    lazy = dask_array.from_array(values, chunks=(4, 4)) * 2
    dask_array.store(lazy, target, lock=False, scheduler="processes", num_workers=2)
    assert (zarrstack.open(tmp_path, path="a")[:] == values * 2).all()


# A layer sees the same operations whichever codec pipeline an array uses.


def use(store, *, shards=None):
    """Create, write whole and in part, empty a chunk, read whole and in part."""
    array = zarr.create_array(
        store, name="a", shape=(8, 8), chunks=(2, 2), shards=shards, dtype="i4", fill_value=0
    )
    array[:] = 5
    array[3:5, 1:4] = 6
    array[:2, :2] = 0
    array = zarr.open_array(store, path="a", mode="r")
    assert int(array[:].sum()) == 5 * (64 - 6 - 4) + 6 * 6
    assert (array[3:5, 1:4] == 6).all()
    array = zarr.open_array(store, path="a")
    array.resize((4, 8))
    zarr.open_group(store, mode="a").create_group("b")
    del zarr.open_group(store, mode="a")["b"]


def counted(make, pipeline, **options):
    with zarr.config.set({"codec_pipeline.path": PIPELINES[pipeline]}):
        count = make()
        use(stack(MemoryStore(), count, Mask()), **options)
    return count.seen


@pytest.mark.parametrize("shards", [None, (4, 4)], ids=["chunks", "shards"])
@pytest.mark.parametrize("make", [Count, CountSync])
@pytest.mark.parametrize("pipeline", sorted(PIPELINES))
def test_a_layer_sees_equal_operations_under_every_pipeline(pipeline, make, shards):
    assert counted(make, pipeline, shards=shards) == counted(Count, "batched", shards=shards)


@pytest.mark.parametrize("pipeline", sorted(PIPELINES))
def test_no_value_gets_past_a_layer_that_changes_values(pipeline, tmp_path):
    with zarr.config.set({"codec_pipeline.path": PIPELINES[pipeline]}):
        use(stack(LocalStore(tmp_path), Mask()))
    stored = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert stored
    assert not [data for data in stored if b"zarr_format" in data]
