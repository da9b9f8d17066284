"""A folder of archives is not migrated as one, whose root nobody wrote, unless the format is given."""

from __future__ import annotations

import pytest
import zarr

import zarrlift
from zarrlift.errors import UsageError


def archives(folder, *names, zarr_format=2):
    for name in names:
        group = zarr.open_group(folder / name, mode="w", zarr_format=zarr_format)
        group.create_array("x", shape=(4,), chunks=(2,), dtype="<u2")[:] = len(name)
    return folder


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_folder_of_archives_is_refused_with_the_commands_for_both_intentions(zarr_format, tmp_path):
    old = archives(tmp_path / "old", "a.zarr", "b.zarr", zarr_format=zarr_format)
    with pytest.raises(UsageError) as refused:
        zarrlift.migrate(old, tmp_path / "new")
    problem = refused.value.problem
    assert (problem.key, problem.found) == (str(old), "a.zarr, b.zarr")
    assert f"zarrlift batch run {old} --to '{tmp_path}/new/{{relative}}.zarr'." in problem.advice
    assert f"--from zarr{zarr_format}" in problem.advice
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
    with pytest.raises(UsageError, match="several archives"):
        zarrlift.plan(old, tmp_path / "new")


def test_in_place_the_command_is_that_for_in_place(tmp_path):
    old = archives(tmp_path / "old", "a", "b")
    with pytest.raises(UsageError, match=f"batch run {old} --in-place"):
        zarrlift.migrate(old, in_place=True)


def test_the_format_merges_them_and_the_job_goes_on_as_one(tmp_path):
    old = archives(tmp_path / "old", "a.zarr", "b.zarr")
    assert zarrlift.migrate(old, tmp_path / "new", format="zarr2").ok
    assert zarrlift.update(tmp_path / "new").ok
    assert zarr.open_group(tmp_path / "new", mode="r")["b.zarr/x"][:].tolist() == [6, 6, 6, 6]


def one(folder):
    archives(folder, "a.zarr")


def arrays(folder):
    for name in ("lat", "lon"):
        zarr.create_array(folder / name, shape=(4,), chunks=(2,), dtype="<u2", zarr_format=2)[:] = 1


def with_a_plain_folder(folder):
    archives(folder, "a", "plain/b")


def n5(folder):
    for name in ("a", "b"):
        (folder / name).mkdir(parents=True)
        (folder / name / "attributes.json").write_text(
            '{"dimensions": [4], "blockSize": [2], "dataType": "uint8", "compression": {"type": "raw"}}'
        )


@pytest.mark.parametrize("make", [one, arrays, with_a_plain_folder, n5])
def test_other_folders_without_a_document_are_one_archive_as_before(make, tmp_path):
    make(tmp_path / "old")
    assert zarrlift.migrate(tmp_path / "old", tmp_path / "new").ok
