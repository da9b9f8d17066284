"""A small array for each feature of the table of readers, as zarrlift writes it, with its values."""

from __future__ import annotations

import base64
import json
import math
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import google_crc32c
import numcodecs
import numpy as np

from zarrlift.core.chain.reader_table import attribute_features, head_features

Array = np.ndarray[Any, Any]
LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
BYTES = {"name": "bytes"}
NUMBERS = np.arange(24, dtype="<i4").reshape(4, 6)
RAW = NUMBERS.tobytes()
TEXT = np.array(["a", "bb", "", "dé", "e", "f"], dtype=object).reshape(2, 3)
BINARY = np.array([value.encode() for value in TEXT.ravel()], dtype=object).reshape(2, 3)
PAIR = np.array([[(1, 2.5), (3, 4.5)], [(5, 6.5), (7, 8.5)]], dtype=[("a", "<i4"), ("b", "<f8")])
WORDS = np.array([["ab", "c"], ["", "de"]])
NAT = -(2**63)
MISSING = 2**64 - 1


@dataclass(frozen=True, kw_only=True)
class Case:
    """An array with one feature beyond what every reader knows."""

    values: Array
    data_type: Any = "int32"
    codecs: list[Any] = field(default_factory=lambda: [LITTLE])
    fill: Any = 0
    encode: Callable[[Array], bytes] = lambda chunk: chunk.tobytes()
    chunk_shape: tuple[int, ...] | None = None
    keys: tuple[str, str] = ("default", "/")
    names: tuple[str | None, ...] | None = ("y", "x")
    attributes: Mapping[str, Any] = field(default_factory=dict)
    stored: tuple[str, ...] = ()
    """Features of its chunks, which its document does not show."""
    missing: bool = False
    """No chunk is written: the values are the fill value."""

    @property
    def document(self) -> dict[str, Any]:
        """Its `zarr.json`."""
        document = {
            "zarr_format": 3,
            "node_type": "array",
            "shape": list(self.values.shape),
            "data_type": self.data_type,
            "chunk_grid": {
                "name": "regular",
                "configuration": {"chunk_shape": list(self.chunk_shape or self.values.shape)},
            },
            "chunk_key_encoding": {"name": self.keys[0], "configuration": {"separator": self.keys[1]}},
            "codecs": self.codecs,
            "fill_value": self.fill,
            "attributes": dict(self.attributes),
        }
        return document if self.names is None else {**document, "dimension_names": list(self.names)}

    def write(self, root: Path) -> None:
        """The array at `root`."""
        root.mkdir(parents=True, exist_ok=True)
        (root / "zarr.json").write_text(json.dumps(self.document), encoding="utf-8")
        shape = self.chunk_shape or self.values.shape
        if self.missing or 0 in self.values.shape:
            return
        counts = [math.ceil(length / size) for length, size in zip(self.values.shape, shape, strict=True)]
        for place in product(*map(range, counts)):
            cut = tuple(slice(at * size, (at + 1) * size) for at, size in zip(place, shape, strict=True))
            parts = [*(["c"] if self.keys[0] == "default" else []), *map(str, place)] or ["0"]
            file = root / self.keys[1].join(parts)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(bytes(self.encode(self.values[cut])))


def vlen(values: Array) -> bytes:
    items = [value if isinstance(value, bytes) else value.encode() for value in values.ravel()]
    return struct.pack("<I", len(items)) + b"".join(struct.pack("<I", len(x)) + x for x in items)


def checked(payload: bytes) -> bytes:
    return payload + struct.pack("<I", google_crc32c.value(payload))


def codec(name: str, **configuration: Any) -> dict[str, Any]:
    return {"name": name, "configuration": configuration} if configuration else {"name": name}


def blosc(cname: str, **changes: Any) -> dict[str, Any]:
    defaults = {"cname": cname, "clevel": 5, "shuffle": "shuffle", "typesize": 4, "blocksize": 0}
    return codec("blosc", **{**defaults, **changes})


def sharded(
    *,
    start: bool = False,
    checksum: bool = True,
    inner: tuple[list[Any], Callable[[Array], bytes]] | None = None,
) -> Case:
    """Four inner chunks in a shard, the last one missing."""
    codecs, encode = inner or ([LITTLE], Array.tobytes)
    index_codecs = [LITTLE, codec("crc32c")] if checksum else [LITTLE]
    values = NUMBERS.copy()
    values[2:, 3:] = 0
    size = 64 + 4 * checksum

    def shard(chunk: Array) -> bytes:
        payload, index = b"", b""
        for row, column in product((0, 2), (0, 3)):
            if (row, column) == (2, 3):
                index += struct.pack("<QQ", MISSING, MISSING)
                continue
            part = encode(np.ascontiguousarray(chunk[row : row + 2, column : column + 3]))
            index += struct.pack("<QQ", len(payload) + size * start, len(part))
            payload += part
        index = checked(index) if checksum else index
        return index + payload if start else payload + index

    configuration = {
        "chunk_shape": [2, 3],
        "codecs": codecs,
        "index_codecs": index_codecs,
        "index_location": "start" if start else "end",
    }
    return Case(values=values, codecs=[codec("sharding_indexed", **configuration)], encode=shard)


LEGACY = {
    "numcodecs.zlib": numcodecs.Zlib(3),
    "numcodecs.gzip": numcodecs.GZip(3),
    "numcodecs.bz2": numcodecs.BZ2(1),
    "numcodecs.lzma": numcodecs.LZMA(),
    "numcodecs.lz4": numcodecs.LZ4(),
    "numcodecs.zstd": numcodecs.Zstd(3),
    "numcodecs.blosc": numcodecs.Blosc("lz4"),
    "numcodecs.shuffle": numcodecs.Shuffle(4),
    "numcodecs.crc32": numcodecs.CRC32(),
    "numcodecs.crc32c": numcodecs.checksum32.CRC32C(),
    "numcodecs.adler32": numcodecs.Adler32(),
    "numcodecs.fletcher32": numcodecs.Fletcher32(),
    "numcodecs.jenkins_lookup3": numcodecs.JenkinsLookup3(),
    "numcodecs.delta": numcodecs.Delta("<i4"),
    "numcodecs.fixedscaleoffset": numcodecs.FixedScaleOffset(1, 2, "<i4", "<i4"),
    "numcodecs.astype": numcodecs.AsType("<i2", "<i4"),
}
_ARRAY_FILTERS = ("numcodecs.delta", "numcodecs.fixedscaleoffset", "numcodecs.astype")
V2_ONLY = (
    *("numpy_bytes", "n5_default", "lz4_block", "lz4_bare", "numcodecs.json2", "numcodecs.msgpack2"),
    *(f"numcodecs.{name}" for name in ("vlen-array", "pickle", "categorize", "object-categorize", "base64")),
)
"""What v3 readers never heard of, without packages of their own; the payload does not matter."""


def _legacy(name: str) -> Case:
    instance = LEGACY[name]
    configuration = dict(instance.get_config())
    spec = {"name": f"numcodecs.{configuration.pop('id')}", "configuration": configuration}

    def encode(chunk: Array) -> bytes:
        return bytes(numcodecs.compat.ensure_bytes(instance.encode(chunk)))

    codecs = [spec, LITTLE] if name in _ARRAY_FILTERS else [LITTLE, spec]
    return Case(values=NUMBERS, codecs=codecs, encode=encode)


def _codecs() -> dict[str, Case]:
    big = NUMBERS.astype(">i4")
    floats = NUMBERS.astype("<f4")
    bits = NUMBERS > 3

    def then(spec: dict[str, Any], encode: Callable[[bytes], bytes]) -> Case:
        return Case(values=NUMBERS, codecs=[LITTLE, spec], encode=lambda chunk: encode(chunk.tobytes()))

    cases = {
        "bytes": Case(values=NUMBERS),
        "bytes big-endian": Case(
            values=NUMBERS, codecs=[codec("bytes", endian="big")], encode=lambda chunk: big.tobytes()
        ),
        "transpose": Case(
            values=NUMBERS,
            codecs=[codec("transpose", order=[1, 0]), LITTLE],
            encode=lambda chunk: chunk.T.tobytes(),
        ),
        "gzip": then(codec("gzip", level=6), numcodecs.GZip(6).encode),
        "zstd": then(codec("zstd", level=3, checksum=False), numcodecs.Zstd(3).encode),
        "zstd with checksum": then(codec("zstd", level=3, checksum=True), numcodecs.Zstd(3, True).encode),
    }
    for cname in ("lz4", "lz4hc", "blosclz", "zstd", "zlib"):
        encoder = numcodecs.Blosc(cname)
        cases[f"blosc {cname}"] = Case(
            values=NUMBERS, codecs=[LITTLE, blosc(cname)], encode=lambda chunk, by=encoder: by.encode(chunk)
        )
    cases |= {
        "crc32c": then(codec("crc32c"), checked),
        "sharding_indexed": sharded(),
        "vlen-utf8": Case(values=TEXT, data_type="string", codecs=[codec("vlen-utf8")], encode=vlen, fill=""),
        "vlen-bytes": Case(
            values=BINARY, data_type="bytes", codecs=[codec("vlen-bytes")], encode=vlen, fill=""
        ),
    }
    cases |= {name: _legacy(name) for name in LEGACY}
    cases |= {
        "numcodecs.quantize": Case(
            values=floats,
            data_type="float32",
            codecs=[codec("numcodecs.quantize", digits=1, dtype="<f4"), LITTLE],
            fill=0.0,
        ),
        "numcodecs.bitround": Case(
            values=floats,
            data_type="float32",
            codecs=[codec("numcodecs.bitround", keepbits=20), LITTLE],
            fill=0.0,
        ),
        "numcodecs.packbits": Case(
            values=bits,
            data_type="bool",
            codecs=[{"name": "numcodecs.packbits", "configuration": {}}, BYTES],
            encode=lambda chunk: numcodecs.PackBits().encode(chunk).tobytes(),
            fill=False,
        ),
    }
    cases |= {
        "scale_offset": Case(
            values=NUMBERS,
            codecs=[codec("scale_offset", offset=2, scale=3), LITTLE],
            encode=lambda chunk: ((chunk - 2) * 3).tobytes(),
        ),
        "cast_value": Case(
            values=NUMBERS,
            codecs=[codec("cast_value", data_type="int16"), LITTLE],
            encode=lambda chunk: chunk.astype("<i2").tobytes(),
        ),
    }
    for name in V2_ONLY:
        cases[name] = Case(values=NUMBERS, codecs=[{"name": name, "configuration": {}}, LITTLE])
    return cases


def _length(name: str, n: int) -> dict[str, Any]:
    return {"name": name, "configuration": {"length_bytes": n}}


def _time(name: str) -> dict[str, Any]:
    return {"name": name, "configuration": {"unit": "ns", "scale_factor": 1}}


def _data_types() -> dict[str, Case]:
    cases = {}
    for name in (
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "float32", "float64", "complex64", "complex128"),
    ):
        values = (np.arange(6) % 2).astype(name).reshape(2, 3)
        fill = {"b": False, "c": [0.0, 0.0], "f": 0.0}.get(values.dtype.kind, 0)
        cases[name] = Case(
            values=values, data_type=name, codecs=[LITTLE] if values.itemsize > 1 else [BYTES], fill=fill
        )
    times = np.array([[1, NAT], [2, 3]])
    fields = [["a", "int32"], ["b", "float64"]]
    named = [{"name": label, "data_type": kind} for label, kind in fields]
    cases |= {
        "fixed_length_utf32": Case(
            values=WORDS,
            data_type=_length("fixed_length_utf32", 8),
            encode=lambda c: c.astype("<U2").tobytes(),
            fill="",
        ),
        "numpy.datetime64": Case(values=times.view("M8[ns]"), data_type=_time("numpy.datetime64"), fill=NAT),
        "numpy.timedelta64": Case(
            values=times.view("m8[ns]"), data_type=_time("numpy.timedelta64"), fill=NAT
        ),
        "string": Case(values=TEXT, data_type="string", codecs=[codec("vlen-utf8")], encode=vlen, fill=""),
        "bytes": Case(values=BINARY, data_type="bytes", codecs=[codec("vlen-bytes")], encode=vlen, fill=""),
        "structured": Case(
            values=PAIR,
            data_type={"name": "structured", "configuration": {"fields": fields}},
            fill=base64.b64encode(bytes(12)).decode(),
        ),
        "struct": Case(
            values=PAIR,
            data_type={"name": "struct", "configuration": {"fields": named}},
            fill={"a": 0, "b": 0.0},
        ),
        "null_terminated_bytes": Case(
            values=WORDS.astype("S3"), data_type=_length("null_terminated_bytes", 3), codecs=[BYTES], fill=""
        ),
        "variable_length_bytes": Case(
            values=BINARY,
            data_type="variable_length_bytes",
            codecs=[codec("vlen-bytes")],
            encode=vlen,
            fill="",
        ),
        "bfloat16": Case(values=np.array([[b"\x80\x3f", b"\x10\xc0"]], "V2"), data_type="bfloat16", fill=0.0),
        "r*": Case(values=np.array([[b"ab", b"cd"]], "V2"), data_type="r16", codecs=[BYTES], fill="AAA="),
        "raw_bytes": Case(
            values=np.array([[b"ab", b"cd"]], "V2"),
            data_type=_length("raw_bytes", 2),
            codecs=[BYTES],
            fill="AAA=",
        ),
    }
    return cases


def _filled(values: Any, data_type: str, fill: Any) -> Case:
    """No chunk: every value is the fill value, bit for bit."""
    return Case(
        values=np.broadcast_to(np.asarray(values), (2, 3)).copy(),
        data_type=data_type,
        fill=fill,
        missing=True,
    )


def _others() -> dict[str, Case]:
    small = (2, 3)
    return {
        **{
            f"chunk keys: {name} {separator}": Case(values=NUMBERS, chunk_shape=small, keys=(name, separator))
            for name, separator in product(("default", "v2"), ("/", "."))
        },
        "chunks: several frames": Case(
            values=NUMBERS,
            codecs=[LITTLE, codec("zstd", level=3, checksum=False)],
            encode=lambda chunk: b"".join(numcodecs.Zstd(3).encode(half) for half in np.split(chunk, 2)),
            stored=("chunks: several frames",),
        ),
        "shards: index at the start": sharded(start=True),
        "shards: index without checksum": sharded(checksum=False),
        "shape: 0 dimensions": Case(values=np.array(7, "<i4"), names=()),
        "shape: a length of 0": Case(values=np.zeros((0, 3), "<i4"), chunk_shape=small),
        "fill value: bits": _filled(np.uint32(0xFFC00000).view("f4"), "float32", "0xffc00000"),
        "fill value: beyond 2^53": _filled(np.uint64(2**53 + 1), "uint64", 2**53 + 1),
        "dimension names: none": Case(values=NUMBERS, names=None),
        "dimension names: some": Case(values=NUMBERS, names=("y", None)),
        "dimension names: one twice": Case(values=NUMBERS[:, :4].copy(), names=("x", "x")),
        "attributes: half of a surrogate pair": Case(values=NUMBERS, attributes={"unit": "\ud83d"}),
        "attributes: bare NaN or Infinity": Case(values=NUMBERS, attributes={"offset": math.nan}),
    }


@cache
def all_cases() -> dict[str, Case]:
    """Feature -> case."""
    return {
        **{f"data type {name}": case for name, case in _data_types().items()},
        **{f"codec {name}": case for name, case in _codecs().items()},
        **_others(),
    }


def features_of(case: Case) -> tuple[str, ...]:
    """The features of its array by the table."""
    return (*head_features(case.document), *attribute_features(dict(case.attributes)), *case.stored)


def same(seen: Array, case: Case) -> bool:
    """Whether values are those of a case: bits of equal types, or equal numbers of a wider type."""
    wanted = case.values
    if seen.shape != wanted.shape:
        return False
    if wanted.dtype.kind in "OU" or seen.dtype.kind in "OTU":
        plain = [
            value if isinstance(value, bytes) else str(value) for value in np.asarray(seen).ravel().tolist()
        ]
        return plain == [
            value if isinstance(value, bytes) else str(value) for value in wanted.ravel().tolist()
        ]
    if seen.dtype.newbyteorder("=") == wanted.dtype.newbyteorder("=") or wanted.dtype.kind in "VSMm":
        native = seen.astype(seen.dtype.newbyteorder("="))
        return native.tobytes() == wanted.astype(wanted.dtype.newbyteorder("=")).tobytes()
    return bool(np.array_equal(seen, wanted, equal_nan=True))
