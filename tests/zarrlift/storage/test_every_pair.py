"""Every kind of source to every kind of destination; within one store, payloads do not pass through here."""

from __future__ import annotations

import json
import shutil
import uuid
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from aiohttp import web
from numcodecs import Blosc
from tests.support.bucket import Bucket
from tests.zarrlift.storage.conftest import files, fill, zipped
from zarr.storage import LocalStore, MemoryStore, StorePath, WrapperStore

import zarrlift
from zarrlift import ArrayRecipe, Recipe
from zarrlift.storage.open_storage import open_storage
from zarrlift.storage.remote import store_writer
from zarrlift.transfer.relink_server_side import IN_ONE_READ, server_copy


def nested(path: Path, archive: Path) -> Path:
    """The archive with chunks in folders, and nothing in `.zarray` that says so."""
    shutil.copytree(archive, path)
    for chunk in [file for file in path.rglob("*.*") if file.name[0].isdigit()]:
        target = chunk.parent / chunk.name.replace(".", "/")
        target.parent.mkdir(exist_ok=True)
        chunk.rename(target)
    for metadata in path.rglob(".zarray"):
        document = json.loads(metadata.read_text())
        del document["dimension_separator"]
        metadata.write_text(json.dumps(document))
    (path / ".zmetadata").unlink()
    return path


def doubled(path: Path, archive: Path) -> Path:
    """A zip in which a chunk was written twice: the later member counts."""
    right = files(archive)["g/relink/0.0"]
    with zipfile.ZipFile(path, "w") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # "Duplicate name"
        file.writestr("g/relink/0.0", b"an older chunk")
        for name, content in files(archive).items():
            file.writestr(name, content)
        file.writestr("g/relink/0.0", right)
    return path


SOURCES = {
    "directory": lambda tmp, archive, web: archive,
    "nested directory": lambda tmp, archive, web: nested(tmp / "nested.zarr", archive),
    "zip": lambda tmp, archive, web: zipped(tmp / "a.zip", archive),
    "zip, below a prefix": lambda tmp, archive, web: zipped(tmp / "a.zip", archive, "data/source.zarr/"),
    "zip, a member twice": lambda tmp, archive, web: doubled(tmp / "a.zip", archive),
    "zip by URL": lambda tmp, archive, web: f"zip::{zipped(tmp / 'a.zip', archive).as_uri()}",
    "MemoryStore": lambda tmp, archive, web: fill(MemoryStore(), archive),
    "memory://": lambda tmp, archive, web: fill(f"memory://{uuid.uuid4()}/source.zarr", archive),
    "http, no listing": lambda tmp, archive, web: web,
    "stack": lambda tmp, archive, web: WrapperStore(WrapperStore(LocalStore(archive))),
}
DESTINATIONS = {
    "directory": lambda tmp: tmp / "out.zarr",
    "MemoryStore": lambda tmp: MemoryStore(),
    "below a path": lambda tmp: StorePath(MemoryStore(), "deep/down"),
    "memory://": lambda tmp: f"memory://{uuid.uuid4()}/out.zarr",
    "stack": lambda tmp: WrapperStore(MemoryStore()),
}


OPTIONS = {
    "plain": None,
    "shards": ArrayRecipe(shards="3x"),
    "index first": ArrayRecipe(shards="3x", shard_index_location="start"),
    "chunks": ArrayRecipe(chunks="5,7"),
    "both": ArrayRecipe(chunks="5,7", shards="2x"),
}


def content(place: Any) -> dict[str, bytes]:
    """Every object in a place."""
    storage = open_storage(place, mode="w")
    found = {key: storage.get(key) for key in storage.list_prefix("")}
    return {key: data for key, data in found.items() if data is not None}


def recipe(option: str) -> Recipe | None:
    base = OPTIONS[option]
    return None if base is None else Recipe(base=base)


@pytest.fixture(scope="session")
def expected(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, bytes]]:
    """What each option gives from directory to directory."""
    place = tmp_path_factory.mktemp("expected")
    for option in OPTIONS:
        assert zarrlift.migrate(archive, place / option, recipe=recipe(option)).ok
    return {option: files(place / option) for option in OPTIONS}


def same(found: dict[str, bytes], expected: dict[str, bytes], source: str) -> bool:
    """Whether a result is as expected; without `.zmetadata` in the source it is not consolidated."""
    if source != "nested directory":
        return found == expected
    return {k: v for k, v in found.items() if k != "zarr.json"} == {
        k: v for k, v in expected.items() if k != "zarr.json"
    }


PAIRS = [
    # Each place meets each option.
    pytest.param(
        *(source, destination, option := [*OPTIONS][(row + column) % len(OPTIONS)]),
        id=f"{source} to {destination}, {option}",
        # At the newer end each place in turn, with a directory at the other end.
        marks=() if "directory" in (source, destination) else pytest.mark.needs_reader("once"),
    )
    for row, source in enumerate(SOURCES)
    for column, destination in enumerate(DESTINATIONS)
]


@pytest.mark.slow(one_in=29)
@pytest.mark.parametrize(("source", "destination", "option"), PAIRS)
def test_the_result_is_the_same_wherever_it_comes_from_and_goes(
    source: str, destination: str, option: str, archive, web, expected, tmp_path, monkeypatch
) -> None:
    """Shards and chunks that are changed on their way, too."""
    monkeypatch.chdir(tmp_path)
    start, end = SOURCES[source](tmp_path, archive, web), DESTINATIONS[destination](tmp_path)
    outcome = zarrlift.migrate(start, end, recipe=recipe(option))
    assert outcome.ok, outcome.problems
    assert same(content(end), expected[option], source)
    assert Path(outcome.job).parent == tmp_path
    report = zarrlift.verify(start, end, full=True)
    assert report.ok, report.problems
    assert zarrlift.migrate(start, end, recipe=recipe(option)).state == "nothing to do"
    status = zarrlift.status(outcome.job)
    assert status.state == "done"
    if isinstance(end, str | Path):
        assert zarrlift.status(end) == status
        undone = zarrlift.undo(end)
        assert undone.ok, undone.problems
        assert content(end) == {}


@pytest.mark.slow(one_in=7)
@pytest.mark.parametrize("option", [option for option in OPTIONS if option != "plain"])
def test_shards_pass_through_a_temporary_file_on_their_way_to_a_store(
    option: str, archive, expected, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(store_writer, "SPOOLED", 50)
    monkeypatch.setattr("zarrlift.transfer.blocks._HELD", 20)
    store = MemoryStore()
    assert zarrlift.migrate(archive, store, recipe=recipe(option), job=tmp_path / "job.db").ok
    assert content(store) == expected[option]


def test_a_new_store_in_memory_is_never_taken_for_an_old_one(archive, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(4):
        store = MemoryStore()
        assert zarrlift.migrate(archive, store).state == "done"
        del store  # the next one may well lie at the same address
    assert len(list(tmp_path.glob("*.zarrlift.db"))) == 4


def test_a_job_is_found_however_its_place_is_named(archive, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "real"))
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    monkeypatch.chdir(tmp_path)
    zarrlift.migrate(archive, tmp_path / "real/out.zarr")
    for target in ("{}", "{}/", "file://{}", "~/out.zarr", "link/out.zarr"):
        assert zarrlift.status(target.format(tmp_path / "real/out.zarr")).state == "done", target


# Within one object store, payloads that stay as they are do not pass through this machine.

SMALL, LARGE = 1000, 2 * IN_ONE_READ


@pytest.fixture
def source(our_bucket: Bucket, tmp_path: Path) -> str:
    """Three large chunks and one small array, neither compressed, and a blosc one."""
    rng = np.random.default_rng(5)
    root = zarr.open_group(tmp_path / "source.zarr", mode="w", zarr_format=2)
    for name, size, compressor in (("large", LARGE, None), ("small", SMALL, None), ("blosc", LARGE, Blosc())):
        array = root.create_array(name, shape=(3 * size,), chunks=(size,), dtype="u1", compressors=compressor)
        array[:] = rng.integers(0, 256, 3 * size)
    return our_bucket.put("source.zarr", files(tmp_path / "source.zarr"))


def test_the_store_copies_large_payloads_and_only_their_ends_are_read(source, our_bucket, tmp_path) -> None:
    ranges = []

    def watch(request: web.Request) -> None:
        if request.method == "GET" and ("/large/" in request.path or "/blosc/" in request.path):
            ranges.append(request.headers.get("Range"))

    our_bucket.instead = watch
    out = our_bucket.url("out.zarr")
    outcome = zarrlift.migrate(source, out, verify="none", job=tmp_path / "x.db", **our_bucket.ends)
    assert outcome.ok, outcome.problems
    assert our_bucket.asked["copy"] == 6
    of_chunks = [span for span in ranges if span is not None]
    assert len(of_chunks) >= 12
    for span in of_chunks:
        first, _, last = span.removeprefix("bytes=").partition("-")
        assert int(last) - int(first or 0) < IN_ONE_READ
    assert outcome.bytes_in > 3 * LARGE + 3 * SMALL
    zarrlift.migrate(tmp_path / "source.zarr", tmp_path / "local.zarr", verify="none")
    assert our_bucket.stored("out.zarr") == files(tmp_path / "local.zarr")


@pytest.mark.parametrize("name", ["large", "blosc"])
@pytest.mark.parametrize("damage", ["short", "long", "empty", "gone"])
def test_a_payload_is_looked_at_before_it_is_copied(name, damage, source, our_bucket, tmp_path) -> None:
    out, key = our_bucket.url("out.zarr"), f"{name}/1"
    data = our_bucket.stored("source.zarr")[key]
    if damage == "gone":
        # after the listing, which is why the move is called by itself
        from zarrlift.storage.remote.store_writer import writer_for
        from zarrlift.transfer.tasks import Task
        from zarrlift.transfer.worker import Worker

        plan = zarrlift.plan(source, out, **our_bucket.ends)
        our_bucket.server.remove(f"source.zarr/{key}")
        (array,) = [array for array in plan.arrays if array.path == name]
        options = {"storage_options": our_bucket.options}
        writer = writer_for(open_storage(out, mode="w", **options), "job", fsync=False)
        worker = Worker(open_storage(source, **options), writer)
        problems = worker.run(Task(move=array.move, number=0, indexes=np.arange(3))).problems
        assert [(problem.kind, problem.key) for problem in problems] == [("source-changed", key)]
        return
    changed = {"short": data[:-1], "long": data + b"x", "empty": b""}[damage]
    our_bucket.put("source.zarr", {key: changed})
    outcome = zarrlift.migrate(source, out, verify="none", job=tmp_path / "x.db", **our_bucket.ends)
    if (name, damage) == ("blosc", "long"):  # its header states the length
        assert outcome.ok
        assert our_bucket.stored("out.zarr")["blosc/c/1"] == data
        return
    assert [(problem.kind, problem.key) for problem in outcome.problems] == [("chunk", key)]
    assert f"{name}/c/1" not in our_bucket.stored("out.zarr")


def test_two_places_share_a_store_only_with_equal_options(our_bucket, tmp_path) -> None:
    def storage(path: str, **options: object):
        return open_storage(our_bucket.url(path), storage_options=our_bucket.options | options, mode="w")

    here = storage("a", key="a")
    assert server_copy(here, storage("b", key="a")) is not None
    assert server_copy(here, storage("b", key="b")) is None
    assert server_copy(here, storage("b")) is None
    assert server_copy(here, open_storage(tmp_path)) is None
