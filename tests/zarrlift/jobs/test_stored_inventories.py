"""The listing of a store's archive is stored beside the job: a resume reads objects without listing them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tests.support.bucket import Bucket, serving
from tests.support.job_archives import tree, values

import zarrlift
from zarrlift.jobs.ledger.ledger import Job
from zarrlift.jobs.stored_inventories import inventory_path

STORED = "in a store"
"""Where the job is."""
ARRAY = "h/rewrite"
CHUNK = "h/rewrite/1.1"
"""One of a chunk's bytes may be any: no codec would notice."""


class Place:
    """An archive in a bucket, and a job that was interrupted before it recorded anything."""

    def __init__(self, bucket: Bucket, source: Path, out: Path, job: str) -> None:
        self.bucket, self.source, self.out = bucket, source, out
        self.job: dict[str, Any] = {}
        if job == STORED:
            self.job = {"job": "s3://bucket/jobs/out.zarr.zarrlift.db", "job_storage_options": bucket.options}
        self.url = bucket.put("in", tree(source))
        self.file = inventory_path(Path(f"{out}.zarrlift.db"))
        self.seen: list[tuple[str, str]] = []

    def migrate(self) -> zarrlift.Outcome:
        return zarrlift.migrate(self.url, self.out, storage_options=self.bucket.options, **self.job)

    def resume(self) -> zarrlift.Outcome:
        """Resume, and note what is asked of the source: keys that are read, prefixes that are listed."""
        self.seen.clear()

        def note(request: web.Request) -> None:
            if request.path.startswith("/bucket/jobs"):
                return
            if "list-type" not in request.query:
                self.seen.append(("read", request.path.removeprefix("/bucket/in/")))
            elif "delimiter" not in request.query:
                self.seen.append(("list", request.query["prefix"].removeprefix("in/").rstrip("/")))

        self.bucket.instead = note
        return zarrlift.resume(self.out, storage_options=self.bucket.options, **self.job)

    @property
    def is_kept(self) -> bool:
        """Whether the inventory is next to the job."""
        return any(key.endswith(".inventory") for key in self.bucket.stored("jobs")) or self.file.exists()

    def damage(self, way: Callable[[Path], object]) -> None:
        """Damage the inventory."""
        key = f"jobs/{self.file.name}"
        if self.job:
            self.file.write_bytes(self.bucket.server.objects()[key])
        way(self.file)
        if self.job and self.file.exists():
            self.bucket.server.put({key: self.file.read_bytes()})
            self.file.unlink()
        elif self.job:
            self.bucket.server.remove(key)

    def change(self, how: str) -> str:
        """Change one object; gives its key."""
        server = self.bucket.server
        before = server.objects()[f"in/{CHUNK}"]
        key = "h/rewrite/0.1" if how == "added" else CHUNK
        if how == "deleted":
            server.remove(f"in/{key}")
            (self.source / key).unlink()
            return key
        data = bytes(255 - byte for byte in before) + b"\0" * (how == "other length")
        server.put({f"in/{key}": data})
        (self.source / key).write_bytes(data)
        return key


@pytest.fixture(params=["beside the result", STORED])
def place(request: pytest.FixtureRequest, source: Path, tmp_path: Path) -> Iterator[Place]:
    (source / ".zmetadata").unlink()
    (source / "h/rewrite/0.1").unlink()
    with serving() as bucket:
        yield Place(bucket, source, tmp_path / "out.zarr", request.param)


@pytest.fixture
def stopped(place: Place, monkeypatch: pytest.MonkeyPatch) -> Place:
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Job, "record_task", stop)
        with pytest.raises(zarrlift.Interrupted):
            place.migrate()
    assert place.is_kept
    return place


@pytest.mark.slow(one_in=2)
def test_a_resume_reads_before_it_lists_and_lists_each_array_once(stopped: Place) -> None:
    assert stopped.resume().ok
    arrays = {array.path for array in zarrlift.plan(stopped.source).arrays if array.chunks}
    listed = [path for kind, path in stopped.seen if kind == "list"]
    assert sorted(listed) == sorted(arrays)
    for path in arrays:
        first = next(at for at, (kind, key) in enumerate(stopped.seen) if key.startswith(f"{path}/0"))
        assert first < stopped.seen.index(("list", path))
    assert values(stopped.out, 3) == values(stopped.source, 2)


CHANGES = ["same length", "other length", "deleted", "added"]


@pytest.mark.parametrize("how", CHANGES)
@pytest.mark.slow(one_in=3)  # so that each change is among those that are left
def test_an_object_that_changes_before_a_resume_is_named_and_the_next_resume_ends_the_job(
    how: str, stopped: Place
) -> None:
    key = stopped.change(how)
    outcome = stopped.resume()
    (problem,) = outcome.problems
    assert (problem.kind, problem.node) == ("source-changed", ARRAY)
    assert key in f"{problem.key} {problem.found}"
    assert not (stopped.out / ARRAY / "zarr.json").exists()
    if how == "other length":
        return  # no codec reads it
    assert stopped.resume().ok
    assert values(stopped.out, 3) == values(stopped.source, 2)
    stopped.seen.clear()
    assert stopped.resume().state == "nothing to do"


@pytest.mark.parametrize("how", CHANGES)
@pytest.mark.slow(one_in=8)
def test_an_object_that_changes_after_the_job_is_named_by_verify(how: str, place: Place) -> None:
    assert place.migrate().ok
    options = place.bucket.options
    assert zarrlift.verify(place.url, place.out, storage_options=options, **place.job).ok
    key = place.change(how)
    report = zarrlift.verify(place.url, place.out, storage_options=options, **place.job)
    assert not report.ok
    named = [problem for problem in report.problems if problem.kind == "source-changed"]
    assert [problem.node for problem in named] == [ARRAY]
    assert key in str(named[0].found)


def test_finish_names_objects_that_changed_since_and_goes_on(place: Place, tmp_path: Path) -> None:
    """In place they are chunks of the result, which its users may write."""
    options, job = place.bucket.options, tmp_path / "job.db"
    assert zarrlift.migrate(place.url, in_place=True, job=job, storage_options=options).ok
    assert zarrlift.verify(place.url, job=job, storage_options=options).ok
    key = place.change("same length")
    outcome = zarrlift.finish(place.url, job=job, storage_options=options)
    assert (outcome.ok, outcome.state) == (True, "finished")
    assert [(problem.node, problem.severity) for problem in outcome.problems] == [(ARRAY, "note")]
    assert key in str(outcome.problems[0].found)


def damaged(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[40] ^= 1  # in the first column
    file.write_bytes(content)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-10])


def foreign(file: Path) -> None:
    file.write_bytes(file.read_bytes().replace(b'{"job": "', b'{"job": "0'))


@pytest.mark.slow
@pytest.mark.parametrize("damage", [damaged, cut, foreign, Path.unlink], ids=lambda way: way.__name__)
def test_without_a_sound_file_the_source_is_listed(damage: Any, stopped: Place) -> None:
    stopped.damage(damage)
    assert stopped.resume().ok
    assert values(stopped.out, 3) == values(stopped.source, 2)


def test_the_file_goes_with_the_job(place: Place) -> None:
    assert place.migrate().ok
    assert place.is_kept
    assert zarrlift.undo(place.out, **place.job).ok
    assert not place.is_kept
