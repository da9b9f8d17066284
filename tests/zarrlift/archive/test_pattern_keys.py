"""Chunks whose keys a pattern makes: found by a listing of files, of a store, and of all arrays at once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest
from zarr.core.buffer import cpu
from zarr.storage import MemoryStore

from zarrlift.archive.chunk_inventory import Inventory, take_inventory
from zarrlift.archive.local_scan import chunk_directories
from zarrlift.archive.nodes import Layout
from zarrlift.archive.routed_listing import RoutedListing
from zarrlift.core.chain.chain import Chain
from zarrlift.core.data_types.v3 import DataType
from zarrlift.core.grid.chunk_keys import chunk_keys_of
from zarrlift.storage.listing import ListedPage
from zarrlift.storage.open_storage import open_storage

LAYOUTS = {
    "flat": ("tile_{0:02}_{1}.bin", None),
    "flat, F order": ("{1}x{0}", None),
    "nested": ("z{0:03}/{1}.raw", None),
    "deep": ("data/{1}/part{0}/chunk", None),
    "named like metadata": ("meta/{0}_{1}", None),
    "in another directory": ("a{0}_{1}", "store"),
    "in the root": ("a{0}_{1}", ""),
}


def layout(pattern: str, root: str | None, shape: tuple[int, ...] = (20, 5)) -> Layout:
    return Layout(
        shape=shape,
        data_type=DataType("uint8"),
        fill_value=0,
        chunk_shape=(1,) * len(shape),
        chain=Chain.from_json([{"name": "bytes"}]),
        keys=chunk_keys_of(pattern, len(shape)),
        root=root,
    )


def write(folder: Path, key: str, size: int) -> None:
    (folder / key).parent.mkdir(parents=True, exist_ok=True)
    (folder / key).write_bytes(bytes(size))


def in_store(folder: Path) -> MemoryStore:
    store = MemoryStore()
    for path in folder.rglob("*"):
        if path.is_file():
            value = cpu.Buffer.from_bytes(path.read_bytes())
            asyncio.run(store.set(path.relative_to(folder).as_posix(), value))
    return store


def routed(folder: Path, **arrays: Layout) -> dict[str, Inventory]:
    listing = RoutedListing((path, each, frozenset()) for path, each in arrays.items())
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    keys = [path.relative_to(folder).as_posix() for path in files]
    sizes = [path.stat().st_size for path in files]
    listing.take(ListedPage(keys, sizes, ["version"] * len(keys)))
    return {path: listing.inventory(path) for path in arrays}


@pytest.mark.parametrize(("pattern", "root"), LAYOUTS.values(), ids=LAYOUTS)
def test_every_listing_finds_the_same_chunks(pattern, root, tmp_path):
    described = layout(pattern, root)
    there = {(0, 0): 5, (3, 4): 6, (12, 1): 7, (19, 4): 8}
    for place, size in there.items():
        write(tmp_path, described.key("g/a", place), size)
    for place in ((20, 0), (0, 5)):
        write(tmp_path, described.key("g/a", place), 1)  # outside of the grid
    expected = [described.objects.index(place) for place in there]
    local = take_inventory(open_storage(tmp_path), "g/a", described)
    store = take_inventory(open_storage(in_store(tmp_path)), "g/a", described)
    everything = routed(tmp_path, **{"g/a": described})["g/a"]
    for found in (local, store, everything):
        assert found.indexes.tolist() == expected
        assert found.sizes is None or found.sizes.tolist() == [5, 6, 7, 8]
        assert found.unclaimed_count == (0 if pattern.startswith("meta") else 2)


def test_arrays_that_share_directories_have_their_own_chunks(tmp_path):
    arrays = {
        "a": layout("a_{0}", "", (3,)),
        "b": layout("b_{0}", "", (3,)),
        "c": layout("d/c_{0}", "", (3,)),
        "d": layout("{0}", None, (3,)),
    }
    for number, (path, described) in enumerate(arrays.items()):
        for place in range(3):
            write(tmp_path, described.key(path, (place,)), 10 * number + place)
    found = routed(tmp_path, **arrays)
    local, store = open_storage(tmp_path), open_storage(in_store(tmp_path))
    for number, (path, described) in enumerate(arrays.items()):
        sizes = [10 * number + place for place in range(3)]
        assert take_inventory(local, path, described).sizes.tolist() == sizes
        assert take_inventory(store, path, described).indexes.tolist() == [0, 1, 2]
        assert found[path].sizes.tolist() == sizes


def test_what_is_no_file_is_told(tmp_path):
    described = layout("z{0}/{1}", None, (3, 3))
    write(tmp_path, "a/z0/0", 1)
    (tmp_path / "a/z0/1").mkdir()
    write(tmp_path, "a/z1", 1)
    (tmp_path / "a/z2").symlink_to(tmp_path.parent)
    (tmp_path / "a/z0/2").symlink_to(tmp_path / "nowhere")
    write(tmp_path, "a/other/0", 1)
    found = take_inventory(open_storage(tmp_path), "a", described)
    assert found.indexes.tolist() == [0]
    assert {key for key, _ in found.no_files} == {"a/z0/1", "a/z1"}
    assert {key for key, _ in found.bad_links} == {"a/z2", "a/z0/2"}
    assert found.unclaimed == ("other",)


def test_the_directories_of_chunks_are_those_of_the_pattern(tmp_path):
    described = layout("data/{0:02}/part{1}/x", None, (3, 2))
    for place in np.ndindex(3, 2):
        write(tmp_path, described.key("a", place), 1)
    write(tmp_path, "a/data/notes/x", 1)
    found = set(chunk_directories(open_storage(tmp_path), "a", described))
    rows = [f"a/data/{row:02}" for row in range(3)]
    assert found == {"a", "a/data", *rows, *(f"{row}/part{part}" for row in rows for part in range(2))}
