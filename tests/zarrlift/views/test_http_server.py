"""`zarrlift serve`: a legacy archive over HTTP, read by what knows nothing but Zarr v3."""

from __future__ import annotations

import asyncio
import html
import json
import re
import shutil
import signal
import socket
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
import zarr
from tests.support.fixtures_index import archive, same
from tests.support.processes import running
from tests.support.readers import ask_zarr_2_18, read_served
from tests.support.report_examples import write_images

import zarrlift
from zarrlift.cli import main
from zarrlift.report.viewers import ORIGINS, viewer_links
from zarrlift.views.http_connections import Connections

VIEWER = "https://viewer.example"
OCEAN = archive("zarr-2.18/people/ocean").path
SERVED = {
    "zarr-2.18/people/ocean": ("sst", "depth", "station_name", "lat"),
    "n5/z5py/all": None,
    "zarr_v1/zarr-1.1/arrays": None,
}
"""An archive of every older format -> arrays to read; None takes some of those that zarrita reads."""


@contextmanager
def serving(source: Path, *options: str) -> Iterator[str]:
    """The address of a server on a free port; it is told to end as by Ctrl-C, and must end well."""
    command = [sys.executable, "-m", "zarrlift", "serve", str(source), "--port", "0", *options]
    with running(command) as process:
        line = process.stdout.readline()
        found = re.search(r"http://\S+", line)
        assert found, line + process.stderr.read()
        try:
            yield found[0]
        finally:
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
            assert process.returncode == 0, errors


def fetch(url: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    request = urllib.request.Request(url, method=method, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, dict(answer.headers), answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, dict(error.headers), error.read()


@pytest.fixture(scope="module")
def ocean() -> Iterator[str]:
    with serving(OCEAN, "--allow-origin", VIEWER) as address:
        yield address


@pytest.fixture(scope="module")
def migrated(tmp_path_factory) -> Path:
    result = tmp_path_factory.mktemp("serve") / "ocean"
    zarrlift.migrate(OCEAN, result)
    return result


def test_every_object_is_what_a_migration_writes(ocean: str, migrated: Path) -> None:
    for file in (file for file in migrated.rglob("*") if file.is_file()):
        key = file.relative_to(migrated).as_posix()
        status, headers, body = fetch(ocean + key)
        assert (status, body) == (200, file.read_bytes())
        assert "Access-Control-Allow-Origin" not in headers


@pytest.mark.parametrize(
    ("asked", "place"),
    [("bytes=0-99", slice(0, 100)), ("bytes=100-", slice(100, None)), ("bytes=-24", slice(-24, None))],
)
@pytest.mark.parametrize("key", ["sst/c/0/0/0", "station_name/c/0", "sst/zarr.json"])
def test_ranges(ocean: str, migrated: Path, key: str, asked: str, place: slice) -> None:
    whole = (migrated / key).read_bytes()
    status, headers, body = fetch(ocean + key, Range=asked)
    start, stop, _ = place.indices(len(whole))
    expected = whole[place]
    if not expected:
        assert status == 416
        return
    assert (status, body) == (206, expected)
    assert headers["Content-Range"] == f"bytes {start}-{stop - 1}/{len(whole)}"


def test_head_says_how_long(ocean: str, migrated: Path) -> None:
    status, headers, body = fetch(ocean + "sst/c/0/0/0", "HEAD")
    assert (status, body) == (200, b"")
    assert int(headers["Content-Length"]) == (migrated / "sst/c/0/0/0").stat().st_size


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
def test_pages_of_origins_that_are_allowed_may_read(ocean: str, method: str) -> None:
    """OPTIONS is what a browser asks first."""
    status, headers, _ = fetch(ocean + "sst/zarr.json", method, Origin=VIEWER)
    assert status == (204 if method == "OPTIONS" else 200)
    assert headers["Access-Control-Allow-Origin"] == VIEWER
    assert headers["Vary"] == "Origin"
    assert "Range" in headers["Access-Control-Allow-Headers"]
    others = [
        fetch(ocean + "sst/zarr.json", method, Origin=VIEWER + end)[1] for end in (":80", ".evil.example")
    ]
    assert not [name for headers in others for name in headers if name.startswith("Access-Control")]


@pytest.mark.slow
def test_every_origin_may_be_allowed() -> None:
    with serving(OCEAN, "--allow-origin", "*") as address:
        assert fetch(address + "zarr.json", Origin=VIEWER)[1]["Access-Control-Allow-Origin"] == "*"


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("localhost:99", 200),
        ("archive.localhost", 200),
        ("127.0.0.1:99", 200),
        ("[::1]:99", 200),
        ("evil.example", 421),
        ("127.0.0.1.evil.example:8383", 421),
        ("192.168.0.1", 421),
    ],
)
def test_a_page_whose_name_leads_here_cannot_read(ocean: str, host: str, status: int) -> None:
    """DNS rebinding: to the browser, the page and the archive are of one origin."""
    assert fetch(ocean + "sst/zarr.json", Host=host)[0] == status


def test_where_others_may_come_any_name_will_do_and_no_origin_is_allowed_unless_it_is_said() -> None:
    with serving(OCEAN, "--host", "0.0.0.0") as address:
        status, headers, _ = fetch(address + "zarr.json", Host="archive.example", Origin=VIEWER)
    assert (status, headers.get("Access-Control-Allow-Origin")) == (200, None)


def connected(address: str) -> socket.socket:
    host, port = address.removeprefix("http://").rstrip("/").split(":")
    return socket.create_connection((host, int(port)), timeout=60)


LONG_LINE = b"GET /" + b"a" * 100_000
LONG_HEADER = b"GET / HTTP/1.1\r\nA: " + b"b" * 100_000


def test_what_is_no_request_is_answered_without_a_traceback() -> None:
    command = [sys.executable, "-m", "zarrlift", "serve", str(OCEAN), "--port", "0"]
    with running(command) as process:
        address = re.search(r"http://\S+", process.stdout.readline())[0]
        for head in (LONG_LINE, LONG_HEADER, b"nonsense"):
            with connected(address) as client:
                client.sendall(head + b"\r\n\r\n")
                assert re.match(rb"HTTP/1.[01] 4\d\d ", client.recv(1000))
            assert fetch(address + "zarr.json")[0] == 200
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")


WITH_LIMITS = """
import sys
from zarrlift.views import http_connections as serving_connections
from zarrlift.views.http_connections import Connections
Connections.__init__.__defaults__ = ({patience}, {most})
from zarrlift.cli import main
sys.exit(main())
"""


@contextmanager
def limited(patience: float = 30, most: int = 512) -> Iterator[str]:
    program = WITH_LIMITS.format(patience=patience, most=most)
    with running([sys.executable, "-c", program, "serve", str(OCEAN), "--port", "0"]) as process:
        yield re.search(r"http://\S+", process.stdout.readline())[0]


def test_a_client_that_has_gone_is_no_error() -> None:
    from aiohttp import web
    from aiohttp.test_utils import make_mocked_request

    class Gone(web.Response):
        async def write_eof(self, data: bytes = b"") -> None:
            raise ConnectionResetError("Cannot write to closing transport")

    async def answer(_: web.Request) -> web.Response:
        return Gone()

    response = asyncio.run(Connections().middleware()(make_mocked_request("GET", "/"), answer))
    assert isinstance(response, Gone)


@pytest.mark.slow
def test_a_request_that_does_not_come_is_not_waited_for() -> None:
    request = b"GET /zarr.json HTTP/1.1\r\nHost: localhost\r\n"
    with limited(patience=0.1) as address:
        for sent in (b"", request[:18], request):
            with connected(address) as client:
                client.sendall(sent)
                with suppress(ConnectionResetError):
                    assert client.recv(1000) == b""
            assert fetch(address + "zarr.json")[0] == 200


@pytest.mark.slow
def test_connections_are_limited_and_free_again() -> None:
    request = b"GET /zarr.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with limited(most=2) as address:
        clients = [connected(address) for _ in range(2)]
        for client in clients:
            client.sendall(request)
            assert client.recv(12) == b"HTTP/1.1 200"
        with connected(address) as client:
            assert client.recv(12) == b"HTTP/1.1 503"
        for client in clients:
            client.close()
        assert 200 in (fetch(address + "zarr.json")[0] for _ in range(1000))


@pytest.mark.parametrize("origin", ["viewer.example", "https://viewer.example/", "*.example", ""])
def test_what_is_no_origin_is_refused(origin: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", str(OCEAN), "--allow-origin", origin]) == 2
    assert "not an origin" in capsys.readouterr().err


BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


def test_a_browser_gets_a_page_at_the_root_and_only_there(ocean: str, migrated: Path) -> None:
    status, headers, page = fetch(ocean, Accept=BROWSER)
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert b"sst" in page
    for accept in ("*/*", "text/html;q=0, */*", "application/json"):
        status, headers, plain = fetch(ocean, Accept=accept)
        assert (status, headers["Content-Type"]) == (200, "text/plain; charset=utf-8")
        assert plain.endswith(b"by zarrlift: see zarr.json\n")
    for key in ("zarr.json", "sst/zarr.json", "sst/c/0/0/0"):
        assert fetch(ocean + key, Accept=BROWSER)[2] == (migrated / key).read_bytes()
    assert fetch(ocean + "sst", Accept=BROWSER)[0] == 404


def test_fsspec_sees_what_it_saw_before_there_was_a_page(ocean: str, migrated: Path) -> None:
    import fsspec

    chunk = (migrated / "sst/c/0/0/0").read_bytes()
    files = fsspec.filesystem("http", skip_instance_cache=True, use_listings_cache=False)
    assert files.ls(ocean) == []
    assert files.cat(ocean + "zarr.json") == (migrated / "zarr.json").read_bytes()
    assert files.cat_file(ocean + "sst/c/0/0/0", start=3, end=9) == chunk[3:9]
    assert files.isfile(ocean + "sst/c/0/0/0")
    assert not files.exists(ocean + "nothing")


def test_the_page_has_lines_for_readers_with_the_origins_that_they_need(ocean: str) -> None:
    page = html.unescape(fetch(ocean, Accept=BROWSER)[2].decode())
    found: dict[str, zarr.Group] = {}
    exec(re.search(r"import zarr .*\ndata = zarr\.open\(.*\)", page)[0], found)
    assert same(found["data"]["lat"][...], zarrlift.open(OCEAN)["lat"][...])


def links_of_page(address: str, *, told_of_open: bool) -> None:
    """The page of an image links to viewers, and says how they may read where they may not."""
    page = html.unescape(fetch(address, Accept=BROWSER)[2].decode())
    assert ("<code>--open</code>" in page) is told_of_open
    for _, link in viewer_links("image", address).rows:
        assert f">{link}<" in page


@pytest.mark.slow(one_in=2)
@pytest.mark.parametrize("options", [(), ("--allow-origin", "https://hms-dbmi.github.io")])
def test_the_page_of_an_image_links_to_viewers(options: tuple[str, ...], tmp_path: Path) -> None:
    with serving(write_images(tmp_path / "a"), *options) as address:
        links_of_page(address, told_of_open=True)


def test_open_prints_links_shows_the_page_and_lets_pages_of_viewers_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = tmp_path / "shown"
    browser = tmp_path / "browser"
    browser.write_text(f"#!/bin/sh\necho $1 > {shown}.new && mv {shown}.new {shown}\n")
    browser.chmod(0o700)
    monkeypatch.setenv("BROWSER", f"{browser} %s")
    source = str(write_images(tmp_path / "a"))
    with running([sys.executable, "-m", "zarrlift", "serve", source, "--port", "0", "--open"]) as process:
        address = re.search(r"http://\S+", process.stdout.readline())[0]
        for origin in (*ORIGINS, VIEWER):
            headers = fetch(address + "zarr.json", Origin=origin)[1]
            assert headers.get("Access-Control-Allow-Origin") == (origin if origin in ORIGINS else None)
        links_of_page(address, told_of_open=False)
        while not shown.exists():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        text = process.stdout.read()
    assert shown.read_text().strip() == address
    assert text.split("\n")[1::2] == [f"    {link}" for _, link in viewer_links("image", address).rows]


@pytest.mark.parametrize(
    "key", ["nothing", "sst/c/99/0/0", ".zgroup", "sst/.zarray", "../../secret", "%2e%2e/x"]
)
def test_what_is_no_key_of_the_result_is_not_found(ocean: str, key: str) -> None:
    assert fetch(ocean + key)[0] == 404


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE"])
def test_nothing_can_be_written(ocean: str, method: str) -> None:
    assert fetch(ocean + "sst/zarr.json", method)[0] == 405


def test_a_damaged_chunk_is_no_missing_chunk(tmp_path: Path) -> None:
    source = shutil.copytree(OCEAN, tmp_path / "ocean.zarr")
    (source / "sst" / "0.0.0").write_bytes(b"\x02\x01")
    with serving(source) as address:
        status, _, body = fetch(address + "sst/c/0/0/0")
        assert status == 500
        assert b"sst/0.0.0" in body
        assert fetch(address + "lat/c/0")[0] == 200


@pytest.mark.needs_reader("zarrita")
@pytest.mark.parametrize("name", SERVED)
def test_zarrita_reads_what_is_served(name: str) -> None:
    one = archive(name)
    paths = (
        SERVED[name]
        or [path for path, array in one.arrays.items() if array.dtype.str[1:] in ("u2", "i4", "f4", "f8")][:8]
    )
    with serving(one.path) as address:
        seen = read_served(address.rstrip("/"), paths)
    for path in paths:
        expected = one[path].in_axes("reversed") if name.startswith("n5") else one[path].values
        assert same(seen[path].values, expected.astype(expected.dtype.newbyteorder("="))), path


def test_a_port_that_is_taken_is_one_line(ocean: str, capsys: pytest.CaptureFixture[str]) -> None:
    port = ocean.rstrip("/").rpartition(":")[2]
    assert main(["serve", str(OCEAN), "--port", port]) == 1
    said = capsys.readouterr().err
    assert "cannot listen on this address" in said
    assert "Traceback" not in said


# ----- the reverse: a v3 hierarchy for readers of what came before


@contextmanager
def old_server(kind: str, source: Path, *options: str) -> Iterator[str]:
    with serving(source, "--as", kind, *options) as address:
        yield address.rstrip("/")


def zarr_2_18(kind: str, url: str, paths: list[str]) -> dict:
    """What zarr 2.18.7 sees over HTTP; see `environments/zarr-2.18/read.py`."""
    return ask_zarr_2_18("read.py", kind, [[url, paths]])[0]


VALUES = np.arange(63, dtype="<u2").reshape(7, 9)


@pytest.fixture(scope="module")
def sharded(tmp_path_factory) -> Path:
    """Shards of zstd chunks, little-endian; the last ones reach beyond the array."""
    folder = tmp_path_factory.mktemp("sharded") / "new"
    group = zarr.create_group(folder, attributes={"made": "here"})
    array = group.create_array("deep/a", shape=(7, 9), chunks=(2, 3), shards=(4, 6), dtype="u2")
    array[...] = VALUES
    group.create_array("no", shape=(2,), dtype="bool")[...] = True
    return folder


@pytest.mark.needs_reader("zarr-2.18")
@pytest.mark.parametrize("kind", ["zarr2", "n5"])
def test_zarr_2_18_reads_shards_over_http(kind: str, sharded: Path) -> None:
    with old_server(kind, sharded) as url:
        seen = zarr_2_18(kind, url, ["deep/a"])["deep/a"]
    assert seen["shape"] == [7, 9]
    assert bytes.fromhex(seen["values"]) == VALUES.tobytes()


@pytest.mark.needs_reader("zarr-2.18")
def test_zarr_2_18_reads_over_http_what_it_once_wrote(migrated: Path) -> None:
    one = archive("zarr-2.18/people/ocean")
    paths = [path for path, array in one.arrays.items() if array.dtype.kind != "O"]
    with old_server("zarr2", migrated) as url:
        seen = zarr_2_18("zarr2", url, paths)
    for path in paths:
        assert bytes.fromhex(seen[path]["values"]) == one[path].values.tobytes(), path


@pytest.mark.slow
@pytest.mark.needs_reader("tensorstore")
@pytest.mark.parametrize(("kind", "driver"), [("zarr2", "zarr"), ("n5", "n5")])
def test_tensorstore_reads_over_http(kind: str, driver: str, sharded: Path) -> None:
    import tensorstore as ts

    with old_server(kind, sharded) as url:
        spec = {"driver": driver, "kvstore": {"driver": "http", "base_url": f"{url}/deep/a/"}}
        values = np.asarray(ts.open(spec, read=True).result().read().result())
    assert np.array_equal(values.T if kind == "n5" else values, VALUES)


def test_an_old_archive_is_served_in_another_old_format() -> None:
    one = archive("n5/z5py/all")
    path, array = next((p, a) for p, a in one.arrays.items() if a.shape and a.dtype.kind in "uif")
    with old_server("zarr2", one.path) as url:
        status, headers, body = fetch(f"{url}/{path}/.zarray")
        assert (status, headers["Content-Type"].split(";")[0]) == (200, "application/json")
        assert json.loads(body)["shape"] == list(array.in_axes("reversed").shape)
        assert fetch(f"{url}/{path}/zarr.json")[0] == 404
        assert fetch(f"{url}/{path}/attributes.json")[0] == 404


@pytest.mark.slow
def test_separator_of_v2_keys(sharded: Path) -> None:
    with old_server("zarr2", sharded, "--separator", "/") as url:
        assert fetch(f"{url}/deep/a/3/2")[0] == 200
        assert fetch(f"{url}/deep/a/3.2")[0] == 404
        assert json.loads(fetch(f"{url}/deep/a/.zarray")[2])["dimension_separator"] == "/"


def test_what_is_not_served_is_said_and_is_not_found(sharded: Path) -> None:
    words = [sys.executable, "-m", "zarrlift", "serve", str(sharded), "--as", "n5", "--port", "0"]
    with running(words) as process:
        line = process.stdout.readline()
        assert " as N5: http" in line
        status, _, body = fetch(re.search(r"http://\S+", line)[0] + "no/attributes.json")
        assert status == 404
        assert b"N5 has no such data type" in body
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert "not served: /no" in errors
    assert process.returncode == 0


STOPPED_IN_A_REQUEST = """
import os, signal, sys
from zarrlift.views import http_server as serving
answer = serving._object
async def stopped(*about):
    os.kill(os.getpid(), signal.SIGINT)
    return await answer(*about)
serving._object = stopped
from zarrlift.cli import main
sys.exit(main())
"""


def test_ctrl_c_while_a_request_is_answered_is_no_traceback() -> None:
    words = [sys.executable, "-c", STOPPED_IN_A_REQUEST, "serve", str(OCEAN), "--port", "0"]
    with running(words) as process:
        address = re.search(r"http://\S+", process.stdout.readline())[0]
        with suppress(OSError):  # whether it is still answered is not promised
            fetch(f"{address}zarr.json")
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")


@pytest.mark.parametrize("options", [["--separator", "/"], ["--as", "n5", "--separator", "."]])
def test_options_that_do_not_go_together(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", str(OCEAN), *options]) == 2
    said = capsys.readouterr().err
    assert "--as zarr2" in said
    assert "Traceback" not in said
