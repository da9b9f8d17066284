"""Where an archive may lie, and what is said of a place that is none."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import fsspec
import pytest
import zarr
from tests.support import fixtures_index
from tests.support.web_servers import Files, serving
from zarr.storage import FsspecStore, LocalStore

import zarrlift
from zarrlift.formats.describe import describe
from zarrlift.storage.local.storage import LocalStorage
from zarrlift.storage.open_storage import open_storage
from zarrlift.storage.redact import redact, secrets_of
from zarrstack.core.errors import UsageError

OCEAN = fixtures_index.archive("zarr-2.18/people/ocean").path


def paths(place, **options):
    return [node.path for node in describe(open_storage(place, **options)).nodes]


def test_a_directory_is_reached_directly_however_it_is_named(monkeypatch):
    monkeypatch.setenv("HOME", str(OCEAN.parent))
    monkeypatch.setenv("USERPROFILE", str(OCEAN.parent))
    places = [str(OCEAN), OCEAN, OCEAN.as_uri(), f"~/{OCEAN.name}", LocalStore(OCEAN)]
    for place in places:
        storage = open_storage(place)
        assert isinstance(storage, LocalStorage)
        assert storage.url == str(OCEAN)
    assert open_storage(storage) is storage


def test_a_file_url_may_hold_escaped_characters(tmp_path):
    (tmp_path / "a b%").mkdir()
    assert open_storage((tmp_path / "a b%").as_uri()).url == str(tmp_path / "a b%")


def zipped(target: Path, prefix: str = "", extra: tuple[str, ...] = ()) -> Path:
    with zipfile.ZipFile(target, "w") as archive:
        for name in extra:
            archive.writestr(name, b"")
        for file in OCEAN.rglob("*"):
            if file.is_file():
                archive.write(file, prefix + file.relative_to(OCEAN).as_posix())
    return target


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize(
    ("prefix", "extra"),
    [("", ()), ("ocean.zarr/", ()), ("data/v1/ocean.zarr/", ("data/", "__MACOSX/._x", ".DS_Store"))],
    ids=["root", "packed with its directory", "packed deep, with an archiver's own"],
)
def test_a_zip_file_is_an_archive_wherever_its_root_lies_in_it(tmp_path, prefix, extra):
    place = zipped(tmp_path / "x.zip", prefix, extra)
    assert paths(place) == paths(OCEAN)
    # What a plan calls the place opens the same place again.
    assert paths(open_storage(place).url) == paths(OCEAN)


def test_directories_in_a_zip_file_are_no_objects(tmp_path):
    """As `zip -r` writes them."""
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        for file in sorted(OCEAN.rglob("*")):
            archive.write(file, file.relative_to(OCEAN))
    told = [problem.message for problem in zarrlift.plan(tmp_path / "x.zip").all_problems()]
    assert not [message for message in told if "belong to no" in message]
    stored = open_storage(tmp_path / "x.zip")
    assert not [key for key in stored.list_prefix("") if key.endswith("/")]


def copied(put):
    for file in OCEAN.rglob("*"):
        if file.is_file():
            put(file.relative_to(OCEAN).as_posix(), file.read_bytes())


@pytest.fixture
def web():
    with serving(functools.partial(Files, directory=str(OCEAN.parent))) as url:
        yield url


def test_plain_http_cannot_list_and_is_read_from_consolidated_metadata(web):
    storage = open_storage(f"{web}/{OCEAN.name}")
    assert not storage.can_list
    assert storage.get("no/.zarray") is None
    archive = describe(storage)
    assert [node.path for node in archive.nodes] == paths(OCEAN)
    assert archive.url == f"{web}/{OCEAN.name}"


# ----- what is no place


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("", "the path is empty"),
        (
            "/nowhere/at/all",
            r"^no such file or directory: /nowhere/at/all. Check the path: / has no 'nowhere'\.$",
        ),
        (
            __file__,
            "test_open_storage.py is a text file, not an archive; expected a directory, a",
        ),
        (OCEAN / ".zgroup", f"is not an archive; .*Give {OCEAN}"),
        ("file://elsewhere/x", "on this machine"),
        ("nosuch://x", "not a place"),
        (7, "not a place; found int"),
    ],
    ids=str,
)
def test_what_is_no_place_is_said_so(place, said):
    with pytest.raises(UsageError, match=said):
        open_storage(place)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\x89HDF\r\n\x1a\n", "an HDF5 or netCDF-4 file, .*xarray, or hdmf-zarr for NWB"),
        (b"CDF\x01", "a netCDF-3 file, .*xarray"),
        (b"MM\0*", "a TIFF file, .*bioformats2raw"),
        (b"\x1f\x8b\x08", "a gzip file, .*Unpack it first"),
        (b"\x28\xb5\x2f\xfd", "a Zstandard file, .*Unpack it first"),
        (b"PK\3\4 and no directory", "a zip file that is cut short or damaged, .*Copy it again"),
        (b"", "an empty file, .*expected a directory"),
        ("h\u00e9llo\n".encode(), "a text file, .*expected a directory"),
        (bytes(range(256)), "a file of an unknown kind, .*expected a directory"),
    ],
    ids=["hdf5", "netcdf", "tiff", "gzip", "zstd", "cut zip", "empty", "text", "unknown"],
)
def test_a_file_that_is_no_archive_is_called_what_it_is(tmp_path, content, said):
    file = tmp_path / "data"
    file.write_bytes(content)
    with pytest.raises(UsageError, match=f"^{re.escape(str(file))} is {said}"):
        open_storage(file)


@pytest.mark.parametrize(
    ("given", "advice"),
    [
        ("ocaen.zarr", "Did you mean {1}?"),
        ("oceans.zarr/sst", "Did you mean {1}?"),
        ("else", "Check the path: {} has no 'else'."),
        ("s3:/bucket/a.zarr", "A URL has two slashes: s3://bucket/a.zarr"),
    ],
)
def test_a_path_with_nothing_there_may_be_misspelt(tmp_path, monkeypatch, given, advice):
    (tmp_path / "ocean.zarr").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="no such file or directory") as told:
        open_storage(given)
    assert told.value.problem.advice == (advice and advice.format(tmp_path, tmp_path / "ocean.zarr"))


def test_in_place_too_there_must_be_a_source(tmp_path):
    with pytest.raises(UsageError, match="no such file or directory"):
        zarrlift.migrate(tmp_path / "old.zarr", in_place=True)
    assert not list(tmp_path.iterdir())
    with pytest.raises(UsageError, match="a zip or tar file cannot be written"):
        zarrlift.migrate(zipped(tmp_path / "x.zip"), in_place=True)


@pytest.mark.parametrize(
    ("scheme", "advice"),
    [
        ("s3", "Install it: pip install obstore botocore."),
        ("gs", "Install it: pip install obstore."),
        ("az", "Install it: pip install obstore."),
        ("ftp", "Install it."),
    ],
)
def test_a_package_that_is_missing_is_named_with_how_to_install_it(monkeypatch, scheme, advice):
    def without(*_args, **_options):
        raise ImportError("Install something")

    monkeypatch.setattr("zarr.storage.FsspecStore.from_url", without)
    monkeypatch.setattr("zarrlift.storage.remote.buckets.find_spec", lambda _: None)
    with pytest.raises(UsageError, match="needs a package that is not installed") as told:
        open_storage(f"{scheme}://bucket/a.zarr")
    assert told.value.problem.advice == advice
    assert scheme == "ftp" or "the extra s3" in str(told.value)


@pytest.mark.parametrize(
    ("given", "advice"),
    [
        (lambda: zarr.open_group(OCEAN, mode="r"), "store_path"),
        (lambda: fsspec.get_mapper(str(OCEAN)), "FsspecStore.from_mapper"),
        (dict, "MemoryStore of a dict"),
        (lambda: fsspec.filesystem("memory"), "a URL with storage_options"),
    ],
    ids=["group", "mapping", "dict", "file system"],
)
def test_an_object_that_is_no_place_is_told_what_makes_one_of_it(given, advice):
    with pytest.raises(UsageError, match="not a place; found") as told:
        open_storage(given())
    assert advice in told.value.problem.advice


def test_what_makes_a_place_of_an_object_does():
    group = zarr.open_group(OCEAN, mode="r")
    mapper = fsspec.get_mapper(OCEAN.as_uri())
    for place in (group.store_path, FsspecStore.from_mapper(mapper, read_only=True)):
        assert paths(place) == paths(OCEAN)


def test_an_array_from_a_url_is_shown_with_its_place():
    copied(open_storage("memory://places/shown", mode="w").put)
    shown = str(zarrlift.open("memory://places/shown", path="lat"))
    assert "places/shown" in shown
    assert " object at 0x" not in shown


def test_neither_place_may_hold_the_other():
    for source, destination, said in (
        (OCEAN, OCEAN / "new", "the destination is inside the source"),
        (OCEAN / "sst", OCEAN, "the source is inside the destination"),
    ):
        with pytest.raises(UsageError, match=said):
            zarrlift.plan(source, destination)


def test_writing_needs_no_directory_but_no_file_in_its_place(tmp_path):
    open_storage(tmp_path / "new", mode="w").put("a/b", b"1")
    assert (tmp_path / "new/a/b").read_bytes() == b"1"
    (tmp_path / "file").write_bytes(b"")
    for place in (tmp_path / "file", tmp_path / "x.zip"):
        with pytest.raises(UsageError, match=r"file"):
            open_storage(place, mode="w")


def test_storage_options_are_for_urls(tmp_path):
    with pytest.raises(UsageError, match="for URLs"):
        open_storage(tmp_path, storage_options={"key": "x"})


# ----- secrets


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("s3://bucket/a.zarr", "s3://bucket/a.zarr"),
        ("https://me:pass@host/a", "https://host/a"),
        ("zip::s3://key:pass@bucket/a.zip", "zip::s3://bucket/a.zip"),
        ("https://host/a?X-Amz-Signature=abc&b=c", "https://host/a?..."),
        ("cannot get 'https://host/a?sig=abc' now", "cannot get 'https://host/a?...' now"),
        ("no?sig", "no?sig"),
    ],
)
def test_urls_are_shown_without_user_password_and_query(text, shown):
    assert redact(text) == shown


def test_storage_options_never_appear_in_a_url_or_an_error():
    options = {"key": "AKIAEXAMPLE", "client_kwargs": {"token": "hunter22"}, "anon": False, "region": "eu"}
    assert set(secrets_of(options)) == {"AKIAEXAMPLE", "hunter22"}
    with pytest.raises(UsageError) as caught:
        open_storage("nosuch://AKIAEXAMPLE:hunter22@x?sig=zzz", storage_options=options)
    assert not [secret for secret in ("AKIA", "hunter22", "zzz") if secret in str(caught.value)]


@pytest.mark.slow(one_in=5)
@pytest.mark.parametrize(
    ("given", "advice"),
    [
        ("s3:/bucket/x", "Did you mean s3://bucket/x?"),
        ("s3:bucket/x", "Did you mean s3://bucket/x?"),
        ("https:/host/x.zarr", "Did you mean https://host/x.zarr?"),
        ("C:\\data\\x.zarr", "Give a path of this system."),
        ("D:/data/x.zarr", "Give a path of this system."),
        ("\\\\server\\share\\x.zarr", "Give a path of this system."),
    ],
)
def test_a_destination_that_was_meant_as_a_url_or_is_of_another_system_is_no_folder(
    given, advice, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=re.escape(advice)):
        zarrlift.migrate(OCEAN, given)
    assert list(tmp_path.iterdir()) == []
    assert zarrlift.migrate(OCEAN, f"./{given}").ok
    assert open_storage(given, mode="w").url == f"{tmp_path}/{given}"


@pytest.mark.slow
def test_names_that_are_not_read_as_utf_8_are_refused_before_anything_is_taken_for_gone(tmp_path):
    group = zarr.open_group(tmp_path / "old", mode="w", zarr_format=2)
    group.create_array("\u00e9", shape=(4,), chunks=(2,), dtype="<u2")[:] = 1
    code = f"""
import zarrlift
zarrlift.migrate({str(tmp_path / "old")!r}, {str(tmp_path / "new")!r})
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    only_ascii = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    before = sorted(tmp_path.rglob("*"))
    for words in (
        ["inspect", "old"],
        ["migrate", "old", "newer"],
        ["verify", "old", "new"],
        ["update", "--delete", "new"],
        ["undo", "--yes", "new"],
    ):
        ended = subprocess.run(
            [sys.executable, "-m", "zarrlift", *words],
            cwd=tmp_path,
            env=only_ascii,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert (ended.returncode, ended.stdout) == (2, "")
        assert ended.stderr.startswith("zarrlift: names of files cannot be read in this locale")
        assert "PYTHONUTF8=1" in ended.stderr
    assert sorted(tmp_path.rglob("*")) == before
