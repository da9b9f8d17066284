"""N5 archives in places that are no directory: a zip file, and a store that keys are put into."""

from __future__ import annotations

import shutil
from pathlib import Path

import fsspec
import pytest
from tests.end_to_end.readers import zarr_python
from tests.support import fixtures_index

import zarrlift

NAMES = ("n5/java-3.5.1/edges", "n5/java-3.5.1/root", "n5/z5py/all")


def zipped(source: Path, folder: Path) -> str:
    """The archive as a zip file."""
    return shutil.make_archive(str(folder / "source"), "zip", source)


def in_memory(source: Path, folder: Path) -> str:
    """The archive in fsspec's memory."""
    memory = fsspec.filesystem("memory")
    place = f"/{folder.name}/source.n5"
    for file in source.rglob("*"):
        if file.is_file():
            memory.pipe(f"{place}/{file.relative_to(source).as_posix()}", file.read_bytes())
    return f"memory:/{place}"


@pytest.mark.slow(one_in=20)
@pytest.mark.parametrize("axes", ["reversed", "kept"])
@pytest.mark.parametrize("placed", [zipped, in_memory], ids=["zip", "memory"])
@pytest.mark.parametrize("name", NAMES)
def test_every_array_migrates_and_is_verified(name, placed, axes, tmp_path):
    expected = fixtures_index.archive(name)
    source = placed(expected.path, tmp_path)
    outcome = zarrlift.migrate(source, tmp_path / "out.zarr", axes=axes)
    refused = {problem.node for problem in outcome.problems if problem.severity == "refusal"}
    assert refused <= {"too_large", "varlength"}
    for path, array in expected.arrays.items():
        if path not in refused:
            seen = zarr_python.read(tmp_path / "out.zarr", path)
            assert fixtures_index.same(seen.values, array.in_axes(axes))
            assert dict(seen.attributes) == dict(array.attributes)
    report = zarrlift.verify(source, tmp_path / "out.zarr", full=True)
    assert {problem.node for problem in report.problems} <= refused


def test_a_result_may_lie_in_a_store_too(tmp_path):
    expected = fixtures_index.archive("n5/java-3.5.1/root")
    place = f"memory://{tmp_path.name}/out.zarr"
    assert zarrlift.migrate(expected.path, place, job=tmp_path / "job.db").ok
    assert zarrlift.verify(expected.path, place, full=True).ok
