"""TensorStore's zarr3 driver: independent of zarr-python and numcodecs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tensorstore as ts
from tests.end_to_end.readers.base import CannotRead, Seen, plain

_REFUSALS = (
    "data_type",
    "data type",
    "fill_value",
    "is not one of",
    "not registered",
    "Unsupported",
    'Must specify a "field"',
    "not unique",
    "Invalid JSON",
)
"""Words of the messages with which tensorstore 0.1.86 turns down an array's metadata.

It reads structs a field at a time, no dimension name twice in an array, and no JSON with half of a
surrogate pair.
"""


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
    values = array.read().result()
    values = _bytes(values) if metadata["data_type"] == "raw_bytes" else plain(values, array.shape)
    return Seen(
        reader="tensorstore",
        dtype=str(array.dtype),
        values=values,
        attributes=metadata.get("attributes", {}),
        fill=None if array.fill_value is None else np.asarray(array.fill_value),
        dimension_names=None if names is None else tuple(names),
    )


class _Reinterpreted:
    """The memory of an array under another element type, for numpy."""

    def __init__(self, array: np.ndarray, typestr: str) -> None:
        interface = {key: value for key, value in array.__array_interface__.items() if key != "descr"}
        self.__array_interface__ = {**interface, "typestr": typestr}
        self.keep_alive = array


def _bytes(array: np.ndarray) -> np.ndarray:
    """Raw bytes as one value each: tensorstore gives one more axis, of elements numpy takes for `V0`."""
    single = np.ascontiguousarray(np.asarray(_Reinterpreted(array, "|u1")))
    return single.view(f"V{single.shape[-1]}")[..., 0]
