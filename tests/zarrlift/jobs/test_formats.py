"""Work in place on archives of other formats than Zarr v2: verify, finish and undo know their documents."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

import fsspec
import pytest
from tests.support.fixtures_index import archives
from tests.support.job_archives import OTHERS, other_archive, tree, values

import zarrlift
from zarrstack.core.errors import UsageError

DOCUMENTS = {"zarr_v1": {"meta", "attrs"}}
"""What the formats that can be read in place call their metadata documents."""


@pytest.fixture(params=DOCUMENTS)
def place(request, tmp_path):
    """A small archive of a format, to work on in place."""
    return other_archive(request.param, tmp_path / request.param)


def names(files):
    return {name.rpartition("/")[2] for name in files}


def test_finish_removes_the_documents_of_the_format_and_undo_brings_them_back(place):
    before = tree(place)
    assert zarrlift.migrate(place, in_place=True).ok
    shown = values(place, 3)
    assert zarrlift.verify(place, full=True).ok
    outcome = zarrlift.finish(place)
    gone = before.keys() - tree(place).keys()
    assert names(gone) == DOCUMENTS[place.name]
    assert outcome.removed == len(gone) == sum(name in DOCUMENTS[place.name] for name in map(last, before))
    assert values(place, 3) == shown
    assert zarrlift.undo(place).restored == len(gone)
    assert tree(place) == before


def last(name):
    return name.rpartition("/")[2]


def test_verify_knows_what_was_migrated_in_place_without_its_job(place):
    zarrlift.migrate(place, in_place=True)
    place.with_name(f"{place.name}.zarrlift.db").unlink()
    report = zarrlift.verify(place, place, full=True)
    assert report.ok
    assert report.arrays == len(values(place, 3))


def test_once_in_place_an_archive_has_two_formats(place):
    zarrlift.migrate(place, in_place=True)
    again = zarrlift.migrate(place, in_place=True)
    assert again.state == "nothing to do"
    before = zarrlift.inspect(place, format={"zarr_v1": "zarr1"}[place.name])
    assert not any(node.refused for node in before.nodes)


def test_resume_goes_on_once_the_damage_is_mended(place):
    before = tree(place)
    damaged = min(name for name in before if last(name) in DOCUMENTS[place.name])
    (place / damaged).write_bytes(b"{")
    assert not zarrlift.migrate(place, in_place=True).ok
    assert not (place / "zarr.json").exists()
    (place / damaged).write_bytes(before[damaged])
    assert zarrlift.resume(place).ok
    assert zarrlift.verify(place, full=True).ok


@pytest.mark.parametrize("format", OTHERS)
@pytest.mark.parametrize("kind", ["zip", "url"])
@pytest.mark.slow(one_in=4)
def test_a_zip_file_and_a_url_give_what_a_directory_gives(format, kind, tmp_path):
    directory = other_archive(format, tmp_path / "source")
    if kind == "zip":
        source = Path(shutil.make_archive(str(tmp_path / "packed"), "zip", directory))
    else:
        source = f"memory://{uuid.uuid4()}"
        fsspec.filesystem("memory").put(f"{directory}/", source, recursive=True)
    assert zarrlift.migrate(directory, tmp_path / "expected").ok
    assert zarrlift.migrate(source, tmp_path / "found").ok
    assert zarrlift.verify(source, tmp_path / "found", full=True).ok
    assert tree(tmp_path / "found") == tree(tmp_path / "expected")


def test_axes_cannot_be_reversed_where_chunks_stay():
    with pytest.raises(UsageError, match=r"axes cannot be reversed in place.*; found --axes reversed"):
        zarrlift.plan(archives("n5")[0].path, in_place=True, axes="reversed")
