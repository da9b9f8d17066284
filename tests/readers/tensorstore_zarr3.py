"""TensorStore's zarr3 driver: independent of zarr-python and numcodecs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tensorstore as ts

from .base import CannotRead, Seen, plain

_REFUSALS = (
    "data_type",
    "data type",
    "fill_value",
    "is not one of",
    "not registered",
    "Unsupported",
)
"""Words of the messages with which tensorstore 0.1.86 turns down an array's metadata."""


def read(root: Path, path: str) -> Seen:
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(root / path)}}
    try:
        array = ts.open(spec, read=True).result()
    except ValueError as error:
        if any(word in str(error) for word in _REFUSALS):
            raise CannotRead(str(error)) from error
        raise
    metadata = array.spec().to_json()["metadata"]
    names = metadata.get("dimension_names")
    return Seen(
        dtype=str(array.dtype),
        values=plain(array.read().result(), array.shape),
        attributes=metadata.get("attributes", {}),
        fill=None if array.fill_value is None else np.asarray(array.fill_value),
        dimension_names=None if names is None else tuple(names),
    )
