"""What opens a place stays out of job files, plans and messages."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from tests.zarrlift.storage.conftest import files, fill

import zarrlift
from zarrlift.storage.redact import secrets_of
from zarrstack.core.errors import ZarrstackError

SECRET, TOKEN = "AKIAEXAMPLEKEY", "hunter22-of-mine"
OPTIONS = {"key": SECRET, "client_kwargs": {"token": TOKEN}}


def told(*texts: str | bytes) -> list[str]:
    """The secrets that stand in some texts."""
    data = b"".join(text.encode() if isinstance(text, str) else text for text in texts)
    return [secret for secret in (SECRET, TOKEN, "me:", "open-sesame") if secret.encode() in data]


def test_options_and_passwords_are_in_no_file_and_no_plan(archive, web, tmp_path: Path) -> None:
    place = f"memory://{uuid.uuid4()}/out.zarr"
    start = web.replace("http://", "http://me:open-sesame@")
    job = tmp_path / "x.zarrlift.db"
    outcome = zarrlift.migrate(start, place, dest_storage_options=OPTIONS, job=job)
    assert outcome.ok, outcome.problems
    plan = zarrlift.plan(start, place + "2", dest_storage_options=OPTIONS)
    status = zarrlift.status(job)
    assert status.source == web
    texts = (json.dumps(plan.to_json()), repr(outcome), repr(status), str(outcome.plan.to_json()))
    written = b"".join(files(tmp_path).values())
    assert len(written) > 10_000
    assert told(written, *texts) == []


@pytest.mark.slow
def test_neither_are_they_in_what_the_command_says(archive, tmp_path: Path) -> None:
    options = [f"--storage-options=dst:key={SECRET}", f"--storage-options=dst:token={TOKEN}"]
    for place in ("memory://x/out.zarr", f"nosuch://me:open-sesame@{SECRET}/x?{TOKEN}", "/proc/nothing/x"):
        words = ["migrate", str(archive), place, *options, "--job", str(tmp_path / "x.zarrlift.db"), "--json"]
        done = subprocess.run(
            [sys.executable, "-m", "zarrlift", *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            cwd=tmp_path,
        )
        assert done.returncode == (0 if place.startswith("memory") else 2)
        assert told(done.stdout, done.stderr) == []
    assert told(b"".join(files(tmp_path).values())) == []


@pytest.mark.parametrize("word", ["status", "resume", "undo"])
def test_neither_are_they_in_errors(word: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ZarrstackError) as caught:
        getattr(zarrlift, word)(f"s3://me:open-sesame@host/x?{TOKEN}")
    assert told(str(caught.value)) == []


def test_a_job_is_found_by_a_url_with_a_password(archive, web, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    start = web.replace("http://", "http://me:open-sesame@")
    zarrlift.migrate(start, tmp_path / "out.zarr")
    assert zarrlift.status(start).state == "done"


def test_resuming_takes_the_options_again(archive, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    start = f"memory://{uuid.uuid4()}/source.zarr"
    fill(start, archive)
    place = f"memory://{uuid.uuid4()}/out.zarr"
    job = zarrlift.migrate(start, place, storage_options=OPTIONS, dest_storage_options=OPTIONS).job
    for target in (start, place, Path(job).name):
        outcome = zarrlift.resume(target, storage_options=OPTIONS, dest_storage_options=OPTIONS)
        assert outcome.state == "nothing to do"
    assert zarrlift.verify(place, storage_options=OPTIONS, dest_storage_options=OPTIONS).ok


def test_of_a_connection_string_the_keys_are_secret() -> None:
    text = f"BlobEndpoint=https://me.example.org;AccountName=me;AccountKey={SECRET};SharedAccessSignature=sig={TOKEN}"
    assert set(secrets_of({"connection_string": text})) == {SECRET, f"sig={TOKEN}"}
