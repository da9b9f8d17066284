"""Axis names written by netcdf-c, for arrays without xarray's `_ARRAY_DIMENSIONS`.

NCZarr (https://docs.unidata.ucar.edu/nug/current/nczarr_head.html) refers to dimensions by their full names,
`/group/t`, in the attribute `_nczarr_array`; the reader moves the member there that 4.9.0 to 4.9.2 store in
`.zarray`. In 4.9.0, arrays in groups have no other names. xarray uses the last part (2026.9.0,
`xarray/backends/zarr.py`).

A scalar is stored as one value along an axis that netCDF does not have: 4.9.0 names no axis, not even in
`_ARRAY_DIMENSIONS`, and xarray cannot open the array; 4.9.4 names it `_scalar_`. On Zarr v3 the values are
unchanged, and the axis has netcdf-c's present name.
"""

from __future__ import annotations

from typing import Final

from zarrstack.core.json_text import JSON

from ..archive.nodes import ArrayNode

_DIMENSIONS: Final = "_ARRAY_DIMENSIONS"
_SCALAR: Final = ("_scalar_",)


def netcdf_names(node: ArrayNode) -> tuple[str, ...] | None:
    """The axis names of a Zarr v2 array by netcdf-c; None if xarray's are present, or if there are none."""
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
    # Dimensions of two groups with the same name would be indistinguishable.
    return names if all(names) and len({*names}) == len(names) else None


def _references(node: ArrayNode) -> tuple[list[str] | None, bool]:
    """The full names of the dimensions, None if absent; and whether the array is a scalar."""
    data = node.attributes.get("_nczarr_array")
    if not isinstance(data, dict):
        return None, False
    scalar = data.get("storage") == "scalar" or data.get("scalar") == 1
    return _texts(data.get("dimension_references")), scalar


def _texts(data: JSON) -> list[str] | None:
    return data if isinstance(data, list) and all(isinstance(item, str) for item in data) else None
