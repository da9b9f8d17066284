"""xarray, which shows arrays as variables of a group's dataset and needs their dimension names."""

from __future__ import annotations

from pathlib import Path

import xarray
from tests.end_to_end.readers.base import CannotRead, Seen, plain


def read(root: Path, path: str) -> Seen:
    group, _, name = path.rpartition("/")
    try:
        dataset = xarray.open_dataset(
            root / group, engine="zarr", zarr_format=3, consolidated=False, decode_cf=False, chunks=None
        )
    except (KeyError, ValueError) as error:
        raise CannotRead(str(error)) from error
    with dataset:
        variable = dataset.variables[name]
        attributes = dict(variable.attrs)
        # xarray shows the array's fill value as CF's attribute (2026.9, `ZarrStore.open_store_variable`).
        fill = attributes.pop("_FillValue", None)
        return Seen(
            reader="xarray",
            dtype=str(variable.dtype),
            values=plain(variable.values, variable.shape),
            attributes=attributes,
            fill=fill,
            dimension_names=tuple(str(name) for name in variable.dims),
        )
