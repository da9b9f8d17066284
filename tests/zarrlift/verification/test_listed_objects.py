"""`verify` lists both sides: what names and sizes tell is found in every array, whatever is sampled."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import zarr
from numcodecs import Zlib

import zarrlift
from zarrlift.cli import main
from zarrlift.verification import arrays, listed_objects
from zarrstack.core.errors import UsageError

ARRAYS = ("linked", "packed", "plain", "sharded")
"""Copied unchanged, recoded, uncompressed, regridded."""
CHUNKS = 60


@pytest.fixture(scope="module")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an archive of many chunks, some of them missing, its result and the job beside it."""
    root = tmp_path_factory.mktemp("listed")
    group = zarr.open_group(str(root / "old.zarr"), mode="w", zarr_format=2)
    for name, compressor in (("linked", "auto"), ("packed", Zlib(1)), ("plain", None), ("sharded", "auto")):
        array = group.create_array(
            name, shape=(CHUNKS, 3), chunks=(1, 3), dtype="<i4", compressors=compressor, fill_value=7
        )
        array[:-20] = np.arange(3 * (CHUNKS - 20)).reshape(-1, 3)
    recipe = zarrlift.Recipe(sections=(("sharded", (("chunks", "10,3"),)),))
    assert zarrlift.migrate(root / "old.zarr", root / "new.zarr", recipe=recipe).ok
    return root


@pytest.fixture
def place(migrated: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The result; it is put back afterwards. Only the first and the last chunk are sampled."""
    monkeypatch.setattr(arrays, "_SAMPLED", 0)
    whole = migrated / "whole"
    if not whole.exists():
        shutil.copytree(migrated / "new.zarr", whole)
    shutil.rmtree(migrated / "new.zarr")
    shutil.copytree(whole, migrated / "new.zarr")
    return migrated


def chunk(name: str, number: int) -> str:
    return f"{name}/c/{number}/0"


def delete(file: Path) -> None:
    file.unlink()


def empty(file: Path) -> None:
    file.write_bytes(b"")


def lengthen(file: Path) -> None:
    file.write_bytes(file.read_bytes() + b"\0")


def shorten(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def directory(file: Path) -> None:
    file.unlink()
    file.mkdir()


CASES = [
    *((name, how) for name in ARRAYS for how in (delete, empty, directory)),
    ("linked", lengthen),
    ("linked", shorten),
    ("plain", lengthen),
    ("plain", shorten),
]


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize(("name", "how"), CASES, ids=lambda case: getattr(case, "__name__", case))
def test_an_object_that_is_not_as_it_must_be_is_named(
    name: str, how: Callable[[Path], None], place: Path
) -> None:
    key = chunk(name, 2)
    how(place / "new.zarr" / key)
    report = zarrlift.verify(place / "old.zarr", place / "new.zarr")
    assert [problem.key for problem in report.problems] == [key]
    assert dict(report.differences) == {name: 1}


@pytest.mark.parametrize("name", ["linked", "packed", "plain"])
@pytest.mark.parametrize("number", [CHUNKS - 7, CHUNKS + 5], ids=["in the array", "outside"])
def test_an_object_that_the_source_does_not_have_is_named(name: str, number: int, place: Path) -> None:
    """Outside the array it would appear when the array grows."""
    key = chunk(name, number)
    (place / "new.zarr" / key).parent.mkdir()
    shutil.copy(place / "new.zarr" / chunk(name, 3), place / "new.zarr" / key)
    report = zarrlift.verify(place / "old.zarr", place / "new.zarr")
    assert [problem.key for problem in report.problems] == [key]


def test_all_of_them_are_counted_in_every_array(place: Path) -> None:
    for name in ARRAYS[:3]:
        for number in range(10, 35):
            (place / "new.zarr" / chunk(name, number)).unlink()
    report = zarrlift.verify(place / "old.zarr", place / "new.zarr")
    assert dict(report.differences) == dict.fromkeys(ARRAYS[:3], 25)
    assert {problem.kind for problem in report.problems} == {"verify-objects"}


def test_without_a_job_the_values_decide(place: Path, tmp_path: Path) -> None:
    """Other software may omit chunks of fill values, or write them all."""
    result = zarr.open_array(str(place / "new.zarr/packed"), mode="r+", config={"write_empty_chunks": True})
    result[CHUNKS - 15] = 7
    source = tmp_path / "old.zarr"
    shutil.copytree(place / "old.zarr", source)
    zarr.open_array(str(source / "packed"), mode="r+", zarr_format=2)[11] = 7
    zarr.open_array(str(source / "linked"), mode="r+", zarr_format=2, config={"write_empty_chunks": True})[
        12
    ] = 7
    moved = tmp_path / "new.zarr"
    shutil.copytree(place / "new.zarr", moved)
    for name, number in (("packed", 11), ("linked", 12)):
        (moved / chunk(name, number)).unlink()
    assert zarrlift.verify(source, moved).ok
    (moved / chunk("linked", 13)).unlink()
    report = zarrlift.verify(source, moved)
    assert [problem.key for problem in report.problems] == [chunk("linked", 13)]


def test_an_omitted_chunk_is_no_difference(tmp_path: Path) -> None:
    group = zarr.open_group(str(tmp_path / "old.zarr"), mode="w", zarr_format=2)
    array = group.create_array(
        "a", shape=(40,), chunks=(1,), dtype="<i4", fill_value=7, config={"write_empty_chunks": True}
    )
    array[:30] = 7
    array[30:] = 8
    recipe = zarrlift.Recipe(base=zarrlift.ArrayRecipe(drop_empty=True))
    assert zarrlift.migrate(tmp_path / "old.zarr", tmp_path / "new.zarr", recipe=recipe).dropped == 30
    assert zarrlift.verify(tmp_path / "old.zarr", tmp_path / "new.zarr").ok
    (tmp_path / "new.zarr" / "a/c/35").unlink()
    assert not zarrlift.verify(tmp_path / "old.zarr", tmp_path / "new.zarr").ok


def test_the_share_of_values_is_printed(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ends = [str(place / "old.zarr"), str(place / "new.zarr")]
    assert main(["verify", *ends]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "documents, names and sizes, and a sample of chunks" in text
    report = zarrlift.verify(*ends)
    stored = 3 * 3 * (CHUNKS - 20) + 3 * (CHUNKS - 20)
    assert report.share == pytest.approx(report.bytes / 4 / stored)
    assert f"({1000 * report.share // 1 / 10:g} % of the stored values)" in text
    assert zarrlift.verify(*ends, full=True).share == 1


def test_without_a_listing_only_samples_are_compared(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are of the chunks that the job has listed."""
    ends = [str(place / "old.zarr"), str(place / "new.zarr")]
    (place / "new.zarr" / chunk("packed", 17)).unlink()
    assert main(["verify", *ends]) == 1
    capsys.readouterr()

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("listed")

    monkeypatch.setattr(listed_objects, "take_inventory", refuse)
    assert main(["verify", *ends, "--no-list"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "Compared documents and a sample of chunks" in text
    (place / "new.zarr" / chunk("packed", 0)).unlink()
    assert main(["verify", *ends, "--no-list"]) == 1
    assert main(["verify", *ends, "--no-list", "--full"]) == 2
    with pytest.raises(UsageError, match="lists all objects"):
        zarrlift.verify(*ends, full=True, no_list=True)


def test_in_place_an_empty_chunk_is_named(tmp_path: Path) -> None:
    group = zarr.open_group(str(tmp_path / "a.zarr"), mode="w", zarr_format=2)
    group.create_array("a", data=np.arange(100), chunks=1)
    assert zarrlift.migrate(tmp_path / "a.zarr", in_place=True).ok
    (tmp_path / "a.zarr/a/41").write_bytes(b"")
    report = zarrlift.verify(tmp_path / "a.zarr")
    assert [problem.key for problem in report.problems] == ["a/41"]
