"""`diff` says "same" of equal archives only, whatever their formats, and changes neither of them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import zlib
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from tests.support.fixtures_index import archive, archives
from tests.support.job_archives import write_demo
from tests.support.web_servers import Files, serving

import zarrlift
from zarrlift import ArchiveDiff
from zarrlift.cli import main
from zarrlift.verification import diff as diff_module

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


def compare(first: Path, second: Path, **options: Any) -> ArchiveDiff:
    """`diff`, which leaves every byte of both alone."""
    before = stored(first, second)
    found = zarrlift.diff(first, second, **options)
    assert stored(first, second) == before
    return found


def told(found: ArchiveDiff) -> list[tuple[str, str]]:
    return [(one.node, one.what) for one in found.differences]


@pytest.fixture
def values() -> np.ndarray:
    return np.random.default_rng(5).integers(1, 60000, (50, 40)).astype("uint16")


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A legacy archive with what conventions change, and its migration."""
    root = tmp_path_factory.mktemp("diff")
    group = zarr.create_group(root / "a", zarr_format=2, attributes={"title": "a test"})
    array = group.create_array(
        "g/x", shape=(7, 5), chunks=(3, 2), dtype=">f4", fill_value=1.5, compressors=None,
        attributes={"_ARRAY_DIMENSIONS": ["y", "x"], "units": "m", "range": [0, {"top": float("nan")}]},
    )  # fmt: skip
    array[:] = np.arange(35, dtype="f4").reshape(7, 5)
    group.create_array("text", data=np.array(["a", "bc", "def"]), chunks=2)
    recipe = zarrlift.Recipe(base=zarrlift.ArrayRecipe(chunks="4,4", codecs="zstd:1", endian="little"))
    assert zarrlift.migrate(root / "a", root / "b", recipe=recipe).ok
    return root / "a", root / "b"


@pytest.fixture
def pair(origin: tuple[Path, Path], tmp_path: Path) -> tuple[Path, Path]:
    """The same, the second a copy that the test may change."""
    shutil.copytree(origin[1], tmp_path / "b")
    return origin[0], tmp_path / "b"


# ----- same


@pytest.mark.parametrize("full", [False, True])
def test_the_same_data_in_two_formats(full: bool, values: np.ndarray, tmp_path: Path) -> None:
    values[16:32, :16] = 0  # the block of fill values is missing in N5
    found = compare(v2(tmp_path / "v2", values), n5(tmp_path / "n5", values), full=full)
    assert found.ok, found.differences
    assert (found.first_format, found.second_format, found.arrays) == ("zarr2", "n5", 1)
    assert {one.what for one in found.stored} == {"codecs", "chunk keys"}


def test_an_archive_equals_its_migration_and_its_convention_is_stored_differently(
    origin: tuple[Path, Path],
) -> None:
    found = compare(*origin, full=True)
    assert found.ok, found.differences
    assert {(one.what, one.place) for one in found.stored if one.node == "g/x"} == {
        ("shape of chunks", None), ("shape of objects", None), ("codecs", None), ("chunk keys", None),
        ("attribute", "/_ARRAY_DIMENSIONS"), ("attribute", "/_FillValue"), ("attribute", "/range/1/top"),
        ("dimension names", None),
    }  # fmt: skip


def test_archives_in_zip_files_and_in_memory(origin: tuple[Path, Path], tmp_path: Path) -> None:
    packed = shutil.make_archive(str(tmp_path / "a.zarr"), "zip", origin[0])
    store = zarr.storage.MemoryStore()
    assert zarrlift.migrate(origin[0], store).ok
    assert zarrlift.diff(packed, store, full=True).ok
    zarr.open_array(store, path="g/x")[0, 0] = 8
    (difference,) = zarrlift.diff(store, packed, full=True).differences
    assert difference.values[0].index == (0, 0)


def test_a_store_that_cannot_list_is_compared_chunk_by_chunk(values: np.ndarray, tmp_path: Path) -> None:
    first, second = v2(tmp_path / "a", values), v2(tmp_path / "b", values, stored=False)
    with serving(partial(Files, directory=tmp_path)) as url:
        for full in (False, True):
            assert zarrlift.diff(f"{url}/a/a", second / "a", full=full).ok
        (second / "a/3.2").unlink()
        (difference,) = zarrlift.diff(first / "a", f"{url}/b/a", full=True).differences
    assert difference.count == 2 * 8


MIGRATED = ["zarr-2.18/people/ocean", "zarr-2.18/fills", "zarr_v1/zarr-1.1/arrays", "n5/java-3.5.1/tree"]
OTHERS = [
    each.name for kind in ("zarr_v1", "zarr_v2", "n5", "zarr_v3_draft")
    for each in archives(kind) if each.name not in MIGRATED  # type: ignore[arg-type]
]  # fmt: skip


@pytest.mark.parametrize(
    "name", [*MIGRATED, *(pytest.param(each, marks=pytest.mark.slow) for each in OTHERS)]
)
def test_every_fixture_equals_its_migration_and_itself(name: str, tmp_path: Path) -> None:
    place = archive(name).path
    outcome = zarrlift.migrate(place, tmp_path / "new")
    left_out = {problem.node for problem in outcome.problems if problem.severity == "refusal"}
    found = zarrlift.diff(place, tmp_path / "new", full=True)
    assert {one.node for one in (*found.differences, *found.problems)} == left_out
    assert all(one.what == "node" and one.second is None for one in found.differences)
    itself = zarrlift.diff(place, place, full=True)
    assert (itself.differences, itself.stored) == ((), ())
    assert {problem.node for problem in itself.problems} <= left_out


def test_byte_order_and_missing_chunks_of_fill_values_are_storage(values: np.ndarray, tmp_path: Path) -> None:
    values[16:32, :16] = 0
    first = v2(tmp_path / "a", values, dtype=">u2", order="F")
    second = v2(tmp_path / "b", values, dtype="<u2", order="C", stored=False)
    found = compare(first, second, full=True)
    assert found.ok
    assert [one.what for one in found.stored] == ["codecs"]


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
        array = zarr.create_array(tmp_path / name, shape=(5,), chunks=(2,), dtype="f4", fill_value=3)
        array[:] = np.full(5, bits, "u4").view("f4")
    assert compare(tmp_path / "a", tmp_path / "b").ok == ok


# ----- different

# Every kind of difference is found on either side: `test_verify_finds.py`.


def test_the_first_values_that_differ_are_named_with_both_sides(pair: tuple[Path, Path]) -> None:
    zarr.open_array(pair[1] / "g/x")[4:, 3] = 99
    (difference,) = compare(*pair, full=True).differences
    assert (difference.what, difference.count) == ("values", 3)
    assert [(value.index, value.first, value.second) for value in difference.values] == [
        ((4, 3), "23.0", "99.0")
    ] or len(difference.values) > 1
    (swapped,) = compare(*pair[::-1], full=True).differences
    assert swapped.count == 3
    assert {(value.first, value.second) for value in swapped.values} <= {
        ("99.0", text) for text in ("23.0", "28.0", "33.0")
    }


def test_an_attribute_is_named_by_its_place(pair: tuple[Path, Path]) -> None:
    file = pair[1] / "g/x/zarr.json"
    document = json.loads(file.read_text())
    document["attributes"]["range"] = [1, {"top": "NaN"}]
    file.write_text(json.dumps(document))
    (difference,) = compare(*pair).differences
    assert (difference.place, difference.first, difference.second) == ("/range/0", "0", "1")


def test_a_broken_convention_on_one_side_is_one_difference(tmp_path: Path) -> None:
    """Conventions then convert one side alone, whose other nodes are nevertheless equal."""
    first, second = write_demo(tmp_path / "demo") / "spots.zarr", tmp_path / "b"
    shutil.copytree(first, second)
    document = json.loads((second / ".zattrs").read_text())
    document["multiscales"][0]["axes"] = "none"
    (second / ".zattrs").write_text(json.dumps(document))
    found = compare(first, second)
    assert {one for one, _ in told(found)} == {""}
    assert not found.stored


def test_a_chunk_that_one_side_lacks_is_always_in_the_sample(values: np.ndarray, tmp_path: Path) -> None:
    first = zarr.create_array(tmp_path / "a", shape=(4000,), chunks=(10,), dtype="i4", fill_value=0)
    first[:] = 1
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    (tmp_path / "b/c/123").unlink()
    (difference,) = compare(tmp_path / "a", tmp_path / "b").differences
    assert (difference.count, difference.values[0].index) == (10, (1230,))


@pytest.mark.slow
@given(data=st.data())
def test_arrays_are_the_same_exactly_if_numpy_says_so(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("numpy")
    shape = tuple(data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=3)))
    cells = int(np.prod(shape))
    one = np.array(data.draw(st.lists(st.integers(0, 2), min_size=cells, max_size=cells)), "i2").reshape(
        shape
    )
    other = one.copy()
    for place in data.draw(st.lists(st.integers(0, cells - 1), max_size=3)):
        other.flat[place] = data.draw(st.integers(0, 2))
    for name, content, form in (("a", one, 2), ("b", other, data.draw(st.sampled_from([2, 3])))):
        chunks = tuple(data.draw(st.integers(1, length + 2)) for length in shape)
        more: dict[str, Any] = {}
        if form == 3 and data.draw(st.booleans()):
            more = {"shards": tuple(2 * length for length in chunks)}
        dtype = data.draw(st.sampled_from(["<i2", ">i2"])) if form == 2 else "i2"
        array = zarr.create_array(
            root / name, shape=shape, chunks=chunks, dtype=dtype, fill_value=0, zarr_format=form, **more
        )
        array[...] = content
    found = zarrlift.diff(root / "a", root / "b", full=True)
    assert found.ok == np.array_equal(one, other)
    assert sum(each.count for each in found.differences) == np.count_nonzero(one != other)
    for each in found.differences:
        for value in each.values:
            assert (int(value.first), int(value.second)) == (one[value.index], other[value.index])


# ----- what cannot be compared


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


@pytest.mark.parametrize("side", ["A", "B"])
@pytest.mark.parametrize("full", [False, True])
def test_an_unreadable_chunk_is_trouble_with_its_key(
    side: str, full: bool, values: np.ndarray, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = v2(tmp_path / "v2", values), n5(tmp_path / "n5", values)
    key = "a/0.0" if side == "A" else "a/0/0"
    cut((first if side == "A" else second) / key)
    found = compare(first, second, full=full)
    assert (found.state, found.differences) == ("trouble", ())
    (problem,) = found.problems
    assert (problem.node, problem.key) == ("a", key)
    assert problem.message.startswith(f"in {side}: ")
    words = ["diff", str(first), str(second), *["--full"] * full]
    assert main(words) == 2
    assert key in capsys.readouterr().out


def test_garbage_on_both_sides_is_not_the_same(values: np.ndarray, tmp_path: Path) -> None:
    first = v2(tmp_path / "a", values)
    (first / "a/3.2").write_bytes(b"garbage")
    found = compare(first, first)
    assert found.state == "trouble"
    assert [problem.key for problem in found.problems] == ["a/3.2"]


@pytest.mark.parametrize("content", [b"", None], ids=["an empty file", "a broken link"])
def test_what_is_no_chunk_is_trouble_even_in_a_sample(content: bytes | None, tmp_path: Path) -> None:
    array = zarr.create_array(tmp_path / "a", shape=(4000,), chunks=(10,), dtype="i4", zarr_format=2)
    array[:] = 1
    file = tmp_path / "a" / "123"
    file.unlink()
    if content is None:
        file.symlink_to("nowhere")
    else:
        file.write_bytes(content)
    found = compare(tmp_path / "a", tmp_path / "a")
    assert found.state == "trouble"
    assert {problem.key for problem in found.problems} == {"123"}


def test_a_refused_node_on_both_sides_is_trouble_and_differences_are_told_too(
    values: np.ndarray, tmp_path: Path
) -> None:
    first = v2(tmp_path / "a", values)
    (first / "bad").mkdir()
    (first / "bad/.zarray").write_text("{")
    shutil.copytree(first, tmp_path / "b")
    (tmp_path / "b/.zattrs").write_text('{"more": 1}')
    found = compare(first, tmp_path / "b")
    assert (found.state, told(found)) == ("trouble", [("", "attribute")])
    assert [(problem.node, problem.message[:5]) for problem in found.problems] == [
        ("bad", "in A:"),
        ("bad", "in B:"),
    ]
    assert main(["diff", str(first), str(tmp_path / "b"), "-q"]) == 2


# ----- the command


def test_two_formats_in_one_place_are_named(values: np.ndarray, tmp_path: Path) -> None:
    place = v2(tmp_path / "a", values)
    assert zarrlift.migrate(place, in_place=True).ok
    assert main(["diff", str(place), str(place), "--from", "zarr2,zarr3", "--full"]) == 0
    found = compare(place, place, format="zarr2,zarr3")
    assert (found.first_format, found.second_format) == ("zarr2", "zarr3")


WRONG = {
    "ocean nowhere": "no such file or directory",
    "ocean empty": "no archive found",
    "ocean ocean --from zarr9": "unknown format 'zarr9'",
    "ocean ocean --from n5": "no n5 archive found",
    "ocean": "Missing argument",
}


@pytest.mark.parametrize("words", WRONG)
def test_a_bad_request_is_one_line_and_exit_code_2(
    words: str, values: np.ndarray, tmp_path: Path, monkeypatch: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    v2(tmp_path / "ocean", values)
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    assert main(["diff", *words.split()]) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if not line.startswith(("Usage", "Try"))]
    assert len([line for line in lines if line]) == 1
    assert WRONG[words] in lines[-1]


def test_what_is_no_answer_is_trouble(
    values: np.ndarray, tmp_path: Path, monkeypatch: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """A script that asks whether two archives differ takes 1 for "they do"."""

    def fail(*_: Any, **__: Any) -> None:
        raise zarrlift.errors.StorageError("the disk is on fire")

    monkeypatch.setattr(diff_module, "diff_archives", fail)
    place = str(v2(tmp_path / "a", values))
    assert main(["diff", place, place, "--json"]) == 2
    answer = json.loads(capsys.readouterr().out)
    assert (answer["exit_code"], answer["error"]["kind"]) == (2, "storage")


def test_a_result_that_cannot_be_printed_is_trouble(values: np.ndarray, tmp_path: Path) -> None:
    place = str(v2(tmp_path / "a", values))
    with open("/dev/full", "w") as full:
        words = [sys.executable, "-m", "zarrlift", "diff", place, place]
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)


def test_json_has_every_place(pair: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    zarr.open_array(pair[1] / "g/x")[6, 4] = -1
    assert main(["diff", *map(str, pair), "--json"]) == 1
    result = json.loads(capsys.readouterr().out)["result"]
    assert result["state"] == "different"
    (difference,) = result["differences"]
    assert difference["values"] == [{"index": [6, 4], "first": "34.0", "second": "-1.0"}]


WAITS = """
import sys, time
from zarrlift.cli import main
from zarrlift.verification.array_values import ArrayValues
def compare(self, batch):
    print("comparing", flush=True)
    time.sleep(0.2)
    raise SystemError("this does not matter any more")
ArrayValues.compare = compare
sys.exit(main())
"""


def test_ctrl_c_ends_with_130_and_leaves_both_alone(values: np.ndarray, tmp_path: Path) -> None:
    first, second = v2(tmp_path / "v2", values), n5(tmp_path / "n5", values)
    before = stored(first, second)
    words = [sys.executable, "-c", WAITS, "diff", str(first), str(second), "--full"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        os.kill(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    stopping, interrupted = err.splitlines()
    assert stopping.startswith("zarrlift: Stopping: ")
    assert interrupted == "zarrlift: interrupted. Nothing was changed."
    assert stored(tmp_path) == before
