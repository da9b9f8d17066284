"""`--job s3://...`: a job file in a store, which outlives its machine and has one owner at a time."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zarr
from aiohttp import web
from tests.support.bucket import Bucket, serving
from tests.support.job_archives import tree, values
from tests.support.job_processes import stopping

import zarrlift
from zarrlift.errors import JobError
from zarrlift.jobs import branch
from zarrlift.jobs.ledger import stored_file
from zarrlift.jobs.ledger.ledger import Job
from zarrlift.jobs.ledger.stored_file import StoredFile
from zarrlift.jobs.publisher import Publisher
from zarrlift.jobs.stored_inventories import inventory_path
from zarrlift.storage.remote.zarr_store import StoreStorage
from zarrstack.core.errors import StorageError, UsageError

NAME = "x.zarrlift.db"
JOB = f"s3://bucket/jobs/{NAME}"
OUT = "s3://bucket/out"

ELSEWHERE = """
import json, os, signal, sys
import zarrlift
from zarrlift.jobs import branch
from zarrlift.jobs.ledger import stored_file
from zarrlift.jobs.publisher import Publisher
from zarrlift.storage.local import owner_process
source, job, options, published, uploaded = sys.argv[1:]
own = owner_process._own
owner_process._own = lambda pid: {**own(pid), "host": "elsewhere"}
if uploaded == "yes":
    branch.NoBranch.seconds = -1.0
    stored_file.StoredFile.changed = lambda self, *, now=False: self.save()
publish, count = Publisher.publish, [int(published)]
def publish_some(self, node, content):
    written = publish(self, node, content)
    count[0] -= 1
    if count[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return written
Publisher.publish = publish_some
options = json.loads(options)
more = {"job_storage_options": options, "dest_storage_options": options}
zarrlift.migrate(source, "s3://bucket/out", job=job, **more)
"""
"""A migration by a process of another host, which is killed after it has published so many documents."""


@pytest.fixture
def options(bucket: Bucket) -> dict[str, Any]:
    """For the job and the destination."""
    return {"job_storage_options": bucket.options, "dest_storage_options": bucket.options}


@pytest.fixture
def calm(source: Path, tmp_path: Path) -> dict[str, bytes]:
    """What an undisturbed run with a local job writes."""
    assert zarrlift.migrate(source, tmp_path / "calm").ok
    return tree(tmp_path / "calm")


def stored(bucket: Bucket) -> bytes | None:
    """The job file in the bucket."""
    return bucket.stored("jobs").get(NAME)


def puts_of_the_job(request: web.Request) -> bool:
    return request.method == "PUT" and request.path.endswith(NAME)


def test_every_command_takes_it(
    source: Path, bucket: Bucket, options: Any, calm: Any, tmp_path: Path
) -> None:
    outcome = zarrlift.migrate(source, OUT, job=JOB, digest=True, **options)
    assert outcome.ok, outcome.problems
    assert outcome.job == JOB
    assert any(word.startswith("job:") for word in outcome.options)
    assert bucket.stored("out").keys() == calm.keys()
    bucket.asked.clear()
    assert zarrlift.status(JOB, job_storage_options=bucket.options).state == "done"
    assert {method for method, count in bucket.asked.items() if count} == {"GET"}
    digests = zarrlift.digest(JOB, storage_options=bucket.options)
    assert zarrlift.verify(source, digests=digests).ok
    assert zarrlift.verify(OUT, job=JOB, **options).ok
    assert zarrlift.status(OUT, job=JOB, job_storage_options=bucket.options).verified == "sample"
    assert zarrlift.resume(JOB, **options).state == "nothing to do"
    assert zarrlift.undo(JOB, **options).state == "undone"
    assert bucket.stored("out") == {}
    assert zarrlift.migrate(source, OUT, job=JOB, **options).state == "done"  # in place of the undone job


@pytest.mark.slow
def test_the_command_line_takes_it(source: Path, bucket: Bucket, tmp_path: Path) -> None:
    """And leaves no copy behind, although it ends without Python's shutdown."""
    given = json.dumps(bucket.options)
    migrate = ["migrate", str(source), OUT, "--job", JOB, "--storage-options", f"dst:{given}"]
    for words in (migrate, ["status", JOB, "--json"]):
        command = [sys.executable, "-m", "zarrlift", *words, "--storage-options", f"job:{given}"]
        env = os.environ | {"TMPDIR": str(tmp_path)}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
        assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["result"]["state"] == "done"
    assert not list(tmp_path.glob("zarrlift-job-*"))


@pytest.mark.parametrize("uploaded", ["yes", "no"])
@pytest.mark.parametrize("published", [2, 4])
@pytest.mark.slow(one_in=4)
def test_another_machine_resumes(
    source: Path, bucket: Bucket, options: Any, calm: Any, published: int, uploaded: str, tmp_path: Path
) -> None:
    """Also if nothing was uploaded since the plan: what is published already is published again."""
    own = {"HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path)}
    words = [str(source), JOB, json.dumps(bucket.options), str(published), uploaded]
    killed = subprocess.run([sys.executable, "-c", ELSEWHERE, *words], env=os.environ | own, check=False)
    assert killed.returncode < 0
    assert sum(name.endswith("zarr.json") for name in bucket.stored("out")) == published
    status = zarrlift.status(JOB, job_storage_options=bucket.options)
    assert (status.state, status.activity, status.host) == ("incomplete", "unknown", "elsewhere")
    assert (sum(node.tasks_done for node in status.nodes) > 0) == (uploaded == "yes")
    with pytest.raises(JobError, match="claimed by a process that cannot be checked"):
        zarrlift.resume(JOB, **options)
    outcome = zarrlift.resume(JOB, take_over=True, **options)
    assert outcome.ok, outcome.problems
    assert bucket.stored("out") == calm


def resume_elsewhere(bucket: Bucket, monkeypatch: pytest.MonkeyPatch, at: int) -> dict[str, Any]:
    """Once a document is published, let another process take over the job, and run it to its end."""
    publish, count, seen = Publisher.publish, [at], {}
    call = """
import json, sys, zarrlift
from zarrlift.storage.local import owner_process
own = owner_process._own
owner_process._own = lambda pid: {**own(pid), "host": "elsewhere"}
options = json.loads(sys.argv[2])
more = dict(job_storage_options=options, dest_storage_options=options)
print(zarrlift.resume(sys.argv[1], take_over=True, **more).state)
"""

    def publish_some(self: Publisher, node: Any, content: Any) -> int | None:
        written = publish(self, node, content)
        count[0] -= 1
        if count[0] == 0:
            command = [sys.executable, "-c", call, JOB, json.dumps(bucket.options)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            seen.update(told=done.stdout.strip(), job=stored(bucket))
        return written

    monkeypatch.setattr(Publisher, "publish", publish_some)
    return seen


DOCUMENT = "g/recode/zarr.json"


def of_the_array(bucket: Bucket) -> dict[str, bytes]:
    return {key: data for key, data in bucket.stored("out").items() if key.startswith("g/recode/")}


def without_some_chunks(array: Any) -> None:
    array[50:250] = 0


def shorter(array: Any) -> None:
    array.resize((150, *array.shape[1:]))


@pytest.mark.parametrize("change", [without_some_chunks, shorter])
def test_arrays_without_a_record_follow_a_changed_source(
    change: Callable[[Any], None],
    source: Path,
    bucket: Bucket,
    options: Any,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """The first machine had uploaded nothing but the plan: what it has published is hidden, then replaced."""
    publish, held = Publisher.publish, []
    hidden: list[str] = []
    wrong: list[str] = []
    (source / ".zmetadata").unlink()  # the root's document would have the shape, too

    def publish_and_hold(self: Publisher, node: Any, content: Any) -> int | None:
        held.append(stored(bucket))
        return publish(self, node, content)

    with monkeypatch.context() as patched:
        patched.setattr(Publisher, "publish", publish_and_hold)
        assert zarrlift.migrate(source, OUT, job=JOB, **options).ok
    bucket.put("jobs", {NAME: held[0] or b""})
    change(zarr.open_array(str(source / "g" / "recode"), zarr_format=2))
    published = of_the_array(bucket)

    def watch(request: web.Request) -> None:
        now = of_the_array(bucket)
        if DOCUMENT not in now:
            hidden.append("the document")
        elif not hidden and now != published:
            wrong.append("chunks were changed while the old document showed them")
        if request.method == "PUT" and "/out/g/recode/c/" in request.path and DOCUMENT in now:
            wrong.append("a chunk is written that a document shows")

    bucket.instead = watch
    outcome = zarrlift.resume(JOB, **options)
    assert outcome.ok, outcome.problems
    assert hidden
    assert not wrong
    assert zarrlift.migrate(source, tmp_path / "calm").ok
    assert bucket.stored("out") == tree(tmp_path / "calm")


def test_of_two_coordinators_the_earlier_one_stops(
    source: Path, bucket: Bucket, options: Any, calm: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = resume_elsewhere(bucket, monkeypatch, at=2)
    outcome = zarrlift.migrate(source, OUT, job=JOB, **options)
    (problem,) = outcome.problems
    assert (problem.kind, problem.key) == ("job", JOB)
    assert problem.message == "another process has taken over this job"
    assert seen["told"] == "done"
    assert stored(bucket) == seen["job"]
    assert bucket.stored("out") == calm
    assert zarrlift.status(JOB, job_storage_options=bucket.options).state == "done"


def test_uploads_that_fail_for_a_while_are_told_and_repeated(
    source: Path,
    bucket: Bucket,
    options: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(stored_file, "INTERVAL", 0.0)
    monkeypatch.setattr(stored_file, "_SHARE", 0.0)  # a slow upload puts off the next one
    monkeypatch.setattr(branch.NoBranch, "seconds", -1.0)
    save_sometimes, in_background, refused = StoredFile.save_sometimes, [False], [0]

    def save_twice(self: StoredFile) -> None:
        # However busy the machine is, it is known which request comes of it, and the next one follows.
        in_background[0] = True
        for _ in range(2):
            save_sometimes(self)
            if self._upload is not None:
                self._upload[0].exception()
        in_background[0] = False

    def refuse_some(request: web.Request) -> int | None:
        if not in_background[0] or not puts_of_the_job(request) or refused[0] == 2:
            return None
        refused[0] += 1
        return 403

    monkeypatch.setattr(StoredFile, "save_sometimes", save_twice)
    bucket.instead = refuse_some
    with caplog.at_level(logging.WARNING, "zarrlift"):
        assert zarrlift.migrate(source, OUT, job=JOB, **options).ok
    assert f"{JOB}: the job file cannot be uploaded now: " in caplog.text
    assert zarrlift.status(JOB, job_storage_options=bucket.options).state == "done"


def test_a_run_that_cannot_upload_its_end_fails_and_keeps_the_copy(
    source: Path, bucket: Bucket, options: Any, calm: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    publish = Publisher.publish
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def publish_closed(self: Publisher, node: Any, content: Any) -> int | None:
        bucket.instead = lambda request: 403 if puts_of_the_job(request) and node.path else None
        return publish(self, node, content)

    monkeypatch.setattr(Publisher, "publish", publish_closed)
    monkeypatch.setattr(Publisher, "groups", lambda _: None)
    with pytest.raises(JobError, match="cannot upload the job file; found HTTP status 403") as caught:
        zarrlift.migrate(source, OUT, job=JOB, **options)
    monkeypatch.undo()
    copy = Path(str(caught.value.problem.advice).rpartition(": ")[2])
    assert {node.state for node in zarrlift.status(copy).nodes if node.kind == "array"} == {"done"}
    status = zarrlift.status(JOB, job_storage_options=bucket.options)
    assert {node.state for node in status.nodes} == {"pending"}
    bucket.instead = lambda _: None
    assert zarrlift.resume(JOB, **options).ok
    assert bucket.stored("out") == calm


def test_ctrl_c_uploads_what_is_recorded(source: Path, bucket: Bucket, options: Any) -> None:
    with stopping(Publisher, "groups"), pytest.raises(zarrlift.Interrupted) as caught:
        zarrlift.migrate(source, OUT, job=JOB, **options)
    assert caught.value.job == JOB
    status = zarrlift.status(JOB, job_storage_options=bucket.options)
    assert status.activity == "stopped"
    assert {node.state for node in status.nodes if node.kind == "array"} == {"done"}


def test_a_lost_answer_to_an_upload_is_recognised(
    source: Path, bucket: Bucket, options: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client repeats the request, which finds that the object has changed: by itself."""
    monkeypatch.setattr(stored_file, "INTERVAL", 0.0)
    monkeypatch.setattr(branch.NoBranch, "seconds", -1.0)
    count = [0]

    def reset_some(request: web.Request) -> Any:
        count[0] += puts_of_the_job(request)
        return "reset" if puts_of_the_job(request) and count[0] % 3 == 1 else None

    bucket.fault = reset_some
    outcome = zarrlift.migrate(source, OUT, job=JOB, **options)
    assert outcome.ok, outcome.problems
    assert count[0] > 3


def test_a_job_file_that_is_deleted_meanwhile_is_named(
    source: Path, bucket: Bucket, options: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish = Publisher.publish

    def publish_and_delete(self: Publisher, node: Any, content: Any) -> int | None:
        if stored(bucket) is not None:
            bucket.server.remove(f"jobs/{NAME}")
        return publish(self, node, content)

    monkeypatch.setattr(Publisher, "publish", publish_and_delete)
    outcome = zarrlift.migrate(source, OUT, job=JOB, **options)
    (problem,) = outcome.problems
    assert (problem.key, problem.message) == (JOB, "the job file was deleted while this process used it")
    assert stored(bucket) is None


def test_what_is_no_job_file_is_named(source: Path, bucket: Bucket, options: Any) -> None:
    given = {"job_storage_options": bucket.options}
    with pytest.raises(JobError, match="there is no such job file") as caught:
        zarrlift.status(JOB, **given)
    assert caught.value.problem.key == JOB
    bucket.put("jobs", {NAME: b"a text"})
    for call in (
        lambda: zarrlift.status(JOB, **given),
        lambda: zarrlift.migrate(source, OUT, job=JOB, **options),
    ):
        with pytest.raises(JobError, match="this is not a job file") as caught:
            call()
        assert caught.value.problem.key == JOB
    assert bucket.stored("out") == {}


def test_without_permission_nothing_is_written(source: Path, bucket: Bucket, options: Any) -> None:
    bucket.instead = lambda request: 403 if puts_of_the_job(request) else None
    with pytest.raises(JobError, match="cannot upload the job file; found HTTP status 403"):
        zarrlift.migrate(source, OUT, job=JOB, **options)
    assert bucket.stored("out") == {}
    bucket.instead = lambda request: 403 if request.path.endswith(NAME) else None
    with pytest.raises(StorageError, match=f"{NAME}.*cannot read; found HTTP status 403"):
        zarrlift.status(JOB, job_storage_options=bucket.options)


def test_a_server_that_ignores_the_condition_is_refused(
    source: Path, bucket: Bucket, options: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = bucket.store.object

    def careless(request: web.Request, objects: dict[str, bytes], key: str, body: bytes) -> Any:
        if "If-Match" in request.headers:
            objects[key] = body
            return web.Response(headers={"ETag": '"1"'})
        return answer(request, objects, key, body)

    monkeypatch.setattr(bucket.store, "object", careless)
    with pytest.raises(JobError, match="without comparing its version"):
        zarrlift.migrate(source, OUT, job=JOB, **options)
    assert (stored(bucket), bucket.stored("out")) == (None, {})


def test_other_stores_and_names_are_refused(source: Path, tmp_path: Path) -> None:
    for place in (f"memory://jobs/{NAME}", f"http://127.0.0.1:9/{NAME}"):
        with pytest.raises(UsageError, match="cannot compare versions") as caught:
            zarrlift.migrate(source, tmp_path / "out", job=place)
        assert caught.value.problem.found == place.rpartition("/")[0]
    with pytest.raises(UsageError, match="usual suffix"):
        zarrlift.migrate(source, tmp_path / "out", job="s3://bucket/job.db")
    with pytest.raises(UsageError, match="job storage options are for a job file in a store"):
        zarrlift.migrate(source, tmp_path / "out", job_storage_options={"key": "x"})
    assert zarrlift.migrate(source, tmp_path / "out", job=f"file://{tmp_path}/here.db").ok
    assert zarrlift.status(tmp_path / "out", job=f"file://{tmp_path}/here.db").state == "done"


def test_finish_uploads_the_documents_before_it_deletes_them(
    source: Path, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = bucket.put("in", tree(source))
    before = bucket.stored("in")
    given = {"job_storage_options": bucket.options, "storage_options": bucket.options}
    assert zarrlift.migrate(place, in_place=True, job=JOB, **given).ok
    assert zarrlift.verify(place, job=JOB, **given).ok
    held: list[bytes | None] = []
    delete = StoreStorage.delete

    def dying(self: StoreStorage, key: str) -> None:
        delete(self, key)
        if Path(key).name in (".zarray", ".zgroup"):
            held.append(stored(bucket))
            raise StorageError("the machine is gone", key=key)

    with monkeypatch.context() as patched:
        patched.setattr(StoreStorage, "delete", dying)
        with pytest.raises(StorageError, match="gone"):
            zarrlift.finish(place, job=JOB, **given)
    bucket.put("jobs", {NAME: held[0] or b""})
    assert bucket.stored("in").keys() != {*before, *bucket.stored("in")}
    assert zarrlift.undo(place, job=JOB, **given).ok
    assert bucket.stored("in") == before


def test_a_record_that_is_taken_back_is_uploaded_at_once(source: Path, bucket: Bucket, options: Any) -> None:
    """A run that rewrites what a stored record calls done could die before the record is gone."""
    zarrlift.migrate(source, OUT, job=JOB, **options)
    file = StoredFile(JOB, bucket.options)
    assert file.fetch()
    with Job.open(file) as job:
        job.note(mine="yes")
        job.commit()
        first = stored(bucket)
        job.note(more="yes")
        job.commit()
        assert stored(bucket) == first
        job.forget_tasks(job.nodes("array")[0].id)
        job.commit()
        assert stored(bucket) != first


# The listing of a store's archive is stored beside the job: a resume reads objects without listing them.


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
def stopped(place: Place) -> Place:
    with stopping(Job, "record_task"), pytest.raises(zarrlift.Interrupted):
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
