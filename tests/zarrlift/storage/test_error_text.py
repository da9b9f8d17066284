"""What is wrong with a place or a file is one plain sentence, without XML and class names of clients."""

from __future__ import annotations

import re
import shutil
import sqlite3
import subprocess
import uuid
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest
import zarr
from tests.support.damaged_archives import PEAK, python
from tests.support.fixtures_index import archive
from tests.zarrlift.storage.conftest import fill

import zarrlift
from zarrlift.cli import main
from zarrlift.storage.redact import secrets_of
from zarrlift.storage.remote.error_text import plainly

OCEAN = archive("zarr_v2/zarr-2.18/people/ocean").path
OBSTORE = "Generic S3 error: Error performing GET http://127.0.0.1:9/b/k?... in 25.3ms"
XML = "<?xml version='1.0'?>\n<Error><Code>{}</Code><Message>{}</Message><RequestId>OD9y</RequestId></Error>"
NO_BUCKET = (
    "the bucket of s3://b/x.zarr does not exist. Create it, or correct its name or the storage option"
    " endpoint_url."
)
NO_ANSWER = (
    "key 'k': the store does not answer; found no connection to {}. Check the network, the name of the host"
    " and the storage option endpoint_url."
)
DENIED = (
    "Access is denied: the credentials have no permission for this, or there are none for it. Check the"
    " bucket's name, the key or profile, and its policies; a public bucket needs anon=true."
)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        pytest.param(
            ValueError(
                f"{OBSTORE} - Server returned non-2xx status code: 404 Not Found: "
                + XML.format("NoSuchBucket", "The specified bucket does not exist")
                + "\n\nDebug source:\nGeneric { ... }"
            ),
            NO_BUCKET,
            id="no bucket, obstore 0.12",
        ),
        pytest.param(
            FileNotFoundError("The specified bucket does not exist"),
            NO_BUCKET,
            id="no bucket, s3fs 2026.9",
        ),
        pytest.param(
            ValueError(f"{OBSTORE}, after 3 retries, max_retries: 3 - HTTP error: error sending request"),
            NO_ANSWER.format("http://127.0.0.1:9"),
            id="refused, obstore 0.12",
        ),
        pytest.param(
            ConnectionError('Could not connect to the endpoint URL: "http://127.0.0.1:9/b/k"'),
            NO_ANSWER.format("http://127.0.0.1:9"),
            id="refused, botocore 1.43",
        ),
        pytest.param(
            RuntimeError("  x error getting object from object store dispatch failure\n  | \n  | context:\n"),
            "key 'k': the store does not answer. Check the network, the name of the host and the storage"
            " option endpoint_url.",
            id="refused, icechunk 1.1",
        ),
        pytest.param(
            RuntimeError("  x session error: I/O error\n  | \n  | context:\n  |    0: icechunk::session"),
            "key 'k': cannot read; found RuntimeError: session error: I/O error",
            id="icechunk 1.1",
        ),
        pytest.param(
            RuntimeError("invalid header\n\ncontext:\n   0: icechunk::asset_manager::fetch_repo_info"),
            "key 'k': cannot read; found RuntimeError: invalid header",
            id="icechunk 2.3",
        ),
        pytest.param(
            OSError("Cannot connect to host 127.0.0.1:9 ssl:default [Connect call failed ('127.0.0.1', 9)]"),
            NO_ANSWER.format("127.0.0.1:9"),
            id="refused, aiohttp 3",
        ),
        pytest.param(
            PermissionError(
                f"{OBSTORE} - Server returned non-2xx status code: 403 Forbidden: "
                + XML.format("AccessDenied", "Access Denied")
            ),
            f"key 'k': cannot read; found HTTP status 403 Forbidden; AccessDenied; Access Denied. {DENIED}",
            id="forbidden, obstore 0.12",
        ),
        pytest.param(
            PermissionError("Access Denied"),
            f"key 'k': cannot read; found PermissionError: Access Denied. {DENIED}",
            id="forbidden, s3fs 2026.9",
        ),
        pytest.param(
            PermissionError(
                f"{OBSTORE} - Server returned non-2xx status code: 403 Forbidden: "
                + XML.format("InvalidAccessKeyId", "No such key in our records.")
            ),
            "key 'k': cannot read; found HTTP status 403 Forbidden; InvalidAccessKeyId; No such key in our"
            " records. Access is denied: the store does not know the access key. Check the key or"
            " profile, and the storage option endpoint_url.",
            id="unknown key, obstore 0.12",
        ),
        pytest.param(
            ValueError(
                f"{OBSTORE} - Server returned non-2xx status code: 400 Bad Request: "
                + XML.format("ExpiredToken", "The provided token has expired")
            ),
            "key 'k': cannot read; found HTTP status 400 Bad Request; ExpiredToken; The provided token has"
            " expired. The credentials have expired: renew them, for example with aws sso login.",
            id="expired, obstore 0.12",
        ),
        pytest.param(
            PermissionError(
                f"{OBSTORE} - Server returned non-2xx status code: 403 Forbidden: "
                + XML.format(
                    "AuthenticationFailed", "No such signature.\nRequestId:1c7c\nTime:2026-11-26T15:11:50Z"
                )
            ),
            "key 'k': cannot read; found HTTP status 403 Forbidden; AuthenticationFailed; No such signature."
            " Access is denied: the key or token does not belong to the account.",
            id="another key, Azure",
        ),
        pytest.param(
            OSError(5, "Input/output error"),
            "key 'k': cannot read; found OSError: [Errno 5] Input/output error",
            id="anything else",
        ),
    ],
)
def test_what_a_client_says_is_said_plainly(error: Exception, said: str) -> None:
    assert str(plainly(error, "cannot read", "k", "s3://b/x.zarr")) == said


def test_the_root_has_no_key() -> None:
    assert str(plainly(OSError("x"), "cannot list", "", "s3://b/x.zarr")) == "cannot list; found OSError: x"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with an archive and files that are none."""
    shutil.copytree(OCEAN, tmp_path / "ocean.zarr")
    (tmp_path / "notes.txt").write_text("hello\n")
    (tmp_path / "bad.db").write_text("hello\n")
    (tmp_path / "zero.db").write_bytes(b"")
    db = sqlite3.connect(tmp_path / "other.db")
    db.execute("CREATE TABLE x (a)")
    db.close()
    (tmp_path / "empty").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full/x").write_bytes(b"")
    with ZipFile(tmp_path / "a.zip", "w") as file:
        file.writestr(".zgroup", '{"zarr_format": 2}')
    monkeypatch.chdir(tmp_path)
    return tmp_path


RESTORE = "Restore it, or move it away and migrate with --overwrite."
NAME_IT = "The job file of a copy is next to its destination: name the destination or the job file."


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (
            "migrate ocean.zarr full",
            2,
            "the destination exists: {0}/full. Choose another place, or use --overwrite.",
        ),
        (
            "migrate notes.txt new",
            2,
            "{0}/notes.txt is a text file, not an archive; expected a directory, a zip file, or a URL",
        ),
        (
            "inspect nowhere",
            2,
            "no such file or directory: {0}/nowhere. Check the path: {0} has no 'nowhere'.",
        ),
        (
            "verify ocean.zarr empty",
            2,
            "there is no result to compare: {0}/empty is empty; expected the source first, then its result",
        ),
        ("resume bad.db", 1, f"this is not a job file: bad.db; found a text file. {NAME_IT}"),
        ("status zero.db", 1, f"this is not a job file: zero.db; found an empty file. {NAME_IT}"),
        ("status a.zip", 1, f"this is not a job file: a.zip; found a zip file. {NAME_IT}"),
        ("undo --yes notes.txt", 1, f"this is not a job file: notes.txt; found a text file. {NAME_IT}"),
        (
            "resume other.db",
            1,
            "key '{0}/other.db': this is not a job file; found a database of something else. " + RESTORE,
        ),
    ],
)
def test_a_place_that_will_not_do_is_one_sentence(
    words: str, code: int, said: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words.split()) == code
    out, err = capsys.readouterr()
    said = said.replace("{0}/", str(here / "x")[:-1]).format(here)
    assert (out, err.replace("\\\\", "\\")) == ("", f"zarrlift: {said}\n")


# What opens a place stays out of job files, plans and messages.


SECRET, TOKEN = "AKIAEXAMPLEKEY", "hunter22-of-mine"
OPTIONS = {"key": SECRET, "client_kwargs": {"token": TOKEN}}


def test_resuming_takes_the_options_again(archive, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    start = f"memory://{uuid.uuid4()}/source.zarr"
    fill(start, archive)
    place = f"memory://{uuid.uuid4()}/out.zarr"
    job = zarrlift.migrate(start, place, storage_options=OPTIONS, dest_storage_options=OPTIONS).job
    for target in (place, Path(job).name):
        outcome = zarrlift.resume(target, storage_options=OPTIONS, dest_storage_options=OPTIONS)
        assert outcome.state == "nothing to do"
    assert zarrlift.verify(place, storage_options=OPTIONS, dest_storage_options=OPTIONS).ok


def test_of_a_connection_string_the_keys_are_secret() -> None:
    text = f"BlobEndpoint=https://me.example.org;AccountName=me;AccountKey={SECRET};SharedAccessSignature=sig={TOKEN}"
    assert set(secrets_of({"connection_string": text})) == {SECRET, f"sig={TOKEN}"}


# Stores over broken lines, processes that do not live to the end, and how much memory it takes.


@pytest.mark.slow
@pytest.mark.parametrize(
    "wish",
    [("--codecs", "zstd:1"), ("--shards", "4x"), ("--chunks", "1000,1000"), ("--chunks", "500,2000")],
    ids=" ".join,
)
def test_what_is_under_way_is_within_the_memory_that_is_allowed(
    wish: tuple[str, ...], tmp_path: Path
) -> None:
    """40 chunks of 4 MB, through a file system of fsspec's on both sides."""
    array = zarr.create_array(
        tmp_path / "old.zarr",
        name="a",
        shape=(8000, 5000),
        chunks=(1000, 1000),
        dtype="<i4",
        compressors=None,
        zarr_format=2,
    )
    array[:] = np.arange(40_000_000, dtype="<i4").reshape(8000, 5000)
    ends = (f"local://{tmp_path.as_posix()}/old.zarr", f"local://{tmp_path.as_posix()}/new.zarr")
    options = ("--memory", "256MB", "--verify", "none", "--job", str(tmp_path / "job.db"))
    done = subprocess.run(
        python("-c", PEAK, "migrate", *ends, *wish, *options),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(r"peak (\d+)", done.stderr)
    assert found is not None
    assert int(found[1]) << 20 <= 256_000_000
