"""Layouts as JSON, as stored in plans."""

from __future__ import annotations

from zarrstack.core.json_text import JSONObject

from ..core.chain.chain import Chain
from ..core.codec_spec import CodecSpec
from ..core.data_types.v3 import DataType
from ..core.grid.chunk_keys import chunk_keys_from_json
from ..core.grid.frames import frame_from_json
from .nodes import Layout


def layout_to_json(layout: Layout) -> JSONObject:
    """A layout, complete; the chain is in normal form, unlike in `zarr.json`."""
    return {
        "shape": list(layout.shape),
        "data_type": layout.data_type.to_json(),
        "fill_value": layout.fill_value,
        "chunk_shape": list(layout.chunk_shape),
        "codecs": [codec.to_json() for codec in layout.chain.codecs],
        "chunk_key_encoding": layout.keys.to_json(),
        "frame": None if layout.frame is None else layout.frame.to_json(),
        "root": layout.root,
        "dimension_names": None if layout.dimension_names is None else list(layout.dimension_names),
    }


def layout_from_json(data: JSONObject) -> Layout:
    """Inverse of `layout_to_json`."""
    names = data["dimension_names"]
    return Layout(
        shape=tuple(data["shape"]),
        data_type=DataType.from_json(data["data_type"]),
        fill_value=data["fill_value"],
        chunk_shape=tuple(data["chunk_shape"]),
        chain=Chain(tuple(CodecSpec.from_json(codec) for codec in data["codecs"])),
        keys=chunk_keys_from_json(data["chunk_key_encoding"]),
        frame=frame_from_json(data.get("frame")),
        root=data.get("root"),
        dimension_names=None if names is None else tuple(names),
    )
