"""`verify` compares any two archives: one that is not Zarr v3 is read as `zarrlift.open` presents it."""

from __future__ import annotations

import json
import shutil
import struct
import zlib
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from tests.support.fixtures_index import archive
from tests.support.web_servers import Files, serving

import zarrlift
from zarrlift.cli import main
from zarrlift.errors import UsageError
from zarrlift.verification.archives import VerificationReport

SHAPE, CHUNKS = (50, 40), (16, 16)


def v2(root: Path, values: np.ndarray, *, dtype: str = ">u2", order: str = "F", stored: bool = True) -> Path:
    """A Zarr v2 array; with `stored`, even chunks of fill values."""
    (root / "a").mkdir(parents=True)
    (root / ".zgroup").write_text('{"zarr_format": 2}')
    document = {
        "zarr_format": 2, "shape": SHAPE, "chunks": CHUNKS, "dtype": dtype, "order": order,
        "compressor": {"id": "zlib", "level": 1}, "filters": None, "fill_value": 0,
    }  # fmt: skip
    (root / "a/.zarray").write_text(json.dumps(document))
    for row in range(4):
        for column in range(3):
            part = values[row * 16 : row * 16 + 16, column * 16 : column * 16 + 16]
            chunk = np.full(CHUNKS, 9, dtype)  # what is beyond the array does not count
            chunk[: part.shape[0], : part.shape[1]] = part
            if stored or part.any():
                (root / f"a/{row}.{column}").write_bytes(zlib.compress(chunk.tobytes(order)))
    return root


def n5(root: Path, values: np.ndarray) -> Path:
    """The same in N5, with truncated blocks at the edges, and without the block of fill values."""
    document = {
        "dimensions": SHAPE[::-1], "blockSize": CHUNKS, "dataType": "uint16", "compression": {"type": "raw"},
    }  # fmt: skip
    (root / "a").mkdir(parents=True)
    (root / "attributes.json").write_text('{"n5": "2.0.0"}')
    (root / "a/attributes.json").write_text(json.dumps(document))
    for row in range(4):
        for column in range(3):
            part = values[row * 16 : row * 16 + 16, column * 16 : column * 16 + 16]
            if part.any():
                head = struct.pack(">HHII", 0, 2, part.shape[1], part.shape[0])
                (root / f"a/{column}").mkdir(exist_ok=True)
                (root / f"a/{column}/{row}").write_bytes(head + part.astype(">u2").tobytes())
    return root


def stored(*roots: Path) -> dict[Path, tuple[bytes, int]]:
    """Every file with its content and time."""
    files = (path for root in roots for path in root.rglob("*") if path.is_file())
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def compare(first: Path, second: Path, **options: Any) -> VerificationReport:
    """`verify`, which leaves every byte of both alone and says the same of them in the other order."""
    before = stored(first, second)
    report, reverse = zarrlift.verify(first, second, **options), zarrlift.verify(second, first, **options)
    assert stored(first, second) == before
    assert (report.source, report.destination) == (str(first), str(second))
    assert dict(report.differences).keys() == dict(reverse.differences).keys()
    return report


@pytest.fixture
def values() -> np.ndarray:
    return np.random.default_rng(5).integers(1, 60000, (50, 40)).astype("uint16")


# ----- equal


@pytest.mark.parametrize("full", [False, True])
def test_the_same_data_in_two_formats(full: bool, values: np.ndarray, tmp_path: Path) -> None:
    values[16:32, :16] = 0  # the block of fill values is missing in N5
    report = compare(v2(tmp_path / "v2", values), n5(tmp_path / "n5", values), full=full)
    assert report.ok, report.problems
    assert (report.arrays, report.groups) == (1, 1)


def test_archives_in_zip_files_and_in_memory(values: np.ndarray, tmp_path: Path) -> None:
    packed = shutil.make_archive(str(tmp_path / "a.zarr"), "zip", v2(tmp_path / "a", values))
    store = zarr.storage.MemoryStore()
    assert zarrlift.migrate(tmp_path / "a", store).ok
    assert zarrlift.verify(store, packed, full=True).ok
    assert zarrlift.verify(n5(tmp_path / "n5", values), packed, full=True).ok
    zarr.open_array(store, path="a")[0, 0] = 0
    assert dict(zarrlift.verify(store, packed, full=True).differences) == {"a": 1}


def test_a_store_that_cannot_list_is_compared_chunk_by_chunk(values: np.ndarray, tmp_path: Path) -> None:
    first, second = v2(tmp_path / "a", values), v2(tmp_path / "b", values, stored=False)
    with serving(partial(Files, directory=tmp_path)) as url:
        assert zarrlift.verify(second / "a", f"{url}/a/a", full=True).ok
        (second / "a/3.2").unlink()
        (problem,) = zarrlift.verify(first / "a", f"{url}/b/a", full=True).problems
    assert "16 of them, first at [48, 32]" in problem.message


SMALL = ["zarr-2.18/people/ocean", "zarr_v1/zarr-1.1/root", "n5/java-3.5.1/tree"]


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize("name", SMALL)
def test_a_fixture_equals_itself(name: str) -> None:
    """tests/end_to_end/test_fixtures.py compares every fixture with its migration, in both orders."""
    place = archive(name).path
    kind = zarrlift.inspect(place).format
    refused = {problem.node or "" for problem in zarrlift.plan(place).all_problems()}
    itself = zarrlift.verify(place, place, format=f"{kind},{kind}", full=True)
    assert dict(itself.differences).keys() <= refused, itself.problems


# ----- different


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize(
    ("one", "other", "ok"),
    [
        (0x7FC00000, 0x7FC00000, True),
        (0x7FC00000, 0x7FC00001, False),
        (0x00000000, 0x80000000, False),
    ],
    ids=["the same NaN", "another NaN", "zero and negative zero"],
)
def test_values_are_compared_bit_by_bit(one: int, other: int, ok: bool, tmp_path: Path) -> None:
    for name, bits in (("a", one), ("b", other)):
        array = zarr.create_array(
            tmp_path / name, shape=(5,), chunks=(2,), dtype="f4", fill_value=3, zarr_format=2
        )
        array[:] = np.full(5, bits, "u4").view("f4")
    assert compare(tmp_path / "a", tmp_path / "b").ok == ok


def test_the_first_value_that_differs_is_named(values: np.ndarray, tmp_path: Path) -> None:
    other = values.copy()
    other[4:7, 3] += 1
    first, second = v2(tmp_path / "a", values), v2(tmp_path / "b", other, dtype="<u2", order="C")
    (problem,) = compare(first, second, full=True).problems
    assert "3 of them, first at [4, 3]" in problem.message
    assert (problem.node, problem.found, problem.expected) == ("a", str(other[4, 3]), str(values[4, 3]))


def test_nodes_shapes_and_attributes_of_either_side_count(values: np.ndarray, tmp_path: Path) -> None:
    first, second = v2(tmp_path / "a", values), v2(tmp_path / "b", values)
    (first / ".zattrs").write_text('{"title": "one"}')
    zarr.create_array(second / "more", shape=(3,), dtype="i4", zarr_format=2)
    document = json.loads((second / "a/.zarray").read_bytes())
    (second / "a/.zarray").write_text(json.dumps({**document, "shape": [50, 41]}))
    report = compare(first, second)
    assert dict(report.differences) == {"": 1, "a": 1, "more": 1}


def test_a_chunk_that_one_side_lacks_is_always_in_the_sample(tmp_path: Path) -> None:
    first = zarr.create_array(
        tmp_path / "a", shape=(4000,), chunks=(10,), dtype="i4", fill_value=0, zarr_format=2
    )
    first[:] = 1
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    (tmp_path / "b/123").unlink()
    (problem,) = compare(tmp_path / "a", tmp_path / "b").problems
    assert "first at [1230]" in problem.message


# ----- what cannot be compared


@pytest.mark.slow(one_in=5)
@pytest.mark.parametrize("side", ["first", "second"])
@pytest.mark.parametrize("full", [False, True])
def test_an_unreadable_chunk_is_a_difference_with_its_key(
    side: str, full: bool, values: np.ndarray, tmp_path: Path
) -> None:
    first, second = v2(tmp_path / "v2", values), n5(tmp_path / "n5", values)
    key = "a/0.0" if side == "first" else "a/0/0"
    file = (first if side == "first" else second) / key
    file.write_bytes(file.read_bytes()[:-1])
    (problem,) = compare(first, second, full=full).problems
    assert problem.node == "a"
    assert f"'{key}'" in str(problem)


def test_garbage_and_refused_nodes_on_both_sides_are_not_equal(values: np.ndarray, tmp_path: Path) -> None:
    first = v2(tmp_path / "a", values)
    (first / "a/3.2").write_bytes(b"garbage")
    (first / "bad").mkdir()
    (first / "bad/.zarray").write_text("{")
    shutil.copytree(first, tmp_path / "b")
    assert dict(compare(first, tmp_path / "b").differences).keys() == {"a", "bad"}


def test_a_refused_node_that_the_first_archive_lacks_is_a_difference(
    values: np.ndarray, tmp_path: Path
) -> None:
    first, second = v2(tmp_path / "a", values), v2(tmp_path / "b", values)
    (second / "bad").mkdir()
    (second / "bad/.zarray").write_text("{")
    (problem,) = compare(first, second).problems
    assert (problem.node, problem.key) == ("bad", "bad/.zarray")


# ----- the formats


def test_two_formats_in_one_place_are_named(
    values: np.ndarray, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = v2(tmp_path / "a", values)
    assert zarrlift.migrate(place, in_place=True).ok
    for names in ("zarr2,zarr3", "zarr3,zarr2", "zarr2,zarr2"):
        assert main(["verify", str(place), str(place), "--from", names, "--full"]) == 0, names
        assert "1 array" in capsys.readouterr().out
    with pytest.raises(UsageError, match="no n5 archive found"):
        zarrlift.verify(place, place, format="zarr2,n5")
    with pytest.raises(UsageError, match="unknown format 'zarr9'"):
        zarrlift.verify(place, place, format="zarr2,zarr9")


def test_other_processes_compare_results_in_zarr_v3_only(values: np.ndarray, tmp_path: Path) -> None:
    first, second = v2(tmp_path / "a", values), n5(tmp_path / "b", values)
    with pytest.raises(UsageError, match="cannot read the second archive"):
        zarrlift.verify(first, second, full=True, executor="processes")
