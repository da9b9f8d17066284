"""netcdf-c: names of axes by reference, and scalars, which lie along an axis that netCDF does not have."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import xarray
from conventions.trees import applied, archive, array
from fixtures_index import archive as fixture

import zarrlift
from zarrlift.archive import ArrayNode

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
    assert seen(replace(plain, extra={"_NCZARR_ARRAY": {"dimrefs": references}})) == expected
    assert (
        seen(replace(plain, attributes={"_nczarr_array": {"dimension_references": references}})) == expected
    )


def test_names_that_xarray_reads_count_first() -> None:
    attributes = {"_ARRAY_DIMENSIONS": ["lat", "lon"]}
    node = replace(array("a", 2), attributes=attributes, extra={"_NCZARR_ARRAY": {"dimrefs": ["/y", "/x"]}})
    assert seen(node) == ("lat", "lon")


@pytest.mark.parametrize("shape", [(1,), (2,), (1, 1)])
def test_only_one_value_along_one_axis_is_a_scalar(shape: tuple[int, ...]) -> None:
    plain = array("a", len(shape))
    assert plain.layout is not None
    node = replace(
        plain,
        layout=replace(plain.layout, shape=shape),
        extra={"_NCZARR_ARRAY": {"dimrefs": [], "storage": "scalar"}},
    )
    assert seen(node) == (SCALAR if shape == (1,) else None)
