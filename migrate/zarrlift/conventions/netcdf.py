"""What netcdf-c says of an array's axes where xarray's `_ARRAY_DIMENSIONS` does not name them.

NCZarr (https://docs.unidata.ucar.edu/nug/current/nczarr_head.html) refers to dimensions by their full
names, `/group/t`, in the attribute `_nczarr_array`; the reader puts there what 4.9.0 to 4.9.2 keep in
`.zarray`. Arrays in groups have nothing else in 4.9.0. xarray takes the last part (2026.9.0,
`xarray/backends/zarr.py`).

A scalar lies as one value along an axis that netCDF does not have: 4.9.0 names no axis, also in
`_ARRAY_DIMENSIONS`, which xarray then cannot open; 4.9.4 calls it `_scalar_`. The values stay as they
lie on Zarr v3, and the axis gets the name that netcdf-c gives it now.
"""

from __future__ import annotations

from typing import Final

from zarrstack.core.json_text import JSON

from ..archive.nodes import ArrayNode

_DIMENSIONS: Final = "_ARRAY_DIMENSIONS"
_SCALAR: Final = ("_scalar_",)


def netcdf_names(node: ArrayNode) -> tuple[str, ...] | None:
    """The names of an array's axes, of Zarr v2 by netcdf-c; None where xarray's are there, or neither."""
    assert node.layout is not None
    stated = node.attributes.get(_DIMENSIONS)
    if node.layout.dimension_names is not None or (stated is not None and stated != []):
        return None
    shape = node.layout.shape
    references, scalar = _references(node)
    if shape == (1,) and (scalar or stated == []) and not references:
        return _SCALAR
    if references is None or len(references) != len(shape) or not shape:
        return None
    names = tuple(reference.rpartition("/")[2] for reference in references)
    # Of two groups' dimensions of one name no reader could tell which is which.
    return names if all(names) and len({*names}) == len(names) else None


def _references(node: ArrayNode) -> tuple[list[str] | None, bool]:
    """The full names of the dimensions, None where none are given; and whether it is a scalar."""
    data = node.attributes.get("_nczarr_array")
    if not isinstance(data, dict):
        return None, False
    scalar = data.get("storage") == "scalar" or data.get("scalar") == 1
    return _texts(data.get("dimension_references")), scalar


def _texts(data: JSON) -> list[str] | None:
    return data if isinstance(data, list) and all(isinstance(item, str) for item in data) else None
