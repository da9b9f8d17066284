"""netcdf-c: names of axes by reference, and scalars, which lie along an axis that netCDF does not have."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import xarray
from tests.support.fixtures_index import archive as fixture
from tests.zarrlift.conventions.trees import applied, archive, array

import zarrlift
from zarrlift.archive.nodes import ArrayNode
from zarrlift.formats.zarr_v2 import reader
from zarrlift.recipe.recipe import ArrayRecipe, Recipe

SCALAR = ("_scalar_",)


def names(place: Path, path: str) -> list[str | None] | None:
    """What the result calls the axes of an array."""
    found: list[str | None] | None = json.loads((place / path / "zarr.json").read_bytes()).get(
        "dimension_names"
    )
    return found


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("netcdf-4.9.0/nczarr", {"group/inner": ["t", "x"], "number": [*SCALAR], "letter": [*SCALAR]}),
        ("netcdf-4.9.0/zarr", {"group/inner": None, "number": [*SCALAR], "plane": ["y", "x"]}),
        ("netcdf/nczarr", {"group/scalar": [*SCALAR], "v_f4": ["y", "x"]}),
        ("netcdf/zarr", {"group/scalar": None, "v_f4": ["y", "x"]}),
    ],
)
def test_axes_are_named_as_far_as_netcdf_says(name: str, expected: dict[str, Any], tmp_path: Path) -> None:
    source = fixture(name).path
    assert zarrlift.migrate(source, tmp_path / "out.zarr").ok
    assert {path: names(tmp_path / "out.zarr", path) for path in expected} == expected
    assert zarrlift.verify(source, tmp_path / "out.zarr", full=True).ok


def test_xarray_opens_the_result_where_it_could_not_open_the_source(tmp_path: Path) -> None:
    source = fixture("netcdf-4.9.0/nczarr").path
    with pytest.raises(ValueError, match="zip"):
        xarray.open_zarr(source, chunks=None, consolidated=False, zarr_format=2, decode_cf=False).load()
    assert zarrlift.migrate(source, tmp_path / "out.zarr").ok
    found = xarray.open_zarr(tmp_path / "out.zarr", chunks=None, consolidated=False)
    assert found.number.dims == SCALAR
    assert found.number.values.tolist() == [1.5]
    inner = xarray.open_zarr(tmp_path / "out.zarr", group="group", chunks=None, consolidated=False).inner
    assert inner.dims == ("t", "x")
    assert inner.values[0].tolist() == [0, 1, 2, 3, 4, 5, 6]


def seen(node: ArrayNode) -> tuple[str | None, ...] | None:
    """The names that an array gets."""
    return applied(archive({}, node)).change(node.path).dimension_names


@pytest.mark.parametrize(
    ("references", "expected"),
    [
        (["/y", "/x"], ("y", "x")),
        (["/a/b/y", "/x"], ("y", "x")),
        (["/a/x", "/x"], None),
        (["/x"], None),
        (["/", "/x"], None),
        ([], None),
        ("/x", None),
        ([1, 2], None),
    ],
)
def test_references_name_axes_by_their_last_part(references: Any, expected: Any) -> None:
    plain = array("a", 2)
    attributes = {"_nczarr_array": {"dimension_references": references}}
    assert seen(replace(plain, attributes=attributes)) == expected


def test_names_that_xarray_reads_count_first() -> None:
    references = {"_nczarr_array": {"dimension_references": ["/y", "/x"]}}
    node = replace(array("a", 2), attributes={"_ARRAY_DIMENSIONS": ["lat", "lon"], **references})
    assert seen(node) == ("lat", "lon")


@pytest.mark.parametrize("shape", [(1,), (2,), (1, 1)])
def test_only_one_value_along_one_axis_is_a_scalar(shape: tuple[int, ...]) -> None:
    plain = array("a", len(shape))
    assert plain.layout is not None
    node = replace(
        plain,
        layout=replace(plain.layout, shape=shape),
        attributes={"_nczarr_array": {"dimension_references": [], "storage": "scalar"}},
    )
    assert seen(node) == (SCALAR if shape == (1,) else None)


BEFORE, SINCE = "netcdf-4.9.3-development/dimensions", "netcdf-4.10.1/dimensions"
"""One dataset by netcdf-c before and after its own metadata became attributes."""
APART = {"_NCProperties", "_nczarr_attr", "_ARRAY_DIMENSIONS"}
"""The version, the types of the attributes that are new, and what 4.9 leaves out of groups."""


PLAIN = Recipe(base=ArrayRecipe(conventions="none"))


def netcdf_attributes(attributes: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if name not in APART}


def attributes_of(place: Path, path: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((place / path / "zarr.json").read_bytes())["attributes"]
    return found


@pytest.mark.parametrize("in_place", [False, True], ids=["copy", "in place"])
def test_metadata_beside_the_specification_become_the_attributes_that_netcdf_writes_today(
    in_place: bool, tmp_path: Path
) -> None:
    source, out = tmp_path / "old.zarr", tmp_path / "new.zarr"
    shutil.copytree(fixture(BEFORE).path, source)
    if in_place:
        assert zarrlift.migrate(source, in_place=True, recipe=PLAIN).ok
        out = source
    else:
        assert zarrlift.migrate(source, out, recipe=PLAIN).ok
    today = fixture(SINCE)
    nodes = {**today.groups, **{path: array.attributes for path, array in today.arrays.items()}}
    assert {path: netcdf_attributes(attributes_of(out, path)) for path in nodes} == {
        path: netcdf_attributes(dict(attributes)) for path, attributes in nodes.items()
    }
    dimensions = attributes_of(out, "")["_nczarr_group"]["dimensions"]
    assert dimensions == {"time": {"size": 3, "unlimited": 1}, "x": 7, "unused": 11}


@pytest.mark.parametrize(("path", "name"), [("", "_nczarr_group"), ("group/inner", "_nczarr_array")])
def test_verify_finds_that_they_are_lost(path: str, name: str, tmp_path: Path) -> None:
    source, out = fixture(BEFORE).path, tmp_path / "out.zarr"
    assert zarrlift.migrate(source, out, recipe=Recipe(consolidate=False)).ok
    assert zarrlift.verify(source, out, full=True).ok
    document = json.loads((out / path / "zarr.json").read_bytes())
    del document["attributes"][name]
    (out / path / "zarr.json").write_text(json.dumps(document))
    report = zarrlift.verify(source, out, full=True)
    assert {(problem.node, problem.kind) for problem in report.problems} == {(path, "verify-attributes")}


def test_verify_finds_that_the_reader_lost_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "with_netcdf_members", lambda attributes, *_: attributes)
    source = fixture(BEFORE).path
    zarrlift.migrate(source, tmp_path / "out.zarr")
    report = zarrlift.verify(source, tmp_path / "out.zarr")
    assert {problem.node for problem in report.problems} == {"", "empty", "group", "group/inner"} | {
        "depth",
        "group/scalar",
    }


def test_an_attribute_of_the_same_name_counts_as_it_does_for_netcdf(tmp_path: Path) -> None:
    source = tmp_path / "old.zarr"
    shutil.copytree(fixture(BEFORE).path, source)
    stated = {"_nczarr_group": {"dimensions": {"alone": 6}}}
    (source / "empty" / ".zattrs").write_text(json.dumps(stated))
    told = [p for p in zarrlift.inspect(source).all_problems() if "netcdf-c reads" in p.message]
    assert [(problem.node, problem.severity) for problem in told] == [("empty", "warning")]
    assert zarrlift.migrate(source, tmp_path / "out.zarr").ok
    assert attributes_of(tmp_path / "out.zarr", "empty") == stated
    assert zarrlift.verify(source, tmp_path / "out.zarr", full=True).ok


def test_what_only_netcdf_c_uses_is_kept_beside_what_zarr_python_2_shows(tmp_path: Path) -> None:
    """Its present attributes unchanged; its earlier members, which zarr-python 2 shows nowhere, as these."""
    for name, added in (
        ("netcdf-4.10.1/dimensions", set()),
        ("netcdf-4.9.0/nczarr", {"group", "superblock"}),
    ):
        source, result = fixture(name).path, tmp_path / name.replace("/", "-")
        assert zarrlift.migrate(source, result).ok
        shown = json.loads((source / ".zattrs").read_text())
        kept = json.loads((result / "zarr.json").read_text())["attributes"]
        assert {key: kept[key] for key in shown} == shown
        assert kept.keys() - shown.keys() == {f"_nczarr_{member}" for member in added}


def test_without_a_convention_the_attributes_of_netcdf_c_stay(tmp_path: Path) -> None:
    """What tells an unlimited dimension, and an unused one."""
    source, result = fixture("netcdf-4.10.1/dimensions").path, tmp_path / "out.zarr"
    plain = Recipe(base=ArrayRecipe(conventions=()))
    assert zarrlift.migrate(source, result, recipe=plain).ok
    for path in ("", "depth", "group"):
        kept = json.loads((result / path / "zarr.json").read_text())["attributes"]
        assert kept == json.loads((source / path / ".zattrs").read_text())
