"""A store's own inventory gives the same plan as a listing."""

from __future__ import annotations

import asyncio
import csv
import gzip
import hashlib
import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from tests.support.bucket import Bucket, serving
from tests.support.job_archives import tree, values, write_archive
from zarr.core.buffer import cpu
from zarr.storage import MemoryStore

import zarrlift
from zarrlift.archive.chunk_inventory import Inventory, take_inventory
from zarrlift.archive.local_scan import chunk_directories
from zarrlift.archive.nodes import Layout
from zarrlift.archive.store_inventory import RoutedListing
from zarrlift.core.chain.chain import Chain
from zarrlift.core.data_types.v3 import DataType
from zarrlift.core.grid.chunk_keys import chunk_keys_of
from zarrlift.storage.listing import ListedPage
from zarrlift.storage.open_storage import open_storage
from zarrstack.core.errors import UsageError

FIELDS = ["Bucket", "Key", "Size", "LastModifiedDate", "ETag", "IsLatest", "IsDeleteMarker"]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_archive(tmp_path_factory.mktemp("archive") / "source.zarr")


def etag(data: bytes) -> str:
    """That of S3; the server's own are shorter."""
    return f'"{hashlib.md5(data).hexdigest()}"'


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    with serving() as made:
        monkeypatch.setitem(type(made.store).bucket.__globals__, "etag", etag)
        yield made


def rows(content: dict[str, bytes]) -> list[list[str]]:
    """One row for each object, as S3 writes it: names are quoted, and in no order."""
    found = {"other.zarr/.zarray": b"{}", **{f"in/a b/{key}": data for key, data in content.items()}}
    return [
        ["bucket", quote(key), str(len(data)), "2026-01-01T00:00:00.000Z", etag(data).strip('"')]
        for key, data in reversed(found.items())
    ]


def text(table: Sequence[Sequence[str]]) -> bytes:
    file = io.StringIO()
    csv.writer(file, quoting=csv.QUOTE_ALL).writerows(table)
    return file.getvalue().encode()


def as_plain(folder: Path, table: list[list[str]]) -> Path:
    (folder / "plain.csv").write_bytes(text(table))
    return folder / "plain.csv"


def with_header(folder: Path, table: list[list[str]]) -> Path:
    return as_plain(folder, [FIELDS[:5], *table])


def by_manifest(folder: Path, table: list[list[str]]) -> Path:
    """Two packed files, of all versions of the objects."""
    (folder / "data").mkdir()
    (folder / "2026").mkdir()
    old = [[*row[:4], "0" * 32, "false", "false"] for row in table]
    parts = {"one.csv.gz": [[*row, "true", "false"] for row in table[:9]] + old}
    parts["two.csv.gz"] = [[*row, "true", "false"] for row in table[9:]]
    for name, part in parts.items():
        (folder / "data" / name).write_bytes(gzip.compress(text(part)))
    manifest: dict[str, Any] = {"fileFormat": "CSV", "fileSchema": ", ".join(FIELDS)}
    manifest["files"] = [{"key": f"inventories/data/{name}"} for name in parts]
    (folder / "2026/manifest.json").write_text(json.dumps(manifest))
    return folder / "2026/manifest.json"


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize("write", [as_plain, with_header, by_manifest], ids=lambda way: way.__name__)
def test_the_plan_is_that_of_a_listing(write: Any, bucket: Bucket, source: Path, tmp_path: Path) -> None:
    url = bucket.put("in/a b", tree(source))
    inventory = write(tmp_path, rows(tree(source)))
    options = {"storage_options": bucket.options}
    expected = zarrlift.plan(url, **options).to_json()
    bucket.store.requests.clear()
    assert zarrlift.plan(url, inventory=inventory, **options).to_json() == expected
    listed = bucket.store.requests["list"]
    zarrlift.plan(url, **options)
    assert bucket.store.requests["list"] > 2 * listed
    assert zarrlift.migrate(url, tmp_path / "out.zarr", inventory=inventory, **options).ok
    assert values(tmp_path / "out.zarr", 3) == values(source, 2)


def test_an_object_that_is_not_in_the_inventory_is_named(
    bucket: Bucket, source: Path, tmp_path: Path
) -> None:
    url = bucket.put("in/a b", tree(source))
    table = [row for row in rows(tree(source)) if not row[1].endswith("h/rewrite/1.1")]
    inventory = as_plain(tmp_path, table)
    outcome = zarrlift.migrate(
        url, tmp_path / "out.zarr", inventory=inventory, storage_options=bucket.options
    )
    (problem,) = outcome.problems
    assert (problem.kind, problem.node) == ("source-changed", "h/rewrite")
    assert problem.found == "1 added (h/rewrite/1.1)"
    assert zarrlift.resume(tmp_path / "out.zarr", storage_options=bucket.options).ok


WRONG = {
    "size": (["bucket", "in/a%20b/x", "many", "", "0" * 32], "line 2"),
    "columns": (["bucket", "in/a%20b/x", "1"], "line 2"),
    "bucket": (["other", "in/a%20b/x", "1", "", "0" * 32], "line 2"),
    "etag": (["bucket", "in/a%20b/x", "1", "", ""], "line 2"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_row_is_named(wrong: str, bucket: Bucket, source: Path, tmp_path: Path) -> None:
    url = bucket.put("in/a b", tree(source))
    row, place = WRONG[wrong]
    inventory = as_plain(tmp_path, [rows(tree(source))[0], row])
    with pytest.raises(UsageError, match=place):
        zarrlift.plan(url, inventory=inventory, storage_options=bucket.options)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (["bucket", "in/a%20b/x", "12", "34", "0" * 32], "columns .* cannot be recognized"),
        (["bucket", "elsewhere", "12", "0" * 32], "no object of the source"),
    ],
)
def test_an_inventory_that_is_not_understood_is_refused(
    row: list[str], message: str, bucket: Bucket, source: Path, tmp_path: Path
) -> None:
    url = bucket.put("in/a b", tree(source))
    with pytest.raises(UsageError, match=message):
        zarrlift.plan(url, inventory=as_plain(tmp_path, [row]), storage_options=bucket.options)
    with pytest.raises(UsageError, match="for a source in S3"):
        zarrlift.plan(source, inventory=as_plain(tmp_path, [row]))


# Chunks whose keys a pattern makes: found by a listing of files, of a store, and of all arrays at once.


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
