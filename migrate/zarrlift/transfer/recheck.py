"""Decodes an inner chunk a second time with numcodecs, as a check of our own codecs.

The v3 chain is converted back to the numcodecs configurations of a Zarr v2 document, and numcodecs decodes as
zarr-python 2.18 did (`Array._decode_chunk`): compressor first, then the filters from the last to the first,
then a view of the array's data type.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from zarrstack.core.errors import ChunkError

from ..core.codec_spec import CodecSpec
from ..core.data_types.compare import Values, mismatch

if TYPE_CHECKING:
    from ..archive.nodes import Layout


_V3: Final[Mapping[str, str]] = {
    "zstd": "zstd",
    "blosc": "blosc",
    "crc32c": "crc32c",
    "vlen-utf8": "vlen-utf8",
    "vlen-bytes": "vlen-bytes",
}
"""Core codec -> numcodecs id."""
_DEFLATE: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "gzip": gzip.decompress,
    "numcodecs.zlib": zlib.decompress,
}
"""Functions that numcodecs itself calls for these, available without loading numcodecs."""
_RAW_LZMA: Final = 3
"""`lzma.FORMAT_RAW`."""
_SHUFFLES: Final = {"noshuffle": 0, "shuffle": 1, "bitshuffle": 2}
_OBJECTS: Final = frozenset(
    {
        "vlen-utf8",
        "vlen-bytes",
        "numcodecs.json2",
        "numcodecs.msgpack2",
        "numcodecs.vlen-array",
        "numcodecs.object-categorize",
    }
)


def recheck(layout: Layout, payload: bytes, decoded: Values) -> None:
    """Raise ChunkError if numcodecs decodes a source payload to other values than `decoded`, or not at all.

    `decoded` is the whole inner chunk from our pipeline, before any cast. A chain that numcodecs cannot
    decode (a pickle, which is not executed for a check) is skipped.
    """
    try:
        independent = decode(layout, payload)
    except NotImplementedError:
        return
    except Exception as error:
        raise ChunkError(
            "numcodecs cannot decode a chunk that our own codecs decode",
            found=f"{type(error).__name__}: {error}"[:300],
        ) from error
    differs = mismatch(decoded, independent)
    if differs is not None:
        raise ChunkError(
            f"numcodecs decodes a chunk to other values, first at {list(differs.index)} of the chunk",
            found=differs.found,
            expected=differs.expected,
        )


def decode(layout: Layout, payload: bytes) -> Values:
    """An inner chunk's values by numcodecs; NotImplementedError for a chain without an equivalent."""
    chain = layout.chain
    middle = chain.middle
    data: Any = payload
    for codec in reversed(chain.codecs[middle + 1 :]):
        plain = _DEFLATE.get(codec.name)
        data = _numcodec(codec).decode(data) if plain is None else plain(data)
    shape = layout.chunk_shape
    orders = [_order(codec) for codec in chain.codecs[:middle]]
    for order in orders:
        shape = tuple(shape[axis] for axis in order)
    values = _array(chain.codecs[middle], layout, data).reshape(shape)
    for order in reversed(orders):
        values = values.transpose(np.argsort(order))
    return values


def _order(codec: CodecSpec) -> tuple[int, ...]:
    order = codec.configuration["order"]
    if not isinstance(order, (list, tuple)):
        raise NotImplementedError(codec.name)
    return tuple(order)


def _array(codec: CodecSpec, layout: Layout, data: Any) -> Values:
    """The result of the array-to-bytes codec, as a flat array."""
    if codec.name == "numpy_bytes":
        items = _view(data, _v2_dtype(codec.configuration["dtype"]))
        if layout.data_type.name != "object":
            return items
        objects: Values = np.empty(len(items), dtype=object)
        for index, item in enumerate(items.astype(items.dtype.newbyteorder("="))):
            objects[index] = item
        return objects
    if codec.name == "bytes":
        endian = codec.configuration.get("endian")
        native = layout.data_type.numpy
        return _view(data, native.newbyteorder(">" if endian == "big" else "<"))
    if codec.name in _OBJECTS:
        if codec.name == "numcodecs.object-categorize":
            values = _numcodec(CodecSpec("numcodecs.categorize", codec.configuration)).decode(data)
        else:
            values = _numcodec(codec).decode(data)
        result: Values = np.asarray(values, dtype=object)
        return result.reshape(-1)
    raise NotImplementedError(codec.name)


def _view(data: Any, dtype: np.dtype[Any]) -> Values:
    flat = data if isinstance(data, np.ndarray) else np.frombuffer(data, np.uint8)
    return np.ascontiguousarray(flat).reshape(-1).view(np.uint8).view(dtype)


def _v2_dtype(data: Any) -> np.dtype[Any]:
    """A Zarr v2 dtype: a string, or a list of fields (lists in JSON, tuples in numpy)."""
    if isinstance(data, str):
        return np.dtype(data)
    return np.dtype([(field[0], _v2_dtype(field[1]), *(tuple(part) for part in field[2:])) for field in data])


def _numcodec(codec: CodecSpec) -> Any:
    """The equivalent numcodecs codec."""
    import numcodecs

    if codec.name.startswith("numcodecs."):
        name = codec.name.removeprefix("numcodecs.")
    elif codec.name in _V3:
        name = _V3[codec.name]
    else:
        raise NotImplementedError(codec.name)
    if name == "pickle":
        raise NotImplementedError(codec.name)
    configuration = dict(codec.configuration)
    if codec.name == "blosc":
        configuration.pop("typesize", None)
        configuration["shuffle"] = _SHUFFLES.get(str(configuration.get("shuffle")), 1)
    if codec.name == "crc32c":
        configuration["location"] = "end"  # numcodecs' own default is the start
    if name == "pcodec":
        raise NotImplementedError(codec.name)
    if name == "lzma" and configuration.get("format") != _RAW_LZMA:
        # Python accepts filters for raw streams only; other formats contain theirs. GDAL states them
        # nevertheless.
        configuration["filters"] = None
    return numcodecs.get_codec({"id": name, **configuration})
