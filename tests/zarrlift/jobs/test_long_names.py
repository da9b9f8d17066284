"""A destination may have any name that the file system accepts."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import zarr

import zarrlift
from zarrlift.jobs.batch.list_file import list_path
from zarrlift.storage.local.partial_files import partial_name
from zarrlift.storage.local.sibling_names import with_suffix
from zarrstack.core.errors import ZarrstackError

NAMES = {
    "200 characters": "d" * 200,
    "201 characters": "d" * 201,
    "255 characters": "d" * 255,
    "255 bytes": "é" * 127 + "d",
}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    group = zarr.open_group(tmp_path / "s.zarr", mode="w", zarr_format=2)
    group.create_array("a", shape=(8,), chunks=(2,), dtype="i4")[:] = np.arange(8)
    return tmp_path / "s.zarr"


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_job_is_found_again_by_its_long_destination(name: str, source: Path, tmp_path: Path) -> None:
    destination = tmp_path / name
    assert zarrlift.migrate(source, destination).ok
    assert zarr.open_array(destination / "a")[:].tolist() == list(range(8))
    assert zarrlift.status(destination).state == "done"
    assert zarrlift.migrate(source, destination, overwrite=True).ok
    assert zarrlift.undo(destination).ok
    assert not destination.exists()


def test_a_name_that_does_not_fit_is_one_message(source: Path, tmp_path: Path) -> None:
    with pytest.raises(ZarrstackError, match="name of the destination is too long"):
        zarrlift.migrate(source, tmp_path / ("d" * 256))
    assert os.listdir(tmp_path) == ["s.zarr"]


def test_long_names_with_the_same_start_keep_apart() -> None:
    first, second = ("d" * 249 + end for end in ("first!", "second"))
    assert with_suffix(first, ".zarrlift.db") != with_suffix(second, ".zarrlift.db")
    assert with_suffix("d" * 200, ".x") == "d" * 200 + ".x"


@pytest.mark.parametrize("length", [1, 160, 161, 255])
def test_a_temporary_name_leaves_room_for_the_journal(length: int) -> None:
    name = os.path.basename(partial_name("/tmp/" + "d" * length))
    assert len(name + "-journal") <= 255


def test_a_batch_has_a_job_file_that_fits(tmp_path: Path) -> None:
    with pytest.raises(ZarrstackError) as caught:
        list_path(tmp_path / ("d" * 255))
    assert len(Path(str(caught.value.problem.expected)).name) <= 255
