"""The listing of a store's archive is stored beside the job: a resume reads objects without listing them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tests.support.bucket import Bucket, serving
from tests.support.job_archives import tree, values

import zarrlift
from zarrlift.jobs.ledger.ledger import Job
from zarrlift.jobs.stored_inventories import inventory_path

ARRAY = "h/rewrite"
CHUNK = "h/rewrite/1.1"
"""One of a chunk's bytes may be any: no codec would notice."""


class Place:
    """An archive in a bucket, and a job that was interrupted before it recorded anything."""

    def __init__(self, bucket: Bucket, source: Path, out: Path) -> None:
        self.bucket, self.source, self.out = bucket, source, out
        self.url = bucket.put("in", tree(source))
        self.file = inventory_path(Path(f"{out}.zarrlift.db"))
        self.seen: list[tuple[str, str]] = []

    def migrate(self) -> zarrlift.Outcome:
        return zarrlift.migrate(self.url, self.out, storage_options=self.bucket.options)

    def resume(self) -> zarrlift.Outcome:
        """Resume, and note what is asked of the source: keys that are read, prefixes that are listed."""
        self.seen.clear()

        def note(request: web.Request) -> None:
            if "list-type" not in request.query:
                self.seen.append(("read", request.path.removeprefix("/bucket/in/")))
            elif "delimiter" not in request.query:
                self.seen.append(("list", request.query["prefix"].removeprefix("in/").rstrip("/")))

        self.bucket.instead = note
        return zarrlift.resume(self.out, storage_options=self.bucket.options)

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


@pytest.fixture
def place(source: Path, tmp_path: Path) -> Iterator[Place]:
    (source / ".zmetadata").unlink()
    (source / "h/rewrite/0.1").unlink()
    with serving() as bucket:
        yield Place(bucket, source, tmp_path / "out.zarr")


@pytest.fixture
def stopped(place: Place, monkeypatch: pytest.MonkeyPatch) -> Place:
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Job, "record_task", stop)
        with pytest.raises(zarrlift.Interrupted):
            place.migrate()
    assert place.file.exists()
    return place


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
def test_an_object_that_changes_after_the_job_is_named_by_verify(how: str, place: Place) -> None:
    assert place.migrate().ok
    options = place.bucket.options
    assert zarrlift.verify(place.url, place.out, storage_options=options).ok
    key = place.change(how)
    report = zarrlift.verify(place.url, place.out, storage_options=options)
    assert not report.ok
    named = [problem for problem in report.problems if problem.kind == "source-changed"]
    assert [problem.node for problem in named] == [ARRAY]
    assert key in str(named[0].found)


def damaged(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[40] ^= 1  # in the first column
    file.write_bytes(content)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-10])


def foreign(file: Path) -> None:
    file.write_bytes(file.read_bytes().replace(b'{"job": "', b'{"job": "0'))


@pytest.mark.parametrize("damage", [damaged, cut, foreign, Path.unlink], ids=lambda way: way.__name__)
def test_without_a_sound_file_the_source_is_listed(damage: Any, stopped: Place) -> None:
    damage(stopped.file)
    assert stopped.resume().ok
    assert values(stopped.out, 3) == values(stopped.source, 2)


def test_the_file_goes_with_the_job(place: Place) -> None:
    assert place.migrate().ok
    assert zarrlift.undo(place.out).ok
    assert not place.file.exists()
