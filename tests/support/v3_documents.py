"""Small v3 documents, and what other readers make of them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

CODECS = {"string": "vlen-utf8", "bytes": "vlen-bytes", "variable_length_bytes": "vlen-bytes"}


def document(data_type: Any, fill_value: Any, **changed: Any) -> bytes:
    """An array of three elements in two chunks, none of them stored."""
    codec: dict[str, Any] = {"name": "bytes", "configuration": {"endian": "little"}}
    if isinstance(data_type, str) and data_type in CODECS:
        codec = {"name": CODECS[data_type]}
    members = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [3],
        "data_type": data_type,
        "fill_value": fill_value,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}},
        "chunk_key_encoding": {"name": "default"},
        "codecs": [codec],
        "attributes": {},
    }
    return json.dumps(members | changed).encode()


def read_by_zarr(content: bytes) -> np.ndarray:
    """The array that the installed zarr-python shows; all of it is fill value."""
    from zarr import open_array
    from zarr.core.buffer import default_buffer_prototype
    from zarr.storage import MemoryStore

    buffer = default_buffer_prototype().buffer.from_bytes(content)
    return np.asarray(open_array(MemoryStore({"zarr.json": buffer}), mode="r")[...])


def read_by_tensorstore(content: bytes, **spec: Any) -> np.ndarray:
    """The array that the installed tensorstore shows."""
    import tensorstore

    context = tensorstore.Context()
    kvstore = {"driver": "memory"}
    tensorstore.KvStore.open(kvstore, context=context).result().write("zarr.json", content).result()
    opened = tensorstore.open({"driver": "zarr3", "kvstore": kvstore} | spec, context=context, open=True)
    return np.asarray(opened.result().read().result())
