"""Archives in zip files: local, on S3, and on web servers, read by ranges; tar files, which are refused."""

from __future__ import annotations

import io
import struct
import tarfile
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from tests.zarrlift.storage.conftest import Web, files, zipped
from zarr.storage import ZipStore

import zarrlift
from zarrlift.storage.containers import ranges as container_ranges
from zarrlift.storage.open_storage import open_storage
from zarrstack.core.errors import StorageError, UsageError, ZarrstackError


def tarred(content: dict[str, bytes], format: int = tarfile.PAX_FORMAT) -> bytes:
    """A tar file of the members."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=format) as file:
        for name, data in content.items():
            item = tarfile.TarInfo(name)
            item.size = len(data)
            file.addfile(item, io.BytesIO(data))
    return made.getvalue()


def zip_of(content: dict[str, bytes], prefix: str = "", method: int = zipfile.ZIP_STORED) -> bytes:
    """A zip file of the members."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", method) as file:
        for name, data in content.items():
            file.writestr(prefix + name, data)
    return made.getvalue()


PACKED: dict[str, tuple[str, Callable[[dict[str, bytes]], bytes]]] = {
    "stored zip": ("a.zarr.zip", zip_of),
    "deflated zip": ("a.zip", lambda c: zip_of(c, method=zipfile.ZIP_DEFLATED)),
    "bzip2 in zip": ("a.zip", lambda c: zip_of(c, method=zipfile.ZIP_BZIP2)),
    "lzma in zip": ("a.zip", lambda c: zip_of(c, method=zipfile.ZIP_LZMA)),
    "zip, packed with its directory": ("a.zip", lambda c: zip_of(c, "data/a.zarr/")),
    "zip after another program's bytes": ("a.zip", lambda c: b"#!/bin/sh\n" * 20 + zip_of(c)),
    "zip named otherwise": ("data", zip_of),
}


REMOTE = [pytest.param(where, marks=pytest.mark.slow(one_in=len(PACKED))) for where in ("http", "s3")]


@pytest.mark.slow(one_in=23)
@pytest.mark.parametrize(("name", "pack"), PACKED.values(), ids=PACKED)
@pytest.mark.parametrize("where", ["local", *REMOTE])
def test_the_result_is_that_of_the_directory(
    name: str, pack: Any, where: str, archive: Path, served: Web, our_bucket, tmp_path: Path
) -> None:
    data = pack(files(archive))
    options: dict[str, Any] = {}
    if where == "local":
        (tmp_path / name).write_bytes(data)
        place: Any = tmp_path / name
    elif where == "http":
        place = served.put(name, data)
    else:
        place = f"{our_bucket.put('in', {name: data})}/{name}"
        options = {"storage_options": our_bucket.options}
    outcome = zarrlift.migrate(place, tmp_path / "out.zarr", **options)
    assert outcome.ok, outcome.problems
    zarrlift.migrate(archive, tmp_path / "expected.zarr")
    assert files(tmp_path / "out.zarr") == files(tmp_path / "expected.zarr")
    opened = open_storage(place, **options)
    assert zarrlift.verify(opened.url, tmp_path / "out.zarr", full=True, **options).ok
    assert zarrlift.migrate(place, tmp_path / "out.zarr", **options).state == "nothing to do"


def large(tmp_path: Path, chunks: int = 256, side: int = 32) -> dict[str, bytes]:
    """An archive of random values in chunks of 8 KiB."""
    values = np.random.default_rng(0).integers(0, 2**63, (chunks * side, side))
    zarr.create_array(
        tmp_path / "large.zarr",
        data=values,
        chunks=(side, side),
        compressors=None,
        zarr_format=2,
    )
    return files(tmp_path / "large.zarr")


def test_a_plan_reads_the_directory_of_a_zip_file_only(served: Web, tmp_path: Path) -> None:
    """256 chunks of 8 KiB: 2.1 MB. The directory is at the end, of which 256 KiB are read at first."""
    place = served.put("large.zip", zip_of(large(tmp_path)))
    size = len(served.files["/large.zip"])
    plan = zarrlift.plan(place, tmp_path / "out.zarr")
    assert sum(array.chunks for array in plan.arrays) == 256
    # First bytes, end, the state at each listing, two documents.
    assert served.requests <= 12
    assert served.sent < size // 6
    served.requests = served.sent = 0
    assert zarrlift.migrate(place, tmp_path / "out.zarr", workers=1).ok
    # One request for a chunk, some for opening the file and for the sample that is checked.
    assert served.requests < 256 * 1.4
    assert served.sent < size * 1.6


def test_a_server_without_ranges_is_named(served: Web, archive: Path) -> None:
    served.ranges = False
    place = served.put("a.zip", zip_of(files(archive)))
    with pytest.raises(UsageError, match=r"does not give parts of a file.*Download the file"):
        open_storage(place)


@pytest.mark.parametrize("url", ["zip::{0}/{1}", "zip://data/a.zarr::{0}/{1}", "{0}/{1}/data/a.zarr"])
def test_a_directory_inside_can_be_named(served: Web, archive: Path, url: str) -> None:
    served.put("a.zip", zip_of(files(archive), "data/a.zarr/"))
    place = url.format(served.url, "a.zip")
    assert [node.path for node in zarrlift.inspect(place).nodes] == [
        node.path for node in zarrlift.inspect(archive).nodes
    ]


def test_a_query_of_a_url_is_sent_and_not_shown(served: Web, archive: Path) -> None:
    place = served.put("a.zip", zip_of(files(archive))) + "?token=secret"
    found = open_storage(place)
    assert found.get(".zgroup") is not None
    assert found.url == f"{served.url}/a.zip?..."


def test_no_file_at_a_url_is_said(served: Web) -> None:
    with pytest.raises(UsageError, match=r"no such file: http://.*/no\.zip"):
        open_storage(f"zip::{served.url}/no.zip")
    with pytest.raises(UsageError, match="no archive found"):
        zarrlift.inspect(f"{served.url}/no.zip")


def test_a_zip_store_of_zarr_is_the_same_place(tmp_path: Path, archive: Path) -> None:
    place = zipped(tmp_path / "a.zip", archive, "deep/")
    opened = open_storage(ZipStore(place, mode="r"))
    assert opened.get("deep/.zgroup") == open_storage(place).get(".zgroup")
    group = zarr.open_group(open_storage(place).zarr_store(), mode="r")
    assert set(group) == set(zarr.open_group(archive, mode="r"))


def test_what_zarr_writes_into_a_zip_file_twice_is_there_once(tmp_path: Path) -> None:
    """zarr-python appends a chunk that it rewrites, and the later one counts."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        store = ZipStore(tmp_path / "a.zip", mode="w")
        array = zarr.create_array(store, shape=8, chunks=4, dtype="i4", zarr_format=2)
        array[:] = 1
        array[:4] = 7
        store.close()
    assert zarrlift.migrate(tmp_path / "a.zip", tmp_path / "out.zarr").ok
    assert zarr.open_array(tmp_path / "out.zarr")[:].tolist() == [7] * 4 + [1] * 4


@pytest.mark.slow
def test_many_and_large_members_need_zip64(tmp_path: Path) -> None:
    """More than 65,535 members, and members whose sizes are written with 64 bits, behind a comment."""
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as file:
        for number in range(66_000):
            file.writestr(zipfile.ZipInfo(f"x/{number}"), b"")
        with file.open("y", "w", force_zip64=True) as member:
            member.write(b"large")
        file.comment = b"A comment. " * 5000
    storage = open_storage(tmp_path / "a.zip")
    assert sum(1 for _ in storage.list_prefix("x/")) == 66_000
    assert storage.get("y") == b"large"


@pytest.mark.slow(one_in=3)
def test_on_servers_of_s3_that_others_wrote(bucket, archive: Path, tmp_path: Path) -> None:
    place = f"{bucket.put('in', {'a': zip_of(files(archive), 'a.zarr/')})}/a"
    outcome = zarrlift.migrate(place, tmp_path / "out.zarr", storage_options=bucket.options)
    assert outcome.ok, outcome.problems
    zarrlift.migrate(archive, tmp_path / "expected.zarr")
    assert files(tmp_path / "out.zarr") == files(tmp_path / "expected.zarr")


def test_parts_of_members_are_their_bytes(tmp_path: Path) -> None:
    data = np.random.default_rng(1).bytes(100_000)
    for name, packed in {
        "stored.zip": zip_of({"x": data}),
        "deflated.zip": zip_of({"x": data}, method=zipfile.ZIP_DEFLATED),
        "lzma.zip": zip_of({"x": data}, method=zipfile.ZIP_LZMA),
    }.items():
        (tmp_path / name).write_bytes(packed)
        storage = open_storage(tmp_path / name)
        assert storage.size("x") == len(data)
        assert storage.get_part("x", 50_000, 7) == data[50_000:50_007]
        assert storage.get_part("x", -16, 16) == data[-16:]
        assert storage.get_part("x", 99_990, 100) == data[99_990:]
        assert storage.get_part("x", 200_000, 100) == b""
        assert storage.get_part("y", 0, 1) is None
        assert storage.get("x") == data


FORMS = {"pax": tarfile.PAX_FORMAT, "GNU": tarfile.GNU_FORMAT, "1988": tarfile.USTAR_FORMAT}


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_tar_file_is_refused_by_name(form: int, served: Web, our_bucket, tmp_path: Path) -> None:
    """Under any name, wherever it is, and also if its last member is a zip file, which could be opened."""
    content = {".zgroup": b'{"zarr_format": 2}', "b.zip": zip_of({".zgroup": b'{"zarr_format": 2}'})}
    data = tarred(content, form)
    for name in ("a.tar", "a.zip", "data", "a.zarr"):
        (tmp_path / name).write_bytes(data)
        places: list[tuple[str, dict[str, Any]]] = [(str(tmp_path / name), {}), (served.put(name, data), {})]
        places.append((f"{our_bucket.put('in', {name: data})}/{name}", our_bucket.options))
        for place, options in places:
            with pytest.raises(UsageError, match=rf"{name} is a tar file, not an archive.*tar -xf {name}"):
                zarrlift.inspect(place, storage_options=options)
    for url in (f"tar::{served.url}/a.tar", f"tar://inside::{tmp_path.as_uri()}/a.tar"):
        with pytest.raises(UsageError, match="names a tar file, not an archive"):
            open_storage(url)


# ----- damaged and hostile files


def entry(data: bytes, name: str, **fields: int) -> bytes:
    """A zip file in which fields of a member's entry in the directory are replaced."""
    at = data.index(b"PK\1\2")
    while data[at + 46 : at + 46 + len(name)] != name.encode():
        at = data.index(b"PK\1\2", at + 1)
    changed = bytearray(data)
    places = {"flags": ("<H", 8), "method": ("<H", 10), "crc": ("<I", 16), "stored": ("<I", 20)}
    places |= {"size": ("<I", 24), "start": ("<I", 42)}
    for field, value in fields.items():
        form, offset = places[field]
        struct.pack_into(form, changed, at + offset, value)
    return bytes(changed)


GOOD = {".zgroup": b'{"zarr_format": 2}', "x": b"12345678" * 100}
REFUSED = {
    "encrypted": (entry(zip_of(GOOD), "x", flags=1), "encrypted members; found 1 of 2 .* the first is x"),
    "unknown method": (entry(zip_of(GOOD), "x", method=9), "compression .* found method 9 in 1 of 2"),
    "leading out": (zip_of({"../x": b"", **GOOD}), r"leads out of it; found '\.\./x'"),
    "absolute": (zip_of({"/etc/x": b"", **GOOD}), r"leads out of it; found '/etc/x'"),
    "without its end": (zip_of(GOOD)[:-30], "a zip file that is cut short or damaged"),
}


@pytest.mark.parametrize(("data", "said"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_read_as_a_whole_is_refused_by_name(data: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(data)
    with pytest.raises(ZarrstackError, match=said):
        open_storage(tmp_path / "a.zip")


BOMB = zip_of({**GOOD, "x": bytes(1 << 20)}, method=zipfile.ZIP_DEFLATED)
DAMAGED = {
    "another value": (zip_of(GOOD).replace(b"12345678", b"12345679", 1), "checksum"),
    "more than it says": (entry(BOMB, "x", size=800), "unpacks to more than the 800 bytes"),
    "less than it says": (entry(BOMB, "x", size=1 << 21), r"unpacks to 1048576 of 2097152 bytes"),
    "another member": (entry(zip_of(GOOD), "x", start=0), r"the member at 0 is '\.zgroup'"),
    "no member": (entry(zip_of(GOOD), "x", start=5), "no member begins at 5"),
    "beyond the end": (entry(zip_of(GOOD), "x", stored=9000, size=9000), "9000 bytes at .* of a file of"),
    "two sizes": (entry(zip_of(GOOD), "x", size=9), "800 stored bytes of a member of 9"),
    "no deflate": (entry(zip_of(GOOD), "x", method=8), "header and the directory"),
    "not the checksum": (entry(zip_of(GOOD), "x", crc=1), "header and the directory"),
}


@pytest.mark.parametrize(("data", "said"), DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_member_is_an_error_of_its_key(data: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(data)
    storage = open_storage(tmp_path / "a.zip")
    assert storage.get(".zgroup") == GOOD[".zgroup"]
    with pytest.raises(StorageError, match=f"'x': a member of the zip file is damaged; found .*{said}"):
        storage.get("x")


def test_a_file_that_is_replaced_meanwhile_is_an_error(tmp_path: Path, served: Web, our_bucket) -> None:
    """On a plain web server the checksum tells; elsewhere the version."""
    content, other = zip_of(GOOD), zip_of({**GOOD, "x": b"87654321" * 100})
    (tmp_path / "a.zip").write_bytes(content)
    local = open_storage(tmp_path / "a.zip")
    (tmp_path / "a.zip").write_bytes(other + bytes(512))
    web = open_storage(served.put("a.zip", content))
    served.put("a.zip", other)
    place = f"{our_bucket.put('in', {'a.zip': content})}/a.zip"
    stored = open_storage(place, storage_options=our_bucket.options)
    our_bucket.put("in", {"a.zip": other})
    for storage in (local, web, stored):
        with pytest.raises(ZarrstackError, match=r"rewritten|damaged|checksum"):
            storage.get("x")


def test_a_source_that_changes_during_a_job_is_noticed(tmp_path: Path, archive: Path) -> None:
    place = tmp_path / "a.zip"
    place.write_bytes(zip_of(files(archive)))
    storage = open_storage(place)
    before = list(storage.list_prefix(""))
    place.write_bytes(zip_of({**files(archive), "g/new/.zgroup": b'{"zarr_format": 2}'}))
    assert set(storage.list_prefix("")) == {*before, "g/new/.zgroup"}


def test_a_directory_beyond_the_bound_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container_ranges, "_MAX_READ", 1000)
    (tmp_path / "a.zip").write_bytes(zip_of({f"{number}": b"" for number in range(50)}))
    with pytest.raises(StorageError, match="directory of the file is too large"):
        open_storage(tmp_path / "a.zip")


@pytest.mark.parametrize("name", ["a.zip", "b.ozx", "c.tar"])
def test_nothing_is_written_into_one(name: str, tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(zip_of(GOOD))
    storage = open_storage(tmp_path / "a.zip")
    for act in (lambda: storage.put("y", b""), lambda: storage.delete("x"), lambda: storage.create("y", b"")):
        with pytest.raises(StorageError, match="read-only"):
            act()
    with pytest.raises(UsageError, match="a zip or tar file cannot be written"):
        open_storage(tmp_path / name, mode="w")


def test_many_files_are_open_at_once(tmp_path: Path) -> None:
    """The directories of the last two are kept; those of others are read again."""
    places = []
    for number in range(4):
        (tmp_path / f"{number}.zip").write_bytes(zip_of({"x": bytes([number])}))
        places.append(open_storage(tmp_path / f"{number}.zip"))
    for _ in range(2):
        assert [place.get("x") for place in places] == [bytes([number]) for number in range(4)]
    assert container_ranges.LocalRanges(tmp_path / "0.zip").read_now(0, 2) == b"PK"
