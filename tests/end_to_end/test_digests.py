"""One digest for one array of values: in every format, before and after every migration."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import zarr
from tests.support.fixtures_index import archive
from tests.support.job_processes import stopping
from tests.zarrlift.storage.test_processes import Cluster

import zarrlift
from zarrlift import ArrayRecipe, Recipe
from zarrlift.archive import chunk_inventory
from zarrlift.cli import main
from zarrlift.core.digest.value_digest import BlockSums, ValueSums
from zarrlift.errors import JobError, StorageError, UsageError
from zarrlift.jobs.ledger.ledger import Job
from zarrlift.transfer.recode import InnerChunkConversion
from zarrlift.transfer.worker import Worker
from zarrlift.verification import value_digests

SHAPE, CHUNKS = (50, 40), (16, 16)
RECIPES = {
    "copied": ArrayRecipe(codecs="keep"),
    "recoded": ArrayRecipe(codecs="zstd:1"),
    "rewritten": ArrayRecipe(codecs="gzip:1", endian="big", order="F", drop_empty=True),
    "sharded": ArrayRecipe(shards="2x"),
    "rechunked": ArrayRecipe(chunks="11,13", codecs="zstd:1"),
    "rechunked shards": ArrayRecipe(chunks="7,9", shards="21,18"),
}
ARCHIVES = [
    "zarr-2.18/dtypes", "zarr-2.18/fills", "zarr-2.18/people/ocean", "zarr-2.2/old", "gdal/fortran",
    "n5/zarr-2.18/store", "n5/z5py/all", "n5/java-3.5.1/edges", "n5/tensorstore/all",
    "zarr_v1/zarr-1.1/arrays", "zarr_v3_draft/zarr-2.18/dtypes", "zarr_v3_draft/may-2022/types",
]  # fmt: skip


@pytest.fixture
def values() -> np.ndarray:
    made = np.random.default_rng(5).integers(0, 60000, SHAPE).astype("uint16")
    made[16:32, :16] = 0  # a chunk of fill values
    return made


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


def text(place: object, path: str = "a", **options: object) -> str:
    found = zarrlift.digest(place, **options)
    assert not found.problems
    return found.arrays[path].text


def test_formats_and_layouts_of_the_same_values(values: np.ndarray, tmp_path: Path) -> None:
    expected = text(v2(tmp_path / "v2", values))
    assert text(v2(tmp_path / "little", values, dtype="<u2", order="C")) == expected
    assert text(v2(tmp_path / "sparse", values, stored=False)) == expected
    assert text(n5(tmp_path / "n5", values)) == expected
    array = zarr.create_array(
        tmp_path / "v3/a", shape=SHAPE, chunks=(8, 8), shards=(24, 40), dtype="u2", fill_value=0
    )
    array[:] = values
    zarr.open_group(tmp_path / "v3", mode="a")
    assert text(tmp_path / "v3") == expected
    other = values.copy()
    other[49, 39] ^= 1 << 15
    assert text(v2(tmp_path / "other", other)) != expected


@pytest.mark.parametrize("form", RECIPES)
@pytest.mark.parametrize("make", [v2, n5])
def test_results_of_a_migration_and_what_the_job_stores(
    make: Callable[[Path, np.ndarray], Path], form: str, values: np.ndarray, tmp_path: Path
) -> None:
    source = make(tmp_path / "source", values)
    outcome = zarrlift.migrate(
        source, tmp_path / "new", recipe=Recipe(base=RECIPES[form]), digest=True, verify="none"
    )
    expected = zarrlift.digest(source).arrays
    assert outcome.ok
    assert zarrlift.digest(tmp_path / "new").arrays == expected
    assert zarrlift.digest(outcome.job).arrays == expected


@pytest.mark.parametrize("form", RECIPES)
def test_a_full_verification_adds_up_the_values_that_it_reads(
    form: str, values: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = v2(tmp_path / "source", values)
    expected = zarrlift.digest(source).arrays
    monkeypatch.delattr(value_digests, "digest_array")  # the result is not read once more
    monkeypatch.delattr(InnerChunkConversion, "_add")  # nor decoded by the tasks
    outcome = zarrlift.migrate(
        source, tmp_path / "new", recipe=Recipe(base=RECIPES[form]), digest=True, verify="full"
    )
    assert outcome.ok, outcome.problems
    assert zarrlift.digest(outcome.job).arrays == expected


def test_in_place_the_result_is_read(values: np.ndarray, tmp_path: Path) -> None:
    source = v2(tmp_path / "source", values, dtype="<u2", order="C")
    expected = zarrlift.digest(source).arrays
    outcome = zarrlift.migrate(source, in_place=True, digest=True)
    assert zarrlift.digest(outcome.job).arrays == expected
    assert zarrlift.digest(source, format="zarr3").arrays == expected


@pytest.mark.parametrize("verify", ["sample", "full"])
@pytest.mark.slow(one_in=2)
def test_by_processes(verify: str, values: np.ndarray, tmp_path: Path) -> None:
    source = v2(tmp_path / "source", values)
    recipe = Recipe(base=RECIPES["rechunked shards"])
    outcome = zarrlift.migrate(
        source, tmp_path / "new", recipe=recipe, digest=True, executor="processes", workers=2, verify=verify
    )
    assert zarrlift.digest(outcome.job).arrays == zarrlift.digest(source).arrays


@pytest.mark.parametrize("in_place", [False, True])
def test_workers_read_what_no_task_has_decoded(
    in_place: bool, values: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(value_digests, "_SMALL", 0)
    source = v2(tmp_path / "source", values, dtype="<u2", order="C")
    expected = zarrlift.digest(source).arrays
    cluster = Cluster()
    destination = None if in_place else tmp_path / "new"
    recipe = Recipe(base=RECIPES["copied"])
    outcome = zarrlift.migrate(
        source, destination, in_place=in_place, recipe=recipe, digest=True, executor=cluster
    )
    assert outcome.ok, outcome.problems
    assert "add_portion" in {function.__name__ for function in cluster.functions}
    assert zarrlift.digest(outcome.job).arrays == expected
    assert zarrlift.resume(outcome.job, executor=cluster).state == "nothing to do"


def test_a_chunk_that_workers_cannot_read_fails_its_array(
    values: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(value_digests, "_SMALL", 0)
    source = v2(tmp_path / "source", values, dtype="<u2", order="C")
    data = zlib.compress(bytes(1024))
    (source / "a/1.1").write_bytes(data[:-5] + b"?" + data[-4:])
    recipe = Recipe(base=RECIPES["copied"])
    outcome = zarrlift.migrate(
        source, tmp_path / "new", recipe=recipe, digest=True, verify="none", executor=Cluster()
    )
    assert [(problem.node, problem.key) for problem in outcome.problems] == [("a", "a/c/1/1")]
    assert not (tmp_path / "new/a/zarr.json").exists()


def test_a_task_that_runs_twice_counts_once(
    values: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunk_inventory, "_MAX_TASK_CHUNKS", 2)
    source = v2(tmp_path / "source", values)
    record, count = Job.record_task, 0

    def stop(self: Job, *arguments: object, **more: object) -> None:
        nonlocal count
        record(self, *arguments, **more)
        record(self, *arguments, **more)
        count += 1
        if count == 3:
            raise KeyboardInterrupt

    recipe = Recipe(base=RECIPES["rewritten"])
    monkeypatch.setattr(Job, "record_task", stop)
    with pytest.raises(zarrlift.Interrupted):
        zarrlift.migrate(source, tmp_path / "new", recipe=recipe, digest=True)
    monkeypatch.setattr(Job, "record_task", record)
    outcome = zarrlift.resume(tmp_path / "new")
    assert outcome.ok
    assert zarrlift.digest(outcome.job).arrays == zarrlift.digest(source).arrays


def test_a_job_that_is_resumed_with_digests_has_them(
    values: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks that were recorded without a digest leave none: the result is read."""
    monkeypatch.setattr(chunk_inventory, "_MAX_TASK_CHUNKS", 2)
    source = v2(tmp_path / "source", values)
    recipe = Recipe(base=RECIPES["rewritten"])
    with stopping(Worker, "run", after=2), pytest.raises(zarrlift.Interrupted):
        zarrlift.migrate(source, tmp_path / "new", recipe=recipe, workers=1)
    outcome = zarrlift.migrate(source, tmp_path / "new", recipe=recipe, digest=True)
    assert outcome.ok
    assert zarrlift.digest(outcome.job).arrays == zarrlift.digest(source).arrays


def test_a_flipped_value_is_named_with_its_block(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shape = (3, 1 << 24)
    array = zarr.create_array(tmp_path / "v3", shape=shape, chunks=(3, 1 << 20), dtype="u1", fill_value=0)
    array[1, 100:200] = 7
    array[2, (1 << 23) : (1 << 23) + 100] = 8
    zarrlift.digest(tmp_path / "v3")
    assert main(["digest", str(tmp_path / "v3"), "-o", str(tmp_path / "digests.json"), "-q"]) == 0
    assert main(["verify", str(tmp_path / "v3"), "--digest", str(tmp_path / "digests.json")]) == 0
    capsys.readouterr()
    array[2, (1 << 23) + 50] = 9
    assert main(["verify", str(tmp_path / "v3"), "--digest", str(tmp_path / "digests.json")]) == 1
    assert "values differ in [0:3, 8388608:12582912]" in " ".join(capsys.readouterr().out.split())
    report = zarrlift.verify(tmp_path / "v3", digests=tmp_path / "digests.json")
    assert report.differences == (("", 1),)
    assert [problem.kind for problem in report.problems] == ["verify-values"]


def test_verify_compares_a_place_with_a_job(values: np.ndarray, tmp_path: Path) -> None:
    source = v2(tmp_path / "source", values)
    outcome = zarrlift.migrate(source, tmp_path / "new", digest=True)
    assert zarrlift.verify(tmp_path / "new", digests=outcome.job).ok
    assert zarrlift.verify(source, digests=outcome.job).ok
    (tmp_path / "new/a/c/1/1").unlink()
    report = zarrlift.verify(tmp_path / "new", digests=zarrlift.digest(source))
    assert [problem.message for problem in report.problems] == ["values differ in [0:50, 0:40]"]


def test_arrays_on_one_side_only_and_changed_headers(tmp_path: Path) -> None:
    root = zarr.open_group(tmp_path / "one", mode="w")
    root.create_array("a", shape=4, dtype="u2", fill_value=0)
    root.create_array("b", shape=4, dtype="u2", fill_value=0)
    other = zarr.open_group(tmp_path / "two", mode="w")
    other.create_array("b", shape=4, dtype="u2", fill_value=1)
    other.create_array("c", shape=4, dtype="u2", fill_value=0)
    report = zarrlift.verify(tmp_path / "two", digests=zarrlift.digest(tmp_path / "one"))
    assert [(problem.node, problem.message) for problem in report.problems] == [
        ("a", "an array is missing"),
        ("b", "the fill value differs"),
        ("c", "an array has no expected digest"),
    ]


def test_an_unreadable_array_has_no_digest_and_is_not_verified(values: np.ndarray, tmp_path: Path) -> None:
    source = v2(tmp_path / "source", values)
    before = zarrlift.digest(source)
    (source / "a/1.1").write_bytes(b"garbage")
    found = zarrlift.digest(source)
    assert not found.arrays
    assert [(problem.node, problem.key) for problem in found.problems] == [("a", "a/1.1")]
    assert main(["digest", str(source), "-q"]) == 1
    report = zarrlift.verify(source, digests=before)
    assert [(problem.node, problem.key) for problem in report.problems] == [("a", "a/1.1")]


def test_what_is_no_file_of_digests(values: np.ndarray, tmp_path: Path) -> None:
    source = v2(tmp_path / "source", values)
    for content in ("{}", "[", '{"digests": 1}', '{"digests": 2, "url": "", "format": "", "arrays": {}}'):
        (tmp_path / "file").write_text(content)
        with pytest.raises(UsageError, match="these are not digests"):
            zarrlift.verify(source, digests=tmp_path / "file")
    with pytest.raises(StorageError, match="cannot read the digests"):
        zarrlift.verify(source, digests=tmp_path / "none")
    with pytest.raises(UsageError, match="without a job"):
        zarrlift.verify(source, tmp_path / "new", digests=tmp_path / "file")
    outcome = zarrlift.migrate(source, tmp_path / "new")
    with pytest.raises(UsageError, match="this job has no digests"):
        zarrlift.digest(outcome.job)
    with pytest.raises(JobError):
        zarrlift.digest(tmp_path / "none.zarrlift.db")


def test_the_output_as_json(values: np.ndarray, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = v2(tmp_path / "source", values)
    assert main(["digest", str(source), "--json"]) == 0
    printed = capsys.readouterr().out
    (tmp_path / "printed.json").write_text(printed)
    assert json.loads(printed)["result"]["arrays"]["a"]["block_shape"] == [64, 64]
    assert zarrlift.verify(source, digests=tmp_path / "printed.json").ok
    assert main(["digest", str(source)]) == 0
    assert zarrlift.digest(source).arrays["a"].text in capsys.readouterr().out


@pytest.mark.parametrize("name", ARCHIVES)
@pytest.mark.slow
def test_archives_of_the_old_writers(name: str, tmp_path: Path) -> None:
    """Their digests are those of the values that the writers read back, and of the results."""
    old = archive(name)
    axes = old.axes if old.format == "n5" else None
    found = zarrlift.digest(old.path, axes=axes)
    nodes = {node.path: node for node in zarrlift.inspect(old.path, axes=axes).nodes}
    seen = 0
    for path, array in old.arrays.items():
        if path not in found.arrays or array.unreadable or array.dtype.hasobject:
            continue
        layout = nodes[path].layout
        values = array.values
        if nodes[path].fill_is_null or values.dtype.kind in "OV" or layout.data_type.itemsize is None:
            continue
        adder, sums = ValueSums(layout.shape, layout.data_type, layout.fill_value), BlockSums()
        adder.add(sums, [slice(0, length) for length in values.shape], values)
        assert found.arrays[path] == adder.digest(sums), path
        seen += 1
    assert seen
    recipe = Recipe(base=RECIPES["rewritten"])
    outcome = zarrlift.migrate(
        old.path, tmp_path / "new", digest=True, verify="none", recipe=recipe, axes=axes
    )
    checked = zarrlift.migrate(
        old.path, tmp_path / "checked", digest=True, verify="full", recipe=recipe, axes=axes
    )
    result = zarrlift.digest(tmp_path / "new")
    assert result.arrays == zarrlift.digest(outcome.job).arrays
    assert result.arrays == zarrlift.digest(checked.job).arrays
    assert result.arrays == {path: found.arrays[path] for path in result.arrays}
