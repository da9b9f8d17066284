"""Documents of Zarr v3 and layouts as small data; arrays of one chunk, and what others make of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from zarrlift.archive.nodes import Layout
from zarrlift.core.chain.chain import Chain
from zarrlift.core.codec_spec import CodecSpec
from zarrlift.core.data_types.v3 import DataType
from zarrstack.core.chunk_keys_v3 import KeyEncoding

LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
_OF_OBJECTS = {"string": "vlen-utf8", "bytes": "vlen-bytes", "variable_length_bytes": "vlen-bytes"}


def v3_array(
    shape: Sequence[int], chunks: Sequence[int] | None = None, data_type: Any = "int32", **changes: Any
) -> dict[str, Any]:
    """A `zarr.json` of an array; without `chunks`, of one chunk."""
    codec = {"name": _OF_OBJECTS[data_type]} if str(data_type) in _OF_OBJECTS else LITTLE
    grid = {"chunk_shape": list(shape if chunks is None else chunks)}
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(shape),
        "data_type": data_type,
        "chunk_grid": {"name": "regular", "configuration": grid},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0,
        "codecs": [codec],
        "attributes": {},
        **changes,
    }


def layout(
    *codecs: CodecSpec,
    shape: tuple[int, ...] = (4, 6),
    chunks: tuple[int, ...] = (2, 6),
    data_type: str | DataType = "int32",
    fill: Any = 0,
    keys: Any = KeyEncoding("v2", "."),  # noqa: B008 - frozen
    **more: Any,
) -> Layout:
    """A layout of a Zarr v2 array; without codecs, of uncompressed little-endian chunks."""
    return Layout(
        shape=shape,
        data_type=DataType(data_type) if isinstance(data_type, str) else data_type,
        fill_value=fill,
        chunk_shape=chunks,
        chain=Chain(codecs or (CodecSpec("bytes", {"endian": "little"}),)),
        keys=keys,
        **more,
    )


def write_one_chunk(root: Path, document: dict[str, Any], payload: bytes) -> None:
    """An array with its only chunk."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "zarr.json").write_text(json.dumps(document))
    encoding = document["chunk_key_encoding"]
    separator = encoding["configuration"]["separator"]
    parts = ["0"] * len(document["shape"])
    name = separator.join(["c", *parts]) if encoding["name"] == "default" else separator.join(parts) or "0"
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_bytes(payload)


def of_three(data_type: Any, fill_value: Any, **changed: Any) -> bytes:
    """An array of three elements in two chunks, none of them stored."""
    return json.dumps(v3_array([3], [2], data_type, fill_value=fill_value) | changed).encode()


def read_by_zarr(content: bytes) -> np.ndarray:
    """The array that the installed zarr-python shows; all of it is fill value."""
    from zarr import open_array
    from zarr.buffer import default_buffer_prototype
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
