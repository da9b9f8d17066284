"""A view shows what a migration would write: the same keys, the same bytes, without writing them."""

from __future__ import annotations

import asyncio
import json
import pickle
import re
import shutil
from collections.abc import Iterable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import numpy as np
import pytest
import zarr
from tests.support.fixtures_index import FORMATS, ExpectedArchive, archive, archives
from tests.support.web_servers import serving
from zarr.abc.store import OffsetByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.core.buffer.core import default_buffer_prototype
from zarr.storage import LocalStore, MemoryStore

import zarrlift
from zarrlift.recipe.options import Reading
from zarrlift.storage.open_storage import open_storage
from zarrlift.views.legacy import LegacyView, view_of
from zarrstack.core.errors import ChunkError, StorageError, UnsupportedError, UsageError, ZarrstackError

OCEAN = archive("zarr-2.18/people/ocean").path


CASES = [
    pytest.param(one, axes, id=f"{one.name}-{axes}" if kind == "n5" else one.name)
    for kind in FORMATS
    for one in archives(kind)
    for axes in (("reversed", "kept") if kind == "n5" else ("reversed",))
]
"""Every archive of every format; those of N5 in both orders of axes."""


def collected(names) -> list[str]:
    async def collect() -> list[str]:
        return [name async for name in names]

    return asyncio.run(collect())


def node_of(key: str) -> str:
    """The array of a document's or a chunk's key under the default encoding."""
    return re.split(r"/zarr\.json$|/c(?:/[0-9]+)*$", key)[0]


def read(view: LegacyView, key: str, byte_range=None) -> bytes | None:
    value = asyncio.run(view.get(key, default_buffer_prototype(), byte_range))
    return None if value is None else value.to_bytes()


def read_all(view: LegacyView, keys: Iterable[str]) -> dict[str, bytes | None]:
    """What is under each key, one after the other in one loop: a loop and its threads for each cost more."""

    async def collect() -> dict[str, bytes | None]:
        values = {key: await view.get(key, default_buffer_prototype()) for key in keys}
        return {key: None if value is None else value.to_bytes() for key, value in values.items()}

    return asyncio.run(collect())


@pytest.mark.slow(one_in=131)
@pytest.mark.needs_reader("once")
@pytest.mark.parametrize(("one", "axes"), CASES)
def test_a_view_serves_what_a_migration_writes(one: ExpectedArchive, axes: str, tmp_path: Path) -> None:
    result = tmp_path / "result"
    outcome = zarrlift.migrate(one.path, result, axes=axes, verify="none")
    files = [file for file in result.rglob("*") if file.is_file()]
    written = {file.relative_to(result).as_posix(): file.read_bytes() for file in files}
    view = view_of(open_storage(one.path), reading=Reading(axes=axes))
    assert read_all(view, written) == written
    more = set(collected(view.list())) - set(written)
    # What a migration refuses once it has looked into a chunk, a view refuses chunk by chunk.
    refused = {problem.node for problem in outcome.problems if problem.severity == "refusal"}
    for key in more:
        assert node_of(key) in refused
        if not key.endswith("zarr.json"):
            with pytest.raises(ZarrstackError):
                read(view, key)


def test_open_gives_groups_and_arrays_of_zarr_python() -> None:
    group = zarrlift.open(OCEAN)
    assert isinstance(group, zarr.Group)
    assert group.metadata.zarr_format == 3
    array = zarrlift.open(OCEAN, path="sst")
    assert isinstance(array, zarr.Array)
    expected = archive("zarr-2.18/people/ocean")["sst"].values
    assert np.array_equal(array[:], expected)
    assert np.array_equal(group["sst"][3, 5:9], expected[3, 5:9])


@pytest.mark.parametrize("place", ["path", "text", "file URL", "memory URL", "LocalStore", "MemoryStore"])
def test_open_takes_any_place(place: str, tmp_path: Path) -> None:
    source = shutil.copytree(OCEAN, tmp_path / "ocean.zarr")
    if place == "memory URL":
        import fsspec

        fsspec.filesystem("memory").put(str(source), "/view/ocean.zarr", recursive=True)
    files = {f.relative_to(source).as_posix(): f.read_bytes() for f in source.rglob("*") if f.is_file()}
    buffer = default_buffer_prototype().buffer
    opened = {
        "path": source,
        "text": str(source),
        "file URL": source.as_uri(),
        "memory URL": "memory://view/ocean.zarr",
        "LocalStore": LocalStore(source),
        "MemoryStore": MemoryStore({key: buffer.from_bytes(data) for key, data in files.items()}),
    }
    array = zarrlift.open(opened[place], path="sst")
    assert np.array_equal(array[:], archive("zarr-2.18/people/ocean")["sst"].values)


def test_a_view_stands_over_any_store_as_a_layer(tmp_path: Path) -> None:
    from zarrstack import Cache, Log, stack

    # Given from the array down to the store: what the view reads is logged, then cached.
    store = stack(LocalStore(OCEAN), LegacyView(), log := Log(), Cache())
    group = zarr.open_group(store, mode="r")
    assert np.array_equal(group["sst"][:], archive("zarr-2.18/people/ocean")["sst"].values)
    assert log.figures()


def test_a_copy_of_a_view_shows_the_same() -> None:
    view = view_of(open_storage(OCEAN), recipe=zarrlift.Recipe(exclude=("crs",)))
    other = pickle.loads(pickle.dumps(view))
    assert other == view
    assert set(collected(other.list())) == set(collected(view.list()))
    assert not any(key.startswith("crs/") for key in collected(other.list()))


def cut_of(whole: bytes, part: object) -> bytes:
    """What a byte range is of a whole value."""
    match part:
        case RangeByteRequest(start, end):
            return whole[start:end]
        case OffsetByteRequest(offset):
            return whole[offset:]
        case SuffixByteRequest(suffix):
            return whole[-suffix:]
    raise AssertionError(part)


@pytest.mark.parametrize(
    "part", [RangeByteRequest(3, 20), OffsetByteRequest(7), SuffixByteRequest(9), RangeByteRequest(5, 10**9)]
)
@pytest.mark.parametrize("path", ["sst", "station_name"])
def test_byte_ranges_are_those_of_the_whole_object(path: str, part: object) -> None:
    view = view_of(open_storage(OCEAN))
    for key in collected(view.list_prefix(f"{path}/")):
        whole = read(view, key)
        cut = cut_of(whole, part)
        assert read(view, key, part) == cut
        assert view.get_sync(key, byte_range=part).to_bytes() == cut


def test_names_below_a_path() -> None:
    view = view_of(open_storage(OCEAN))
    assert {"zarr.json", "sst", "lat"} <= set(collected(view.list_dir("")))
    assert {"zarr.json", "c"} == set(collected(view.list_dir("sst")))
    chunks = {key.split("/")[2] for key in collected(view.list_prefix("sst/c/"))}
    assert set(collected(view.list_dir("sst/c"))) == chunks


def test_nothing_can_be_written() -> None:
    group = zarrlift.open(OCEAN)
    assert group.read_only
    with pytest.raises(ValueError, match="read-only"):
        group["sst"][0] = 0
    with pytest.raises(UsageError, match="cannot be written"):
        group.store.with_read_only(False)


def test_a_damaged_chunk_is_an_error_with_its_place(tmp_path: Path) -> None:
    source = shutil.copytree(OCEAN, tmp_path / "ocean.zarr")
    chunk = next(file for file in sorted((source / "sst").iterdir()) if not file.name.startswith("."))
    chunk.write_bytes(chunk.read_bytes()[:-3])
    with pytest.raises(ChunkError) as caught:
        zarrlift.open(source, path="sst")[:]
    assert caught.value.problem.node == "sst"
    assert caught.value.problem.key == f"sst/{chunk.name}"


class _Large(BaseHTTPRequestHandler):
    """An array of 16 bytes, whose chunk is announced as ten gigabytes; it knows no ranges."""

    def do_GET(self) -> None:
        chunk = self.path == "/0"
        self.send_response(200 if chunk or self.path == "/.zarray" else 404)
        content = bytes(64) if chunk else json.dumps(LARGE).encode()
        self.send_header("Content-Length", str(10 << 30 if chunk else len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


LARGE = {
    "zarr_format": 2, "shape": [4], "chunks": [4], "dtype": "<i4", "compressor": None, "fill_value": 0,
    "order": "C", "filters": None,
}  # fmt: skip


@pytest.fixture(params=["file", "http"])
def large(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An array whose chunk is an object far larger than it could be."""
    if request.param == "file":
        (tmp_path / ".zarray").write_text(json.dumps(LARGE))
        with (tmp_path / "0").open("wb") as file:
            file.truncate(1 << 40)
        yield str(tmp_path)
        return
    with serving(_Large) as url:
        yield url


@pytest.mark.parametrize(
    "part", [None, OffsetByteRequest(0), RangeByteRequest(0, 1 << 40), SuffixByteRequest(1 << 40)], ids=str
)
def test_a_chunk_that_is_too_large_is_an_error_and_not_read(part: object, large: str) -> None:
    view = view_of(open_storage(large))
    with pytest.raises(ChunkError, match="larger than a chunk of this array can be") as caught:
        read(view, "c/0", part)
    assert caught.value.problem.key == "0"


def test_a_part_of_a_chunk_that_is_too_large_is_read_alone(large: str) -> None:
    view = view_of(open_storage(large))
    assert read(view, "c/0", RangeByteRequest(4, 8)) == bytes(4)


@pytest.mark.parametrize("part", [None, RangeByteRequest(0, 4)], ids=str)
def test_a_chunk_that_links_to_nothing_is_an_error_not_the_fill_value(part: object, tmp_path: Path) -> None:
    """As git-annex leaves what it has not fetched; zarr-python's own store takes it for an absent chunk."""
    values = np.arange(4, dtype="<i4")
    array = tmp_path / "annex.zarr"
    zarr.create_array(array, shape=(4, 4), chunks=(2, 2), dtype="<i4", compressors=None, zarr_format=2)
    (array / "0.0").write_bytes(values.tobytes())
    (array / "0.1").symlink_to("../.git/annex/objects/MD5E-s16--00")
    view = view_of(open_storage(array))
    assert read(view, "c/0/0") == values.tobytes()
    assert read(view, "c/1/1", part) is None
    with pytest.raises(StorageError, match="a link leads nowhere") as caught:
        read(view, "c/0/1", part)
    assert caught.value.problem.key == "0.1"
    assert caught.value.problem.found == "a link to ../.git/annex/objects/MD5E-s16--00"


def test_a_node_that_would_be_refused_says_why_and_hides_from_lists(tmp_path: Path) -> None:
    source = shutil.copytree(OCEAN, tmp_path / "ocean.zarr")
    document = (source / "sst" / ".zarray").read_text()
    (source / "sst" / ".zarray").write_text(document.replace('"order": "C"', '"order": "K"'))
    group = zarrlift.open(source)
    assert "sst" not in dict(group.members())
    assert "lat" in dict(group.members())
    with pytest.raises(UnsupportedError, match="order"):
        zarrlift.open(source, path="sst")


def test_what_is_not_there_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such node"):
        zarrlift.open(OCEAN, path="nothing")
    with pytest.raises(UsageError, match="no archive"):
        zarrlift.open(tmp_path)


def test_a_recipe_changes_what_is_shown() -> None:
    recipe = zarrlift.Recipe(base=zarrlift.ArrayRecipe(dtype="float64"))
    array = zarrlift.open(OCEAN, path="sst", recipe=recipe)
    assert array.dtype == np.float64
    assert np.array_equal(array[:], archive("zarr-2.18/people/ocean")["sst"].values)


def test_a_link_out_of_the_archive_is_followed_only_if_that_is_meant(tmp_path: Path) -> None:
    source = shutil.copytree(OCEAN, tmp_path / "ocean.zarr")
    chunk = next(file for file in sorted((source / "sst").iterdir()) if not file.name.startswith("."))
    chunk.rename(tmp_path / "elsewhere")
    chunk.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError, match="points outside the archive"):
        zarrlift.open(source, path="sst")[:]
    shown = zarrlift.open(source, path="sst", follow_links=True)[:]
    assert np.array_equal(shown, archive("zarr-2.18/people/ocean")["sst"].values)


def test_a_group_and_an_array_are_opened_by_type() -> None:
    assert isinstance(zarrlift.open_group(OCEAN), zarr.Group)
    assert zarrlift.open_array(OCEAN, path="crs").metadata.zarr_format == 3
    with pytest.raises(UsageError, match="is a group"):
        zarrlift.open_array(OCEAN)
    with pytest.raises(UsageError, match="is an array"):
        zarrlift.open_group(OCEAN, path="crs")


def test_xarray_reads_a_view() -> None:
    import xarray

    store = zarrlift.open(OCEAN).store
    shown = xarray.open_zarr(store, consolidated=None)
    assert shown["sst"].dims == ("time", "lat", "lon")
    xarray.testing.assert_equal(shown.load(), xarray.open_zarr(OCEAN).load())
