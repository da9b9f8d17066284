"""Places that an archive may lie in, or go to, and one small archive to carry."""

from __future__ import annotations

import functools
import http.server
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import fsspec
import pytest
from tests.support import web_servers
from tests.support.bucket import Bucket, serving
from tests.support.job_archives import tree as files
from tests.support.job_archives import write_archive
from tests.support.store_servers import OF_S3, SERVERS, Server, server

from zarrlift.storage.open_storage import open_storage


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive of the job tests: three routes, missing chunks, consolidated metadata."""
    return write_archive(tmp_path_factory.mktemp("archive") / "source.zarr")


def fill(place: Any, archive: Path) -> Any:
    """Put an archive into a place, and give the place back."""
    open_storage(place, mode="w").put_many(list(files(archive).items()))
    return place


def zipped(target: Path, archive: Path, prefix: str = "") -> Path:
    """A zip file with the archive below `prefix`."""
    with zipfile.ZipFile(target, "w") as file:
        for name, content in files(archive).items():
            file.writestr(prefix + name, content)
    return target


def in_memory(source: Path, folder: Path) -> str:
    """An archive in fsspec's memory."""
    place = f"/{folder.name}/source.n5"
    for name, content in files(source).items():
        fsspec.filesystem("memory").pipe(f"{place}/{name}", content)
    return f"memory:/{place}"


@pytest.fixture(scope="session")
def web(archive: Path) -> Iterator[str]:
    """The archive's URL on a web server that lists nothing."""
    with web_servers.serving(functools.partial(web_servers.Files, directory=str(archive.parent))) as url:
        yield f"{url}/{archive.name}"


class Web:
    """A web server with ranges, which counts what it is asked and sends."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.requests = self.sent = 0
        self.ranges = True
        self.missing: Callable[[str], tuple[int, bytes]] = lambda _: (404, b"")
        """Status and page for a path that is missing."""
        self.url = ""

    def put(self, name: str, data: bytes) -> str:
        self.files[f"/{name}"] = data
        self.requests = self.sent = 0
        return f"{self.url}/{name}"


@pytest.fixture
def served() -> Iterator[Web]:
    made = Web()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, *args: object) -> None:
            pass

        def do_GET(self) -> None:
            made.requests += 1
            data = made.files.get(self.path.partition("?")[0])
            if data is None:
                status, page = made.missing(self.path)
                self.send_response(status)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(page)))
                self.end_headers()
                self.wfile.write(page if self.command == "GET" else b"")
                return
            asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
            body = data
            if asked and made.ranges:
                start, last = int(asked[1]), min(int(asked[2]), len(data) - 1)
                body = data[start : last + 1]
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {start}-{last}/{len(data)}")
            else:
                self.send_response(200)
            self.send_header("ETag", f'"{zlib.crc32(data)}"')
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                made.sent += len(body)
                self.wfile.write(body)

        do_HEAD = do_GET

    with web_servers.serving(Handler) as made.url:
        yield made


@pytest.fixture(scope="session")
def started() -> Iterator[Callable[[str], Server]]:
    """Servers that others wrote, each started when it is first asked for."""
    with ExitStack() as until_the_end:
        yield functools.cache(lambda name: until_the_end.enter_context(server(name)))


def _servers(names: Iterable[str]) -> list[Any]:
    return ["ours", *(pytest.param(name, marks=pytest.mark.needs_reader(name)) for name in names)]


in_s3 = pytest.mark.parametrize("bucket", _servers(OF_S3), indirect=True)
"""Marks a test of what only S3 has."""


@pytest.fixture(params=_servers(SERVERS))
def bucket(request: pytest.FixtureRequest, started: Callable[[str], Server]) -> Iterator[Bucket]:
    """A bucket for one test, on each server."""
    with serving(None if request.param == "ours" else started(request.param)) as made:
        yield made


@pytest.fixture
def our_bucket() -> Iterator[Bucket]:
    """A bucket for one test, on a server of our own, whose answers can be changed."""
    with serving() as made:
        yield made


@pytest.fixture
def no_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan reads a few chunks one after the other."""
    monkeypatch.setattr("zarrlift.transfer.size_samples._ARRAYS_OF_STORE", 0)
    monkeypatch.setattr("zarrlift.planning.several_frames._TRIED", 0)
