"""`zarrlift serve`: a legacy archive over HTTP, read by what knows nothing but Zarr v3."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
import zarr
from fixtures_index import FIXTURES, archive, same
from readers import zarrita_js
from readers.zarr_2_18 import ask

import zarrlift

OCEAN = FIXTURES / "zarr_v2" / "zarr-2.18" / "people" / "ocean.zarr"
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
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline()
        found = re.search(r"http://\S+", line)
        assert found, line + process.stderr.read()
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
        return error.code, dict(error.headers), error.read()


@pytest.fixture(scope="module")
def ocean() -> Iterator[str]:
    with serving(OCEAN) as address:
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
        assert headers["Access-Control-Allow-Origin"] == "*"


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


def test_a_browser_may_ask_first(ocean: str) -> None:
    status, headers, _ = fetch(ocean + "sst/zarr.json", "OPTIONS")
    assert status == 204
    assert "Range" in headers["Access-Control-Allow-Headers"]


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
        seen = zarrita_js.read_served(address.rstrip("/"), paths)
    for path in paths:
        expected = one[path].in_axes("reversed") if name.startswith("n5") else one[path].values
        assert same(seen[path].values, expected.astype(expected.dtype.newbyteorder("="))), path


def test_a_port_that_is_taken_is_one_line(ocean: str) -> None:
    port = ocean.rstrip("/").rpartition(":")[2]
    done = subprocess.run(
        [sys.executable, "-m", "zarrlift", "serve", str(OCEAN), "--port", port],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert "cannot listen there" in done.stderr
    assert "Traceback" not in done.stderr


# ----- the reverse: a v3 hierarchy for readers of what came before


@contextmanager
def old_server(kind: str, source: Path, *options: str) -> Iterator[str]:
    with serving(source, "--as", kind, *options) as address:
        yield address.rstrip("/")


def zarr_2_18(kind: str, url: str, paths: list[str]) -> dict:
    """What zarr 2.18.7 sees over HTTP; see `environments/zarr-2.18/read.py`."""
    return ask("read.py", kind, [[url, paths]])[0]


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


def test_separator_of_v2_keys(sharded: Path) -> None:
    with old_server("zarr2", sharded, "--separator", "/") as url:
        assert fetch(f"{url}/deep/a/3/2")[0] == 200
        assert fetch(f"{url}/deep/a/3.2")[0] == 404
        assert json.loads(fetch(f"{url}/deep/a/.zarray")[2])["dimension_separator"] == "/"


def test_what_is_not_served_is_said_and_is_not_found(sharded: Path) -> None:
    words = [sys.executable, "-m", "zarrlift", "serve", str(sharded), "--as", "n5", "--port", "0"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
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
from zarrlift import serving
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
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    address = re.search(r"http://\S+", process.stdout.readline())[0]
    with suppress(OSError):  # whether it is still answered is not promised
        fetch(f"{address}zarr.json")
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")


@pytest.mark.parametrize("options", [["--separator", "/"], ["--as", "n5", "--separator", "."]])
def test_options_that_do_not_go_together(options: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "zarrlift", "serve", str(OCEAN), *options],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2
    assert "--as zarr2" in done.stderr
    assert "Traceback" not in done.stderr
