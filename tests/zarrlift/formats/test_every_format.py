"""Every source format: an archive is detected, migrated, verified and viewed, and refused if damaged.

A new format needs a line in `ARCHIVES`: a small archive of it, and the document of an array.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import zarr
from tests.support.unpacking import unpacked

import zarrlift
from zarrlift.core.format_table import FORMATS


def fixture(name: str, group: str = "") -> Callable[[Path], object]:
    """What copies a group of a fixture to a path."""
    return lambda path: shutil.copytree(unpacked(name) / group, path)


def zarr_3(path: Path) -> None:
    """What zarr-python writes today."""
    group = zarr.open_group(path, mode="w", zarr_format=3)
    group.create_array("a", data=np.arange(12).reshape(3, 4), chunks=(2, 2))


ARCHIVES: dict[str, tuple[Callable[[Path], object], str]] = {
    "n5": (fixture("n5/java-3.5.1/tree.n5"), "attributes.json"),
    "zarr1": (fixture("zarr_v1/zarr-1.1/arrays.zarr", "shapes"), "meta"),
    "zarr2": (fixture("zarr_v2/zarr-2.18/stores/directory.zarr"), ".zarray"),
    "zarr3": (zarr_3, "zarr.json"),
    "zarr3-draft": (fixture("zarr_v3_draft/gdal/gzip.zarr"), "*.array.json"),
}


def test_every_format_has_an_archive_here() -> None:
    assert {*ARCHIVES} == {*FORMATS}


@pytest.mark.parametrize("name", ARCHIVES)
def test_an_archive_is_detected_migrated_verified_and_viewed(name: str, tmp_path: Path) -> None:
    write, _ = ARCHIVES[name]
    write(tmp_path / "old")
    assert zarrlift.inspect(tmp_path / "old").format == name
    arrays = zarrlift.plan(tmp_path / "old").arrays
    zarrlift.migrate(tmp_path / "old", tmp_path / "new.zarr")
    report = zarrlift.verify(tmp_path / "old", tmp_path / "new.zarr", full=True)
    assert report.arrays == len(arrays) > 0
    for array in arrays:
        viewed = zarrlift.open_array(tmp_path / "old", path=array.path)
        result = zarr.open_array(tmp_path / "new.zarr", path=array.path, mode="r", zarr_format=3)
        assert np.asarray(viewed[...]).tobytes() == np.asarray(result[...]).tobytes()


@pytest.mark.parametrize("name", ARCHIVES)
def test_a_damaged_document_is_refused_with_its_key_and_a_node_of_another_format_too(
    name: str, tmp_path: Path
) -> None:
    write, document = ARCHIVES[name]
    write(tmp_path / "old")
    path = zarrlift.plan(tmp_path / "old").arrays[0].path
    damaged = next(file for file in (tmp_path / "old").rglob(document) if path in file.as_posix())
    damaged.write_text("{")
    zarr.open_group(tmp_path / "old/x/y/other", mode="w", zarr_format=3 if name == "zarr2" else 2)
    problems = zarrlift.inspect(tmp_path / "old").all_problems()
    assert [each.severity for each in problems if each.key and damaged.name in each.key][:1] == ["refusal"]
    assert [each.severity for each in problems if each.node == "x/y/other"] == ["refusal"]
