"""The registry of extensions of Zarr v3, and what becomes of an array of Zarr v3 with each of them.

https://github.com/zarr-developers/zarr-extensions, listing of 2026-07-14, with configurations from its pages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from zarrlift.formats.zarr_v3 import V3ArrayDescriber

PLAIN: Final[Mapping[str, Any]] = {
    "zarr_format": 3,
    "node_type": "array",
    "shape": [4],
    "data_type": "float32",
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}},
    "chunk_key_encoding": {"name": "default"},
    "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
    "fill_value": 0,
}
BYTES: Final = PLAIN["codecs"][0]
FEW_BITS: Final = (
    *("bfloat16", "float16", "float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn", "float8_e3m4", "float8_e4m3"),
    *("float8_e4m3b11fnuz", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
)
NUMBERS: Final = tuple(f"{kind}{bits}" for kind in ("int", "uint") for bits in (2, 4, 8, 16, 32, 64))
COMPLEX: Final = (
    "complex64",
    "complex128",
    *(f"complex_{name}" for name in (*FEW_BITS, "float32", "float64")),
)
TIME: Final = {"unit": "s", "scale_factor": 1}
INDEX: Final = [BYTES, {"name": "crc32c"}]
BLOSC: Final = {"cname": "zstd", "clevel": 5, "shuffle": "shuffle", "typesize": 4, "blocksize": 0}


def _codec(name: str, kind: str = "bytes", **configuration: Any) -> dict[str, Any]:
    """A document with a codec in its place: before, as, or after the array-to-bytes codec."""
    codec = {"name": name, "configuration": configuration}
    return {"codecs": {"array": [codec, BYTES], "serializer": [codec], "bytes": [BYTES, codec]}[kind]}


def _type(name: str, fill: Any = 0, codec: Any = BYTES, **configuration: Any) -> dict[str, Any]:
    data_type = {"name": name, "configuration": configuration} if configuration else name
    return {"data_type": data_type, "fill_value": fill, "codecs": [codec]}


ENTRIES: Final[Mapping[str, Mapping[str, Mapping[str, Any]]]] = {
    "codec": {
        "bitround": _codec("bitround", "array", keepbits=10),
        "blosc": _codec("blosc", **BLOSC),
        "bytes": {},
        "cast_value": _codec(
            "cast_value", "array", data_type="uint8", rounding="towards-zero", out_of_range="wrap"
        ),
        "conditional": _codec("conditional", codecs=[{"name": "zstd", "configuration": {"level": 5}}]),
        "crc32c": _codec("crc32c"),
        "gzip": _codec("gzip", level=1),
        "n5_default": _codec("n5_default", "serializer", codecs=[BYTES]),
        "packbits": _codec("packbits", "serializer"),
        "reshape": _codec("reshape", "array", shape=[[0]]),
        "scale_offset": _codec("scale_offset", "array", offset=5, scale=0.1),
        "sharding_indexed": _codec(
            "sharding_indexed", "serializer", chunk_shape=[1], codecs=[BYTES], index_codecs=INDEX
        ),
        "transpose": _codec("transpose", "array", order=[0]),
        "vlen-bytes": _type("bytes", "", {"name": "vlen-bytes"}),
        "vlen-utf8": _type("string", "", {"name": "vlen-utf8"}),
        "zfp": _codec("zfp", "serializer", mode="reversible"),
        "zstd": _codec("zstd", level=1, checksum=False),
    },
    "data type": {
        **{name: _type(name) for name in (*NUMBERS, *FEW_BITS, "float32", "float64")},
        **{name: _type(name, [0, 0]) for name in COMPLEX},
        "bool": _type("bool", fill=False),
        "bytes": _type("bytes", "", {"name": "vlen-bytes"}),
        "string": _type("string", "", {"name": "vlen-utf8"}),
        "fixed_length_utf32": _type("fixed_length_utf32", "", length_bytes=8),
        "numpy.datetime64": _type("numpy.datetime64", **TIME),
        "numpy.timedelta64": _type("numpy.timedelta64", **TIME),
        "r": _type("r16", [0, 0]),
        "struct": _type("struct", {"a": 0}, fields=[{"name": "a", "data_type": "int8"}]),
        "structured": _type("structured", "AA==", fields=[["a", "int8"]]),
    },
    "chunk grid": {
        "regular": {},
        "rectilinear": {
            "chunk_grid": {
                "name": "rectilinear",
                "configuration": {"kind": "inline", "chunk_shapes": [[1, 3]]},
            }
        },
    },
    "chunk key encoding": {
        name: {"chunk_key_encoding": {"name": name, "configuration": {"separator": "/"}}}
        for name in ("default", "v2")
    },
    "storage transformer": {"any name": {"storage_transformers": [{"name": "any"}]}},
}
"""Extension point -> name -> the members of a document that has it and that differ from those of `PLAIN`."""


def outcomes() -> Iterator[tuple[str, str, str]]:
    """(extension point, name, described or passed through or refused) of each entry."""
    describer = V3ArrayDescriber()
    for point, entries in ENTRIES.items():
        for name, changes in entries.items():
            array = describer.describe({**PLAIN, **changes})
            passed = "passed through" if array.passed is not None else "refused"
            yield point, name, "described" if array.layout is not None else passed
