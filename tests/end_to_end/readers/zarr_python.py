"""zarr-python, with its own codec pipeline."""

from __future__ import annotations

from pathlib import Path

import zarr
from tests.end_to_end.readers.base import Seen, plain
from zarr.abc.store import Store


def read(root: Path, path: str) -> Seen:
    return _seen(zarr.open_array(root / path, mode="r", zarr_format=3))


def read_store(store: Store, path: str) -> Seen:
    return _seen(zarr.open_array(store, path=path, mode="r", zarr_format=3))


def _seen(array: zarr.Array) -> Seen:
    metadata = array.metadata
    return Seen(
        reader="zarr-python",
        dtype=str(metadata.data_type),
        values=plain(array[...], array.shape, array.dtype),
        attributes=dict(metadata.attributes),
        fill=metadata.fill_value,
        dimension_names=metadata.dimension_names,
    )
