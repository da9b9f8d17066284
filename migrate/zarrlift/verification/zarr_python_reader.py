"""Reads the destination with zarr-python, even before its `zarr.json` is written.

zarr is imported inside the functions: moving bytes does not need it, and the import takes 0.1 s. Each
function imports `zarr` before any of its modules: if two threads start from different modules (`zarr`,
`zarr.core.metadata`) at the same time, each sees partially initialized modules of the other. All work runs on
zarr's own event loop through its `sync`. Any thread of zarrlift may call it; since it never waits for one of
them, it cannot deadlock with a full worker pool.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from zarrstack.core.errors import MetadataError
from zarrstack.core.json_text import JSONObject

from ..core.data_types.compare import Values
from ..storage.base import Storage

if TYPE_CHECKING:
    from zarr.abc.store import Store
    from zarr.core.array import Array
    from zarr.core.metadata.v3 import ArrayV3Metadata

_PARSING: Final = threading.Lock()
"""Serializes `catch_warnings`, which affects the whole process."""


def parse(document: JSONObject) -> ArrayV3Metadata:
    """The metadata of an array's `zarr.json`, parsed by zarr-python.

    Raises MetadataError with zarr-python's message if it cannot be parsed.
    """
    import zarr  # noqa: F401 - first: see the top
    from zarr.core.metadata.v3 import ArrayV3Metadata

    with _PARSING, warnings.catch_warnings():
        # zarr warns about data types and codecs without a final specification; the plan reports these
        # already.
        warnings.simplefilter("ignore")
        try:
            return ArrayV3Metadata.from_dict(dict(document))
        except Exception as error:
            raise MetadataError(
                "zarr-python does not read the array's zarr.json", found=words(error)
            ) from error


def words(error: BaseException) -> str:
    """An exception of foreign code as one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300]}" if text else type(error).__name__


def data_type_name(metadata: ArrayV3Metadata) -> str:
    """zarr-python's v3 name of an array's data type."""
    return str(metadata.data_type._zarr_v3_name)  # noqa: SLF001 - it has no public name for the name


def native(metadata: ArrayV3Metadata) -> np.dtype[Any]:
    """The numpy type in which zarr-python reads an array; strings may be `StringDType` or object."""
    return cast("np.dtype[Any]", metadata.data_type.to_native_dtype())


def chunk_shape(metadata: ArrayV3Metadata) -> tuple[int, ...]:
    """Shape of the chunks that are stored as objects (shards, if any)."""
    return tuple(metadata.chunk_grid.chunk_shape)  # type: ignore[attr-defined]


def reading_store(storage: Storage) -> Store:
    """The storage as a read-only zarr store."""
    import zarr  # noqa: F401 - first: see the top

    store = storage.zarr_store()
    try:
        return store.with_read_only(True)
    except NotImplementedError:
        return store


def open_array(metadata: ArrayV3Metadata, store: Store, path: str) -> Array[Any]:
    """An array from parsed metadata; its `zarr.json` need not be stored."""
    from zarr.core.array import Array, AsyncArray
    from zarr.storage import StorePath

    return Array(AsyncArray(metadata, StorePath(store, path)))


def read_regions(array: Array[Any], regions: Sequence[tuple[slice, ...]]) -> list[Values | Exception]:
    """The values of several regions, or the exception for each that failed.

    All regions are read concurrently: the caller limits their total size.
    """
    import asyncio

    from zarr.core.sync import sync

    async def gather() -> list[Any]:
        reads = (array.async_array.getitem(region) for region in regions)
        return await asyncio.gather(*reads, return_exceptions=True)

    results: list[Values | Exception] = []
    for region, result in zip(regions, sync(gather()), strict=True):
        if isinstance(result, Exception):
            results.append(result)
        elif isinstance(result, BaseException):
            raise result
        else:
            shape = tuple(axis.stop - axis.start for axis in region)
            results.append(as_array(result, shape, array.dtype))
    return results


def warm_up() -> None:
    """Read an array without chunks, to load in advance what zarr-python's first read loads and starts."""
    from zarr.storage import MemoryStore

    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [1],
        "data_type": "uint8",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1]}},
        "chunk_key_encoding": {"name": "default"},
        "codecs": [{"name": "bytes"}],
        "fill_value": 0,
        "attributes": {},
    }
    read_regions(open_array(parse(document), MemoryStore(), ""), [(slice(0, 1),)])


def as_array(value: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Values:
    """The result of zarr-python as an array; 0-d arrays come as bare scalars without their length."""
    if isinstance(value, np.ndarray):
        if value.dtype.kind != "S" or dtype.kind != "O":
            return value
        # 0-d bytes of any length, by zarr-python 3.1: trailing zeros are in memory, and an S is never empty.
        value = value.tobytes() if value.item() or value.itemsize > 1 else b""
    if dtype.kind in "OT":
        # np.asarray would turn str and bytes into a fixed-length type and drop trailing zeros.
        result: Values = np.empty(shape, dtype=object)
        result[()] = value
        return result
    return np.asarray(value, dtype=dtype)
