"""N5 arrays with their axes kept, as Java and tensorstore show them, read by readers that are not ours.

`test_fixtures_migrate.py` does so for axes reversed, the default.
"""

from __future__ import annotations

import importlib
import json
from functools import cache
from pathlib import Path

import pytest
from tests.end_to_end.readers.base import CannotRead, parametrize_readers
from tests.end_to_end.test_fixtures_migrate import (
    LIMITS,
    READERS,
    REFUSED,
    UNREADABLE,
    assert_seen,
    listed,
    may_be_refused,
    refused,
)
from tests.support.every import try_each
from tests.support.fixtures_index import ExpectedArchive, ExpectedArray, archive, archives

import zarrlift


@cache
def _migrated(root: Path, name: str) -> tuple[Path, zarrlift.Outcome]:
    destination = root / name.replace("/", "_")
    return destination, zarrlift.migrate(archive(name).path, destination, axes="kept")


@pytest.fixture(scope="session")
def kept_axes(tmp_path_factory):
    root = tmp_path_factory.mktemp("kept_axes")
    return lambda name: _migrated(root, name)


@pytest.mark.parametrize("one", [one for one in archives("n5") if one.arrays], ids=str)
@parametrize_readers(READERS)
@pytest.mark.slow(one_in=30)
def test_with_axes_kept_arrays_read_as_written(one: ExpectedArchive, reader, kept_axes) -> None:
    destination, outcome = kept_axes(one.name)
    read = importlib.import_module(f"tests.end_to_end.readers.{READERS[reader]}").read

    def check(array: ExpectedArray) -> None:
        document = destination / array.path / "zarr.json"
        if reason := refused(outcome, array.path):
            assert not document.exists()
            words = listed(REFUSED, array)
            assert may_be_refused(array) is not None if words is None else words in reason, reason
            return
        found = json.loads(document.read_text())
        several = len(array.shape) > 1
        assert (found["codecs"][0]["name"] == "transpose") == several
        name = found["data_type"] if isinstance(found["data_type"], str) else found["data_type"]["name"]
        if name in UNREADABLE[reader] or listed(LIMITS[reader], array):
            with pytest.raises((CannotRead, AssertionError)):
                assert_seen(array, read(destination, array.path), exactly=False, axes="kept")
            return
        seen = read(destination, array.path)
        assert_seen(array, seen, exactly=reader == "zarr-python", axes="kept")

    try_each(one.arrays.values(), check)


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize("name", ["n5/java-3.5.1/types", "n5/z5py/all", "n5/zarr-2.18/store"])
def test_verification_reads_the_source_in_the_same_axes(name: str, kept_axes) -> None:
    destination, outcome = kept_axes(name)
    report = zarrlift.verify(archive(name).path, destination, full=True)
    kept_back = {p.node for p in outcome.problems if p.severity == "refusal"}
    assert [str(p) for p in report.problems if p.node not in kept_back] == []


def test_a_dataset_inside_another_migrates_by_its_own_path(tmp_path) -> None:
    inner = archive("n5/java-3.5.1/tree")["parent/child"]
    assert zarrlift.migrate(inner.archive.path / "parent/child", tmp_path / "out").ok
    from tests.end_to_end.readers import zarr_python

    assert_seen(inner, zarr_python.read(tmp_path / "out", ""), exactly=True)
