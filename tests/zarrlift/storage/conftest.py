"""Places that an archive may lie in, or go to, and one small archive to carry."""

from __future__ import annotations

import functools
import http.server
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.support.bucket import Bucket, serving
from tests.support.s3_servers import SERVERS, Server, server
from tests.zarrlift.jobs.conftest import write_archive

from zarrlift.storage.open_storage import open_storage


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive of the job tests: three routes, missing chunks, consolidated metadata."""
    return write_archive(tmp_path_factory.mktemp("archive") / "source.zarr")


def files(root: Path) -> dict[str, bytes]:
    """Every file below a path, by relative name."""
    found = (file for file in root.rglob("*") if file.is_file())
    return {file.relative_to(root).as_posix(): file.read_bytes() for file in found}


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


@pytest.fixture(scope="session")
def web(archive: Path) -> Iterator[str]:
    """The archive's URL on a web server that lists nothing."""

    class Patient(http.server.ThreadingHTTPServer):
        request_queue_size = 256  # Python's 5 makes clients wait for seconds

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            pass

        def list_directory(self, path: str) -> None:
            self.send_error(403)

    handler = functools.partial(Quiet, directory=str(archive.parent))
    with Patient(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/{archive.name}"
        server.shutdown()


@pytest.fixture(scope="session")
def started() -> Iterator[Callable[[str], Server]]:
    """Servers that others wrote, each started when it is first asked for."""
    with ExitStack() as until_the_end:
        yield functools.cache(lambda name: until_the_end.enter_context(server(name)))


OTHERS = [pytest.param(name, marks=pytest.mark.needs_reader(name)) for name in SERVERS]


@pytest.fixture(params=["ours", *OTHERS])
def bucket(request: pytest.FixtureRequest, started: Callable[[str], Server]) -> Iterator[Bucket]:
    """A bucket for one test, on each server."""
    with serving(None if request.param == "ours" else started(request.param)) as made:
        yield made


@pytest.fixture
def our_bucket() -> Iterator[Bucket]:
    """A bucket for one test, on a server of our own, whose answers can be changed."""
    with serving() as made:
        yield made
