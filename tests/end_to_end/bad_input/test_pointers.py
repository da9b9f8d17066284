"""A pointer of Git LFS or git-annex in the place of a file that was not fetched is called one."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.support.damaged_archives import GOOD, copied, migrate, read, run
from tests.support.fixtures_index import archive

import zarrlift
from zarrlift.core.git_pointers import pointer
from zarrstack.core.errors import ChunkError, UsageError

LFS = (
    b"version https://git-lfs.github.com/spec/v1\n"
    b"oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\n"
    b"size 12345\n"
)
ANNEX = b"/annex/objects/SHA256E-s12345--4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\n"
A_LINKS_TEXT = b"../../.git/annex/objects/Gz/4v/MD5E-s5--d8e8fca2dc0f896fd7cb4cb0031ba249/MD5E-s5--d8e8"
POINTERS = {
    "git-lfs": (LFS, "a Git LFS pointer", "git lfs pull"),
    "git-annex": (ANNEX, "a git-annex pointer", "git annex get"),
    "git-annex, no links": (A_LINKS_TEXT, "a git-annex pointer", "git annex get"),
}
each_pointer = pytest.mark.parametrize(("text", "what", "command"), POINTERS.values(), ids=POINTERS)


def v2_array(place: Path, chunk: bytes) -> None:
    place.mkdir(parents=True)
    document = {
        "zarr_format": 2,
        "shape": [8],
        "chunks": [8],
        "dtype": "<i4",
        "compressor": None,
        "fill_value": 0,
        "filters": None,
        "order": "C",
    }
    (place / ".zarray").write_text(json.dumps(document))
    (place / "0").write_bytes(chunk)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """An archive with two arrays, /bad and /good."""
    place = tmp_path / "source.zarr"
    for name in ("bad", "good"):
        v2_array(place / name, GOOD.tobytes())
    (place / ".zgroup").write_text('{"zarr_format": 2}')
    return place


@each_pointer
def test_a_chunk(text: bytes, what: str, command: str, source: Path, tmp_path: Path) -> None:
    (source / "bad/0").write_bytes(text)
    ran = migrate(source, tmp_path / "out.zarr")
    (told,) = ran.refusals
    assert (told["kind"], told["node"], told["key"]) == ("chunk", "bad", "bad/0")
    assert what in told["message"]
    assert command in told["advice"]
    assert ran.code == 1
    assert read(tmp_path / "out.zarr/good").tolist() == GOOD.tolist()


@each_pointer
@pytest.mark.parametrize("name", [".zarray", ".zattrs"])
def test_a_document(name: str, text: bytes, what: str, command: str, source: Path, tmp_path: Path) -> None:
    (source / "bad" / name).write_bytes(text)
    for ran in (
        run("migrate", "--dry-run", source, tmp_path / "out.zarr", "--json"),
        run("inspect", source, "--json"),
    ):
        told = json.dumps(json.loads(ran.out))
        assert f"{what} is stored in the place of the document" in told
        assert command in told


@pytest.mark.parametrize("name", [".zgroup", "zarr.json", "attributes.json", "meta"])
def test_the_document_that_would_tell_the_format(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(LFS)
    assert "a Git LFS pointer is stored in" in run("inspect", tmp_path).err + run("inspect", tmp_path).out


def test_the_first_chunk_of_every_array_by_an_old_writer(tmp_path: Path) -> None:
    """Whatever the codecs make of a pointer: its name is told in the place of what they say."""
    expected = archive("zarr_v2/zarr-2.18/codecs")
    place = copied(expected.path, tmp_path / "codecs.zarr")
    first = {}
    for path in expected.arrays:
        names = sorted(file.name for file in (place / path).iterdir() if file.name[0].isdigit())
        first[path] = f"{path}/{names[0]}"
        (place / first[path]).write_bytes(LFS)
    outcome = zarrlift.migrate(place, tmp_path / "out.zarr")
    assert {p.node: p.key for p in outcome.problems if "Git LFS pointer" in p.message} == first


def test_a_view_names_it_and_so_does_a_comparison(source: Path, tmp_path: Path) -> None:
    assert zarrlift.migrate(source, tmp_path / "out.zarr").ok
    (source / "bad/0").write_bytes(LFS)
    with pytest.raises(ChunkError, match="a Git LFS pointer is stored in the place of a chunk"):
        zarrlift.open(source)["bad"][:]
    report = zarrlift.verify(source, tmp_path / "out.zarr", full=True)
    assert any("Git LFS pointer" in problem.message for problem in report.problems)


def test_blocks_that_stay_where_they_lie(tmp_path: Path) -> None:
    place = copied(archive("n5/java-3.5.1/root").path, tmp_path / "root.n5")
    block = next(file for file in sorted(place.rglob("0")) if file.is_file())
    block.write_bytes(LFS)
    outcome = zarrlift.migrate(place, in_place=True)
    assert any("Git LFS pointer" in problem.message for problem in outcome.problems)


def test_a_resumed_job_ends_once_the_file_is_fetched(source: Path, tmp_path: Path) -> None:
    (source / "bad/0").write_bytes(LFS)
    destination = tmp_path / "out.zarr"
    assert not zarrlift.migrate(source, destination).ok
    (source / "bad/0").write_bytes(GOOD.tobytes())
    assert zarrlift.resume(destination).ok
    assert np.array_equal(read(destination / "bad"), GOOD)


@pytest.mark.parametrize(
    "data", [b"", b"version", b'{"version": "https://git-lfs.github.com/spec/v1"}', b"\x02\x01!\x04" * 64]
)
def test_what_is_no_pointer(data: bytes) -> None:
    assert pointer(data) is None


def test_where_nothing_is_an_archive_nothing_is_called_a_pointer(tmp_path: Path) -> None:
    (tmp_path / "meta").write_bytes(b"{")
    with pytest.raises(UsageError) as raised:
        zarrlift.inspect(tmp_path)
    assert "pointer" not in str(raised.value.problem.advice)
