"""One-chunk v3 arrays written by hand, and read by the readers that are installed."""

from __future__ import annotations

import ctypes
import json
from pathlib import Path
from typing import Any

import numpy as np


def write(root: Path, document: dict[str, Any], payload: bytes) -> None:
    """An array with its only chunk."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "zarr.json").write_text(json.dumps(document))
    encoding = document["chunk_key_encoding"]
    separator = encoding["configuration"]["separator"]
    parts = ["0"] * len(document["shape"])
    name = separator.join(["c", *parts]) if encoding["name"] == "default" else separator.join(parts) or "0"
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_bytes(payload)


def document(shape: tuple[int, ...], data_type: Any, codecs: list[Any], fill: Any) -> dict[str, Any]:
    """A v3 array document of one chunk."""
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(shape),
        "data_type": data_type,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(shape)}},
        "chunk_key_encoding": {"name": "v2", "configuration": {"separator": "."}},
        "fill_value": fill,
        "codecs": codecs,
        "attributes": {},
    }


def read_zarr(root: Path) -> np.ndarray[Any, Any]:
    """The values as zarr-python reads them."""
    import zarr

    return np.asarray(zarr.open_array(root, mode="r", zarr_format=3)[...])


def read_tensorstore(root: Path) -> np.ndarray[Any, Any]:
    """The values as tensorstore reads them.

    `raw_bytes` come as single bytes along one more axis, which numpy takes for items of size 0
    (tensorstore 0.1.86): only their memory tells.
    """
    import tensorstore

    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(root)}}
    values = np.asarray(tensorstore.open(spec, open=True, read=True).result().read().result())
    if values.dtype.kind == "V" and values.dtype.itemsize == 0:
        return np.frombuffer(ctypes.string_at(values.ctypes.data, values.size), dtype="u1").reshape(
            values.shape
        )
    return values


def native(array: np.ndarray[Any, Any]) -> bytes | list[Any]:
    """What is compared: bits in native order, or Python values of variable length."""
    if array.dtype.kind in "OTU":
        return [value if isinstance(value, bytes) else str(value) for value in array.ravel().tolist()]
    return array.astype(array.dtype.newbyteorder("=")).tobytes()
