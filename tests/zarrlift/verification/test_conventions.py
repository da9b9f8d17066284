"""`verify` finds what a faulty convention does, though asking it again gives the same answer."""

from __future__ import annotations

import pytest
from tests.support.fixtures_index import archive

import zarrlift
from zarrlift.conventions import xarray
from zarrlift.conventions.ome import convention


def verify_after(name: str, tmp_path) -> list[tuple[str, str]]:
    source = archive(name).path
    zarrlift.migrate(source, tmp_path / "new")
    report = zarrlift.verify(source, tmp_path / "new")
    assert {problem.kind for problem in report.problems} <= {"verify-attributes"}
    return sorted({(problem.node or "", problem.message) for problem in report.problems})


@pytest.mark.parametrize("wrong", [None, 0, "AAAAAAAAAAA="], ids=["none", "another", "of a float"])
def test_a_mask_that_is_not_the_fill_value(wrong, tmp_path, monkeypatch) -> None:
    right = xarray.encoded

    def encoded(value, data_type):
        return wrong if data_type.name == "int16" else right(value, data_type)

    monkeypatch.setattr(xarray, "encoded", encoded)
    assert verify_after("zarr-2.18/people/ocean", tmp_path) == [("sst", "the mask differs")]


def test_a_mask_where_nothing_masked(tmp_path, monkeypatch) -> None:
    right = xarray._mask

    def mask(node, *more):
        return xarray._Mask(add={"_FillValue": 1}) if node.path == "is_land" else right(node, *more)

    monkeypatch.setattr(xarray, "_mask", mask)
    assert verify_after("zarr-2.18/people/ocean", tmp_path) == [("is_land", "the mask differs")]


def test_names_in_another_order(tmp_path, monkeypatch) -> None:
    right = xarray._names

    def names(node, problems):
        found = right(node, problems)
        return found[::-1] if node.path == "depth" else found

    monkeypatch.setattr(xarray, "_names", names)
    assert verify_after("zarr-2.18/people/ocean", tmp_path) == [
        ("depth", "the list of dimension names differs")
    ]


def test_a_member_that_is_dropped(tmp_path, monkeypatch) -> None:
    right = convention._updated

    def without(value, place, replaced):
        result = right(value, place, replaced)
        if place != "/multiscales":
            return result
        return [{name: item for name, item in image.items() if name != "name"} for image in result]

    monkeypatch.setattr(convention, "_updated", without)
    found = dict(verify_after("zarr-2.18/people/cells", tmp_path))
    assert found[""] == "the attribute ome/multiscales differs"


def test_a_version_that_stays(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(convention, "_updated", lambda value, place, replaced: value)
    nodes = {node for node, _ in verify_after("zarr-2.18/people/cells", tmp_path)}
    assert {"", "labels/cells"} <= nodes
