"""An object of a bucket that changes under a job is named, and nothing wrong is published."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import pytest
import zarr
from aiohttp import web
from numcodecs import GZip
from tests.support.bucket import COPIES, Bucket
from tests.support.job_processes import stopping
from tests.zarrlift.storage.conftest import Web, files

import zarrlift
from zarrlift import ArrayRecipe, Recipe
from zarrlift.archive.shard_reader import ShardReader, chunk_reader
from zarrlift.errors import SourceChangedError
from zarrlift.formats.describe import describe
from zarrlift.jobs.publisher import Publisher
from zarrlift.jobs.run import Run
from zarrlift.storage.base import Storage
from zarrlift.storage.open_storage import open_storage
from zarrlift.transfer.relink_server_side import IN_ONE_READ
from zarrlift.transfer.worker import Worker

CHUNK, MISSING = "a/1", "a/3"
OTHER = np.arange(900, 910, dtype="<i4")


def same_length(bucket: Bucket) -> None:
    before = bucket.stored("in")[CHUNK]
    bucket.put("in", {CHUNK: GZip(0).encode(OTHER)})
    assert len(bucket.stored("in")[CHUNK]) == len(before)


def other_length(bucket: Bucket) -> None:
    bucket.put("in", {CHUNK: GZip(9).encode(OTHER)})


def deleted(bucket: Bucket) -> None:
    bucket.server.remove(f"in/{CHUNK}")


def added(bucket: Bucket) -> None:
    bucket.put("in", {MISSING: GZip(0).encode(OTHER)})


def once(change: Callable[[], object]) -> Callable[[], None]:
    """Call for a change: the first caller makes it, and other threads wait until it is complete."""
    lock, made = threading.Lock(), False

    def call() -> None:
        nonlocal made
        with lock:
            if not made:
                change()
                made = True

    return call


class Case:
    """A copy from bucket to bucket, and what changes in its source."""

    def __init__(self, bucket: Bucket, change: Callable[[Bucket], None], folder: Path) -> None:
        root = zarr.open_group(folder / "in", mode="w", zarr_format=2)
        for name in ("a", "b"):
            array = root.create_array(name, shape=(40,), chunks=(10,), dtype="<i4", compressors=GZip(0))
            array[:30] = np.arange(100, 130)
        self.source = bucket.put("in", files(folder / "in"))
        self.out = bucket.url("out")
        self.options = bucket.ends
        self.job = folder / "job.db"
        self.change = lambda: change(bucket)

    def migrate(self) -> zarrlift.Outcome:
        return zarrlift.migrate(self.source, self.out, job=self.job, **self.options)

    def resume(self) -> zarrlift.Outcome:
        return zarrlift.resume(self.job, **self.options)


def before_its_first_object(case: Case, patched: pytest.MonkeyPatch) -> zarrlift.Outcome:
    run, change = Worker.run, once(case.change)

    def late(self: Worker, *arguments: Any) -> Any:
        change()
        return run(self, *arguments)

    patched.setattr(Worker, "run", late)
    return case.migrate()


def after_its_last_object(case: Case, patched: pytest.MonkeyPatch) -> zarrlift.Outcome:
    copied, done = Run._start_checks, []

    def late(self: Run, arrays: list[Any]) -> None:
        if not done and any(array.plan.path == "a" for array in arrays):
            done.append(case.change())
        copied(self, arrays)

    patched.setattr(Run, "_start_checks", late)
    return case.migrate()


def before_it_is_resumed(case: Case, patched: pytest.MonkeyPatch) -> zarrlift.Outcome:
    at_the_array = stopping(Publisher, "publish", when=lambda _, node, *__: node.path == "a")
    with at_the_array, pytest.raises(zarrlift.Interrupted):
        case.migrate()
    case.change()
    return case.resume()


CHANGES = [same_length, other_length, deleted, added]
MOMENTS = [before_its_first_object, after_its_last_object, before_it_is_resumed]


@pytest.mark.slow(one_in=23)
@pytest.mark.parametrize("change", CHANGES, ids=lambda each: each.__name__)
@pytest.mark.parametrize("moment", MOMENTS, ids=lambda each: each.__name__)
def test_what_changes_is_named_and_nothing_of_it_is_published(
    moment: Callable[[Case, pytest.MonkeyPatch], zarrlift.Outcome],
    change: Callable[[Bucket], None],
    bucket: Bucket,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = Case(bucket, change, tmp_path)
    with monkeypatch.context() as patched:
        outcome = moment(case, patched)
    assert not outcome.ok
    assert {problem.node for problem in outcome.problems} == {"a"}
    for problem in outcome.problems:
        assert problem.kind == "source-changed" or "the source changed" in problem.message
    published = bucket.stored("out").keys()
    assert "a/zarr.json" not in published
    assert "b/zarr.json" in published or moment is before_it_is_resumed
    again = case.resume()
    assert again.ok, again.problems
    report = zarrlift.verify(case.source, case.out, full=True, **case.options)
    assert report.ok, report.problems


@pytest.mark.slow(one_in=11)
@pytest.mark.parametrize("full", [False, True], ids=["a sample", "all values"])
@pytest.mark.parametrize("change", CHANGES, ids=lambda each: each.__name__)
def test_verification_names_what_changed_since(
    change: Callable[[Bucket], None], full: bool, bucket: Bucket, tmp_path: Path
) -> None:
    case = Case(bucket, change, tmp_path)
    assert case.migrate().ok
    case.change()
    report = zarrlift.verify(case.source, case.out, full=full, job=case.job, **case.options)
    assert not report.ok
    assert {problem.node for problem in report.problems} == {"a"}


@pytest.mark.slow(one_in=23)
@pytest.mark.parametrize("change", CHANGES, ids=lambda each: each.__name__)
def test_finish_names_what_changed_since(
    change: Callable[[Bucket], None], bucket: Bucket, tmp_path: Path
) -> None:
    """As a note, since the chunks are those of the result; a missing one is a warning, too."""
    case = Case(bucket, change, tmp_path)
    options = {"storage_options": bucket.options}
    assert zarrlift.migrate(case.source, in_place=True, job=case.job, **options).ok
    assert zarrlift.verify(case.source, job=case.job, **options).ok
    case.change()
    outcome = zarrlift.finish(case.job, **options)
    lacking = [("a", "warning")] if change is deleted else []
    assert [(each.node, each.severity) for each in outcome.problems] == [("a", "note"), *lacking]


@pytest.mark.slow(one_in=5)
@pytest.mark.parametrize("when", ["instead", "fault"])
def test_what_is_replaced_while_the_store_copies_it_is_named(
    when: str, bucket: Bucket, tmp_path: Path
) -> None:
    """Before the copy is made, so that it is one of other bytes than were looked at; or just after."""
    size = 2 * IN_ONE_READ
    array = zarr.create_array(
        tmp_path / "in", shape=(2 * size,), chunks=(size,), dtype="u1", compressors=None, zarr_format=2
    )
    array[:] = np.random.default_rng(1).integers(0, 256, 2 * size)
    source = bucket.put("in", files(tmp_path / "in"))

    def replace(request: web.Request) -> None:
        if any(request.headers.get(name, "").endswith(("/1", "%2F1")) for name in COPIES):
            bucket.put("in", {"1": bytes(size)})

    setattr(bucket, when, replace)
    outcome = zarrlift.migrate(
        source, bucket.url("out"), job=tmp_path / "job.db", verify="none", **bucket.ends
    )
    assert bucket.asked["copy"] == 2
    assert {(problem.kind, problem.key) for problem in outcome.problems} == {("source-changed", "1")}
    assert "zarr.json" not in bucket.stored("out")


def test_a_shard_is_not_read_by_the_index_of_another_one(
    our_bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index without chunks would become fill values, and no listing shows a shard that was restored."""
    array = zarr.create_array(tmp_path / "in", shape=(40,), chunks=(10,), shards=(20,), dtype="<i4")
    array[:] = np.arange(100, 140)
    source = our_bucket.put("in", files(tmp_path / "in"))
    shard = our_bucket.stored("in")["c/1"]
    empty = b"\xff" * 32
    run = Worker.run

    def meanwhile(self: Worker, *arguments: Any) -> Any:
        our_bucket.put("in", {"c/1": empty + google_crc32c.value(empty).to_bytes(4, "little")})
        result = run(self, *arguments)
        our_bucket.put("in", {"c/1": shard})
        return result

    with monkeypatch.context() as patched:
        patched.setattr(Worker, "run", meanwhile)
        recipe = Recipe(base=ArrayRecipe(chunks="8", shards="none"))
        outcome = zarrlift.migrate(
            source, our_bucket.url("out"), job=tmp_path / "job.db", recipe=recipe, **our_bucket.ends
        )
    assert {(problem.kind, problem.key) for problem in outcome.problems} == {("source-changed", "c/1")}
    assert "zarr.json" not in our_bucket.stored("out")
    assert zarrlift.resume(tmp_path / "job.db", **our_bucket.ends).ok
    assert zarrlift.verify(source, our_bucket.url("out"), full=True, **our_bucket.ends).ok


def in_a_directory(request: pytest.FixtureRequest, folder: Path) -> tuple[Storage, Callable[[bytes], object]]:
    return open_storage(folder), (folder / "c/0").write_bytes


def in_a_bucket(request: pytest.FixtureRequest, folder: Path) -> tuple[Storage, Callable[[bytes], object]]:
    bucket: Bucket = request.getfixturevalue("our_bucket")
    storage = open_storage(bucket.put("in", files(folder)), storage_options=bucket.options)
    return storage, lambda data: bucket.put("in", {"c/0": data})


def in_the_web(request: pytest.FixtureRequest, folder: Path) -> tuple[Storage, Callable[[bytes], object]]:
    served: Web = request.getfixturevalue("served")
    for name, content in files(folder).items():
        served.put(f"in/{name}", content)
    return open_storage(f"{served.url}/in"), lambda data: served.put("in/c/0", data)


@pytest.mark.parametrize("place", [in_a_directory, in_a_bucket, in_the_web], ids=lambda each: each.__name__)
def test_a_shard_that_is_rewritten_after_its_index_was_read_gives_no_wrong_values(
    place: Callable[..., tuple[Storage, Callable[[bytes], object]]],
    request: pytest.FixtureRequest,
    tmp_path: Path,
) -> None:
    """Where nothing is listed either: in a comparison, and in a view."""
    shards, rng = [], np.random.default_rng(1)
    for name in ("old", "new"):
        values = rng.integers(0, 1000, 40, dtype="<i4")
        options = {"chunks": (10,), "shards": (40,), "compressors": None}
        zarr.create_array(tmp_path / name, shape=(40,), dtype="<i4", **options)[:] = values
        shards.append(((tmp_path / name / "c/0").read_bytes(), values))
    (old, _), (new, values) = shards
    assert len(old) == len(new)
    storage, write = place(request, tmp_path / "old")
    (node,) = describe(storage, format="zarr3").nodes
    reader = chunk_reader(storage, "", node.layout)
    assert isinstance(reader, ShardReader)
    assert reader.present(0).tolist() == [0, 1, 2, 3]
    write(new)
    with pytest.raises(SourceChangedError):
        list(reader.encoded(0))
    again = [reader.decode(chunk) for chunk in reader.encoded(0)]
    assert np.concatenate(again).tolist() == values.tolist()


def test_a_published_array_that_lacks_a_chunk_is_named(our_bucket: Bucket, tmp_path: Path) -> None:
    """A store does not show whether it was deleted on purpose, so only `force` writes it again."""
    case = Case(our_bucket, deleted, tmp_path)
    assert case.migrate().ok
    our_bucket.server.remove("out/a/c/1")
    before = our_bucket.stored("out")
    outcome = case.resume()
    assert [problem.node for problem in outcome.problems] == ["a"]
    assert "a/c/1" in str(outcome.problems[0].found)
    assert our_bucket.stored("out").keys() == before.keys()
    assert zarrlift.update(case.job, force=True, **case.options).ok
    assert our_bucket.stored("out").keys() == before.keys() | {"a/c/1"}
