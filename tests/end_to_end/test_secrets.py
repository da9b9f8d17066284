"""A secret in every option, URL and variable that may hold one is in nothing that a run writes or says.

All files below the test's directory are searched, whatever they are: new kinds of files need no change here.
"""

from __future__ import annotations

import json
import logging
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tests.support.bucket import Bucket, serving
from tests.support.job_archives import tree, write_archive

import zarrlift
from zarrlift.cli import main

WORD = "hush"
"""A part of every secret."""
VARIABLES = (
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AZURE_STORAGE_ACCOUNT_KEY"),
    *("AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_CONNECTION_STRING", "AZURE_CLIENT_SECRET"),
    *("GOOGLE_SERVICE_ACCOUNT_KEY", "GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_OAUTH_ACCESS_TOKEN"),
)
BEFORE = f"https://me:{WORD}-password@127.0.0.1:9/x.zarr"
SIGNED = f"https://127.0.0.1:9/x.zarr?X-Amz-Signature={WORD}-signature&sig={WORD}-sas"
JOB = "x.zarrlift.db"


def options(bucket: Bucket, side: str) -> str:
    """For a side of a job."""
    secrets = {name: f"{WORD}-{side}-{name}" for name in ("key", "secret", "token")}
    return json.dumps(bucket.options | secrets)


@pytest.fixture
def bucket() -> Iterator[Bucket]:
    with serving() as made:
        yield made


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only directory in which anything can be written; everything is told as far as that goes."""
    for name in VARIABLES:
        monkeypatch.setenv(name, f"{WORD}-{name}")
    for name in ("HOME", "TMPDIR", "XDG_CACHE_HOME"):
        (tmp_path / name).mkdir()
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("ZARRLIFT_DEBUG", "1")
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Run:
    """Commands, and all that they said."""

    def __init__(self, place: Path, bucket: Bucket, capfd: Any, caplog: Any) -> None:
        self.place, self.bucket, self.capfd, self.caplog = place, bucket, capfd, caplog
        self.said = 0

    def __call__(self, *words: str, code: int = 0) -> None:
        """Run a command, and search all that there is now."""
        assert main(list(words)) == code, (words, self.capfd.readouterr().err)
        self.search(" ".join(words[:3]))

    def search(self, what: str) -> None:
        texts = {"output": "".join(self.capfd.readouterr()), "log": self.caplog.text}
        texts["records"] = repr([vars(record) for record in self.caplog.records])
        self.said += len(texts["output"])
        found: dict[str, bytes] = {name: text.encode() for name, text in texts.items()}
        found |= tree(self.place)
        found |= self.bucket.server.objects()
        for name, content in found.items():
            start = content.find(WORD.encode())
            assert start < 0, (what, name, content[max(start - 200, 0) : start + 100])
        self.caplog.clear()


@pytest.fixture
def run(place: Path, bucket: Bucket, capfd: Any, caplog: Any) -> Iterator[Run]:
    with caplog.at_level(logging.DEBUG):
        yield Run(place, bucket, capfd, caplog)


IN_PROCESSES = [pytest.param(executor, marks=pytest.mark.slow) for executor in ("processes", "dask")]


@pytest.mark.parametrize("executor", ["threads", *IN_PROCESSES])
def test_the_whole_life_of_a_job(executor: str, run: Run, bucket: Bucket, place: Path) -> None:
    if executor == "dask":
        pytest.importorskip("distributed")
    archive = tree(write_archive(place / "source.zarr"))
    source = bucket.put("in", archive)
    sides = ["--storage-options", options(bucket, "source")]
    sides += ["--storage-options", f"dst:{options(bucket, 'dest')}"]
    job = ("--job", JOB)
    layers = ("--source-through", "retry,log:events.jsonl", "--dest-through", "log:written.jsonl")
    watched = ("--log", "run.jsonl")
    how = ("--executor", executor, "--workers", "2", "--verbose", *watched)
    target = "s3://bucket/out"
    run("migrate", "--dry-run", source, target, *sides, *layers, "--json")

    def refused(request: web.Request) -> int | None:
        return 403 if "/in/g/recode/" in request.path and not request.path.endswith(".zarray") else None

    def closed(request: web.Request) -> int | None:
        return 403 if request.method == "PUT" and "/out/g/" in request.path else None

    for fault in (closed, refused):  # the first one ends the run with an error of a worker
        bucket.instead = fault
        run("migrate", source, target, *sides, *job, *layers, *how, code=1)
        run("status", JOB, "--json")
    bucket.instead = lambda _: None
    run("resume", JOB, *sides, *how, "--json")
    run("migrate", source, target, *sides, *job, *layers, *how)
    run("status", JOB)
    for words in (("--html", "report.html"), ("--json",)):
        run("status", "--check", "--verbose", JOB, *sides, *words)
    run("inspect", source, *sides[:2])
    run("verify", source, target, *sides, "--job", JOB, *how[:4], "--full")
    run("undo", "--yes", "--yes", JOB, *sides, "--json")
    assert run.said > 10_000


WRONG = {
    "inspect a signed URL": ("inspect", SIGNED),
    "inspect with a password": ("inspect", BEFORE),
    "plan": ("migrate", "--dry-run", SIGNED, "s3://bucket/out"),
    "a source with both": ("migrate", BEFORE + f"?sv=1&sig={WORD}", "out"),
    "a user in a bucket": ("migrate", "source.zarr", f"s3://me:{WORD}@bucket/x"),
    "an unknown scheme": ("migrate", "source.zarr", f"nosuch://me:{WORD}@bucket/x?sig={WORD}"),
    "the job": ("migrate", "source.zarr", "out", "--job", f"s3://me:{WORD}@b/x.zarrlift.db?sig={WORD}"),
    "the job as target": ("status", f"s3://me:{WORD}@b/x.zarrlift.db"),
    "resume": ("resume", SIGNED),
    "undo": ("undo", "--yes", BEFORE),
    "verify": ("verify", SIGNED, BEFORE),
    "options that are no pair": ("inspect", "s3://b/x", "--storage-options", f"{WORD}-alone"),
    "options that are no JSON": ("inspect", "s3://b/x", "--storage-options", f'{{"secret": "{WORD}'),
    "options of no use": ("inspect", "source.zarr", "--storage-options", f"secret={WORD}-word"),
    "unknown options": ("inspect", "memory://x", "--storage-options", f"nosuch={WORD}-word"),
    "a layer": (
        "migrate",
        "--dry-run",
        "source.zarr",
        "out",
        "--source-through",
        f"cache:disk=s3://me:{WORD}@bucket/x",
    ),
    "a layer's query": (
        "migrate",
        "--dry-run",
        "source.zarr",
        "out",
        "--source-through",
        f"cache:disk={SIGNED}",
    ),
    "layers that are no JSON": (
        "migrate",
        "--dry-run",
        "source.zarr",
        "out",
        "--source-through",
        f'[{{"key": "{WORD}',
    ),
    "the scheduler": (
        *("migrate", "source.zarr", "out", "--executor"),
        f"dask=nosuch://me:{WORD}@127.0.0.1:9",
    ),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.slow(one_in=23)
def test_what_is_wrong_is_told_without_secrets(name: str, run: Run, place: Path) -> None:
    write_archive(place / "source.zarr")
    words = WRONG[name]
    if "--executor" in words:
        pytest.importorskip("distributed")
    code = main(list(words))
    assert code in (1, 2), name
    run.search(name)


def test_errors_and_outcomes_in_python_hold_none(run: Run, bucket: Bucket, place: Path) -> None:
    source = bucket.put("in", tree(write_archive(place / "source.zarr")))
    sides = {"storage_options": "source", "dest_storage_options": "dest"}
    given: Any = {name: json.loads(options(bucket, side)) for name, side in sides.items()}
    bucket.instead = lambda request: 403 if "/g/recode/" in request.path else None
    outcome = zarrlift.migrate(source, "s3://bucket/out", job=JOB, **given)
    status = zarrlift.status(JOB)
    shown = repr((outcome, outcome.to_json(), status, status.to_json(), *outcome.problems))
    assert WORD not in shown
    run.search("Python")


def test_a_url_with_a_password_is_that_of_a_web_server(run: Run, bucket: Bucket, place: Path) -> None:
    bucket.put("in", tree(write_archive(place / "source.zarr")))
    server = f"http://me:{WORD}-password@127.0.0.1:{bucket.port}/bucket/in"
    watched = ("--log", "run.jsonl")
    run("migrate", server, "out", "--json", *watched)
    assert {"run.jsonl", "out/zarr.json"} <= set(tree(run.place))
    run("status", "out")
    bucket.instead = lambda _: 403
    run("verify", server, "out", code=1)
    run("inspect", f"{server}?X-Amz-Signature={WORD}", code=1)


def test_errors_of_other_libraries_hold_none(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A traceback shows what a library has put into its own error."""

    def fail(*_: object, **options: object) -> None:
        raise RuntimeError(f"cannot sign with {options} {os.environ['AZURE_CLIENT_SECRET']} at {SIGNED}")

    monkeypatch.setattr("zarr.storage.FsspecStore.from_url", fail)
    monkeypatch.setattr("zarrlift.storage.remote.store_at.bucket_store", lambda *_, **__: None)
    run("inspect", "s3://b/x", "--storage-options", f"secret={WORD}-option", code=1)
    monkeypatch.setattr("zarrlift.formats.describe.describe", fail)
    monkeypatch.setattr("zarrlift.jobs.api.describe", fail)
    run("inspect", ".", "--from", "zarr2", code=1)


def test_the_secrets_are_there() -> None:
    """Else the tests above would find nothing for another reason."""
    assert all(WORD in os.environ.get(name, WORD) for name in VARIABLES)
    assert all(any(WORD in word for word in words) for words in WRONG.values())
