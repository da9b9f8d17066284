"""Compilation of codecs: from a name and a configuration to functions on buffers and arrays.

The two tables below map names to classes; a module is imported when a chain first names its codec. Names
without a prefix are those of the Zarr v3 specification and of zarr-extensions; `numcodecs.*` are
zarr-python's names for the codecs of numcodecs, with numcodecs' configuration without its `id`. `lz4_block`
and `lz4_bare` are this project's, for N5, and `hdmf-zarr.objects` for NWB.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, cast

from zarrstack.core.errors import UnsupportedError
from zarrstack.core.json_text import canonical

from ..chain.optional_codecs import IMAGECODECS
from .base import DEFAULT_OPTIONS, ArrayCodec, BytesCodec, InnerChunk, Options

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from ..codec_spec import CodecSpec

BYTES_CODECS: Final[Mapping[str, str]] = {
    "blosc": "blosc:Blosc",
    "crc32c": "checksums:Checksum",
    "gzip": "gzip:Gzip",
    "lz4_bare": "lz4:Lz4Bare",
    "lz4_block": "lz4:Lz4Block",
    "zstd": "zstd:Zstd",
    "numcodecs.adler32": "checksums:Checksum",
    "numcodecs.astype": "filters:Elementwise",
    "numcodecs.base64": "filters:Base64",
    "numcodecs.bitround": "filters:BitRound",
    "numcodecs.blosc": "blosc:Blosc",
    "numcodecs.bz2": "streams:Bz2",
    "numcodecs.categorize": "categorize:Categorize",
    "numcodecs.crc32": "checksums:Checksum",
    "numcodecs.crc32c": "checksums:Checksum",
    "numcodecs.delta": "filters:Elementwise",
    "numcodecs.fixedscaleoffset": "filters:Elementwise",
    "numcodecs.fletcher32": "checksums:Checksum",
    "numcodecs.gzip": "gzip:Gzip",
    "numcodecs.jenkins_lookup3": "checksums:Checksum",
    "numcodecs.lz4": "lz4:Lz4",
    "numcodecs.lzma": "streams:Lzma",
    "numcodecs.packbits": "filters:PackBits",
    "numcodecs.pcodec": "optional:PCodec",
    "numcodecs.quantize": "filters:Elementwise",
    "numcodecs.shuffle": "filters:Shuffle",
    "numcodecs.zfpy": "optional:Zfpy",
    "numcodecs.zlib": "gzip:Zlib",
    "numcodecs.zstd": "zstd:Zstd",
    **dict.fromkeys(sorted(IMAGECODECS), "images:ImageCodec"),
    "imagecodecs_zfp": "optional:ImagecodecsZfp",
}
"""Name -> module and class of every bytes-to-bytes codec."""

ARRAY_CODECS: Final[Mapping[str, str]] = {
    "bytes": "fixed:Bytes",
    "hdmf-zarr.objects": "hdmf:HdmfObjects",
    "numpy_bytes": "fixed:NumpyBytes",
    "vlen-bytes": "vlen:VlenBytes",
    "vlen-utf8": "vlen:VlenUtf8",
    "numcodecs.json2": "objects:Json2",
    "numcodecs.msgpack2": "objects:MsgPack2",
    "numcodecs.object-categorize": "categorize:ObjectCategorize",
    "numcodecs.pickle": "objects:Pickle",
    "numcodecs.vlen-array": "vlen:VlenArray",
}
"""Name -> module and class of every array-to-bytes codec."""


def compile_bytes_codec(spec: CodecSpec, item: np.dtype[Any] | None = None) -> BytesCodec:
    """Compile a bytes-to-bytes codec.

    `item` is the type of the decoded buffer's items, if known; some codecs need it if their configuration
    does not state it. MetadataError for an invalid configuration, UnsupportedError for an unknown name.
    """
    cls = cast("type[BytesCodec]", _find(spec, BYTES_CODECS, "bytes-to-bytes"))
    return cls.from_spec(spec, item)


def compile_array_codec(
    spec: CodecSpec, inner_chunk: InnerChunk, options: Options = DEFAULT_OPTIONS
) -> ArrayCodec:
    """Compile an array-to-bytes codec for one kind of inner chunk (its shape already transposed).

    Errors as in `compile_bytes_codec`.
    """
    cls = cast("type[ArrayCodec]", _find(spec, ARRAY_CODECS, "array-to-bytes"))
    return cls.from_spec(spec, inner_chunk, options)


def _find(spec: CodecSpec, table: Mapping[str, str], kind: str) -> type:
    place = table.get(spec.name)
    if place is None:
        raise UnsupportedError(f"no {kind} codec of this name is known here", found=canonical(spec.to_json()))
    module, _, name = place.partition(":")
    return cast("type", getattr(import_module(f"{__package__}.{module}"), name))
