"""The keywords of `zarr.create_array`, so that type checkers know those of `zarrstack.create_array`.

Source: zarr-python 3.1.6 and 3.4.2. Types of which the two have different names are Any.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, TypedDict

from numpy.typing import NDArray


class ArrayKeywords(TypedDict, total=False):
    """What `create_array` passes on."""

    shape: int | Iterable[int] | None
    dtype: Any
    data: NDArray[Any] | None
    chunks: Any
    shards: Any
    filters: Any
    compressors: Any
    serializer: Any
    fill_value: Any
    order: Literal["C", "F"] | None
    zarr_format: Literal[3]
    attributes: dict[str, Any] | None
    chunk_key_encoding: Any
    dimension_names: Iterable[str | None] | None
    overwrite: bool
    config: Any
    write_data: bool
