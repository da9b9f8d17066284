"""Archives on web servers that list nothing and give no sizes: found by consolidated metadata."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
import zarr
from fsspec.implementations.http import HTTPFileSystem
from tests.support import fixtures_index
from tests.support.store_servers import KEY, SECRET, nginx
from tests.zarrlift.storage.conftest import Web, files

import zarrlift
from zarrlift.storage.open_storage import open_storage
from zarrlift.transfer.events import ArrayDone, Event, Planned, TaskDone
from zarrstack.core.errors import StorageError, UsageError

PAGE = b"<!DOCTYPE html><html><body>Nothing is here.</body></html>"
VALUES = np.arange(16, dtype="i4").reshape(4, 4)


@pytest.fixture(params=["v2", "v2, not compressed", "v3", "v3, sharded"])
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A consolidated archive of an array with 16 chunks, or 4 shards, of which 4 exist, or 1."""
    name: str = request.param
    group = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=int(name[1]))
    array = group.create_array(
        "x",
        shape=(8, 8),
        chunks=(2, 2),
        shards=(4, 4) if "sharded" in name else None,
        dtype="i4",
        fill_value=5,
        compressors=None if "not" in name else "auto",
    )
    array[:4, :4] = VALUES
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "not part in the Zarr format 3 specification"
        zarr.consolidate_metadata(tmp_path / "a.zarr")
    return tmp_path / "a.zarr"


def put(served: Web, archive: Path) -> str:
    for name, data in files(archive).items():
        served.put(f"a.zarr/{name}", data)
    return f"{served.url}/a.zarr"


def assert_right(place: Path) -> None:
    expected = np.full((8, 8), 5, "i4")
    expected[:4, :4] = VALUES
    assert np.array_equal(zarr.open_array(place / "x", mode="r")[:], expected)


@pytest.mark.slow(one_in=11)
@pytest.mark.parametrize("ranges", [True, False], ids=["ranges", "no ranges"])
def test_chunks_are_found_by_their_keys(ranges: bool, made: Path, served: Web, tmp_path: Path) -> None:
    place = put(served, made)
    served.ranges = ranges
    plan = zarrlift.plan(place, tmp_path / "out.zarr")
    (note,) = [problem for problem in plan.all_problems() if problem.kind == "no-listing"]
    assert "(HTTP status 404)" in note.message
    assert note.found in ("16 possible chunks", "4 possible chunks")
    assert zarrlift.migrate(place, tmp_path / "out.zarr").ok
    assert_right(tmp_path / "out.zarr")
    assert zarrlift.verify(place, tmp_path / "out.zarr", full=True).ok


@pytest.mark.parametrize("status", [401, 403, 410])
@pytest.mark.slow(one_in=13)
def test_another_status_is_an_error_unless_it_is_named(
    status: int, made: Path, served: Web, tmp_path: Path
) -> None:
    """S3 answers 403 to those who may read objects and may not list them."""
    place = put(served, made)
    served.missing = lambda _: (status, PAGE)
    with pytest.raises(StorageError, match=f"cannot read; found .*{status}"):
        zarrlift.migrate(place, tmp_path / "out.zarr")
    options = {"absent_status": status}
    outcome = zarrlift.migrate(place, tmp_path / "out.zarr", storage_options=options)
    assert outcome.ok, outcome.problems
    assert_right(tmp_path / "out.zarr")
    (note,) = [
        problem
        for problem in zarrlift.plan(place, tmp_path / "no.zarr", storage_options=options).all_problems()
        if problem.kind == "no-listing"
    ]
    assert f"404 or {status}" in note.message


@pytest.mark.slow(one_in=5)
def test_a_chunk_that_is_forbidden_keeps_its_array_from_being_published(
    made: Path, served: Web, tmp_path: Path
) -> None:
    place = put(served, made)
    served.missing = lambda path: (403 if "/x/" in path and path[-1].isdigit() else 404, PAGE)
    outcome = zarrlift.migrate(place, tmp_path / "out.zarr")
    assert not outcome.ok
    told = next(problem for problem in outcome.problems if problem.severity == "refusal")
    assert (told.node, told.message) == ("x", "cannot read")
    assert not (tmp_path / "out.zarr/x/zarr.json").exists()


@pytest.mark.parametrize("size", [len(PAGE), 16, 10_000], ids=["short", "as large as a chunk", "long"])
def test_a_page_in_place_of_a_chunk_is_never_data(size: int, made: Path, served: Web, tmp_path: Path) -> None:
    place = put(served, made)
    page = (b"<html>" if size == 16 else PAGE).ljust(size)
    served.missing = lambda path: (200, page) if "/x/" in path and path[-1].isdigit() else (404, b"")
    outcome = zarrlift.migrate(place, tmp_path / "out.zarr")
    assert not outcome.ok
    assert "HTML page in place of an object" in str(outcome.problems[0])
    assert not (tmp_path / "out.zarr/x/zarr.json").exists()


def test_a_page_in_place_of_a_document_is_named(made: Path, served: Web, tmp_path: Path) -> None:
    place = put(served, made)
    served.missing = lambda _: (200, PAGE)
    with pytest.raises(
        StorageError, match=r"HTML page in place of an object.*expected the object, or status 404"
    ):
        zarrlift.inspect(place)


@pytest.mark.needs_reader("nginx")
@pytest.mark.parametrize("index", [True, False], ids=["index pages", "no index pages, a password"])
def test_nginx_serves_an_archive(index: bool, made: Path, tmp_path: Path) -> None:
    """An index page is no listing, and none is taken for one."""
    user = "" if index else f"{KEY}:{SECRET}@"
    with nginx(made.parent, index=index) as host:
        place = f"http://{user}{host}/{'secret/' if user else ''}a.zarr"
        (note,) = (
            each for each in zarrlift.plan(place, tmp_path / "o").all_problems() if each.kind == "no-listing"
        )
        assert note.found in ("16 possible chunks", "4 possible chunks")
        outcome = zarrlift.migrate(place, tmp_path / "out.zarr", job=tmp_path / "job.db")
        assert outcome.ok, outcome.problems
        assert_right(tmp_path / "out.zarr")
        assert zarrlift.verify(place, tmp_path / "out.zarr", full=True).ok
        chunk = next(file for file in files(made) if file[-1].isdigit())
        (made / chunk).write_bytes((made / chunk).read_bytes()[:-1])
        report = zarrlift.verify(place, tmp_path / "out.zarr", full=True, job=tmp_path / "job.db")
        assert [problem.node for problem in report.problems if problem.severity == "refusal"] == ["x"]
        if user:
            with pytest.raises(StorageError, match=r"found HTTP status 401 .*the user and the password"):
                zarrlift.inspect(place.replace(SECRET, "other"))
    with pytest.raises(StorageError, match=f"does not answer; found no connection to {host}"):
        zarrlift.inspect(place)


def test_n5_cannot_be_found_without_a_listing(served: Web) -> None:
    """N5 has no consolidated metadata; a dataset of its own is one place."""
    place = put(served, fixtures_index.archive("n5/java-4.0.2/root").path.parent)
    with pytest.raises(UsageError, match=r"no archive found|nodes of this archive cannot be found"):
        zarrlift.inspect(place)


def test_an_empty_object_has_no_bytes_and_a_size(served: Web) -> None:
    served.put("a.zarr/empty", b"")
    storage = open_storage(f"{served.url}/a.zarr")
    assert (storage.get("empty"), storage.size("empty"), storage.get_part("empty", 0, 4)) == (b"", 0, b"")
    assert storage.size("missing") is None


def test_statuses_that_mean_something_else_are_refused(served: Web) -> None:
    with pytest.raises(UsageError, match="absent_status; found 500; expected 401, 403 or 410"):
        open_storage(f"{served.url}/a.zarr", storage_options={"absent_status": 500})


# Progress and `status` where a store gives no sizes: estimates that hold, and what was done at the end.


class Watched:
    """(done, total) in bytes, each time that either changes."""

    def __init__(self) -> None:
        self.done = self.total = 0
        self.seen: list[tuple[int, int]] = []

    def __call__(self, event: Event) -> None:
        match event:
            case Planned():
                self.total = event.bytes or 0
            case TaskDone():
                self.done += event.bytes_in
                self.total += event.more_bytes
            case ArrayDone():
                self.total += event.more_bytes
            case _:
                return
        self.seen.append((self.done, self.total))


def test_no_more_is_done_than_there_is_and_at_the_end_all_of_it(web: str, tmp_path: Path) -> None:
    watched = Watched()
    plan = zarrlift.plan(web)
    outcome = zarrlift.migrate(web, tmp_path / "out.zarr", progress=watched)
    assert outcome.ok
    assert not all(array.bytes_in_known for array in plan.arrays)
    assert watched.seen[0] == (0, sum(array.bytes_read for array in plan.arrays))
    assert [(done, total) for done, total in watched.seen if done > total] == []
    assert watched.seen[-1] == (outcome.bytes_in, outcome.bytes_in)
    for array in zarrlift.status(tmp_path / "out.zarr").arrays:
        assert (array.bytes_total, array.bytes_known) == (array.bytes_done, True)


def test_a_place_that_fsspec_only_reads_is_no_destination(
    archive: Path, served: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Early versions of fsspec write to no web server."""

    async def refuse(*_: object, **__: object) -> None:
        raise NotImplementedError

    monkeypatch.setattr(HTTPFileSystem, "_pipe_file", refuse)
    message = "cannot claim the destination; found NotImplementedError. Not every server takes files"
    with pytest.raises(StorageError, match=message):
        zarrlift.migrate(archive, f"{served.url}/new.zarr", job=tmp_path / "job.db")
