"""The table of who reads what, held against the readers that are installed."""

from __future__ import annotations

import base64
import struct
from importlib.metadata import version
from pathlib import Path
from typing import Any

import crc32c as crc
import numcodecs
import numpy as np
import pytest
from tests.support.tiny_arrays import document, native, read_tensorstore, read_zarr, write

from zarrstack.core.chain.codec_spec import CodecSpec
from zarrstack.core.chain.readers import CODECS, DATA_TYPES, READERS, ZARR_NEW, limits_problem, within_limits

LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
BYTES = {"name": "bytes"}
NUMBERS = np.arange(24, dtype="<i4").reshape(4, 6)
RAW = NUMBERS.tobytes()
TEXT = np.array(["a", "bb", "", "dé", "e", "f"], dtype=object).reshape(2, 3)
BINARY = np.array([value.encode() for value in TEXT.ravel()], dtype=object).reshape(2, 3)


def installed(reader: str) -> bool:
    """Whether this end has that version of a reader."""
    name, observed = reader.split()
    return observed == version({"zarr-python": "zarr"}.get(name, name))


def vlen(values: np.ndarray[Any, Any]) -> bytes:
    items = [value if isinstance(value, bytes) else value.encode() for value in values.ravel()]
    return struct.pack("<I", len(items)) + b"".join(struct.pack("<I", len(x)) + x for x in items)


def checked(payload: bytes) -> bytes:
    return payload + struct.pack("<I", crc.crc32c(payload))


def codec(name: str, **configuration: Any) -> dict[str, Any]:
    return {"name": name, "configuration": configuration} if configuration else {"name": name}


def legacy(instance: Any) -> tuple[dict[str, Any], bytes]:
    """A numcodecs codec by its v3 name, and the numbers it encodes."""
    configuration = dict(instance.get_config())
    name = f"numcodecs.{configuration.pop('id')}"
    encoded = bytes(numcodecs.compat.ensure_bytes(instance.encode(NUMBERS)))
    return {"name": name, "configuration": configuration}, encoded


def blosc(cname: str, **changes: Any) -> dict[str, Any]:
    defaults = {"cname": cname, "clevel": 5, "shuffle": "shuffle", "typesize": 4, "blocksize": 0}
    return codec("blosc", **{**defaults, **changes})


SHARD_INDEX = struct.pack("<QQ", 0, len(RAW))
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

CODEC_CASES: dict[str, tuple[np.ndarray[Any, Any], Any, list[Any], bytes, Any]] = {
    "bytes": (NUMBERS, "int32", [LITTLE], RAW, 0),
    "transpose": (NUMBERS, "int32", [codec("transpose", order=[1, 0]), LITTLE], NUMBERS.T.tobytes(), 0),
    "gzip": (NUMBERS, "int32", [LITTLE, codec("gzip", level=6)], numcodecs.GZip(6).encode(RAW), 0),
    "zstd": (
        NUMBERS,
        "int32",
        [LITTLE, codec("zstd", level=3, checksum=False)],
        numcodecs.Zstd(3).encode(RAW),
        0,
    ),
    "blosc": (NUMBERS, "int32", [LITTLE, blosc("zstd")], numcodecs.Blosc("zstd").encode(NUMBERS), 0),
    "crc32c": (NUMBERS, "int32", [LITTLE, codec("crc32c")], checked(RAW), 0),
    "sharding_indexed": (
        NUMBERS,
        "int32",
        [codec("sharding_indexed", chunk_shape=[4, 6], codecs=[LITTLE], index_codecs=[LITTLE])],
        RAW + SHARD_INDEX,
        0,
    ),
    "vlen-utf8": (TEXT, "string", [codec("vlen-utf8")], vlen(TEXT), ""),
    "vlen-bytes": (BINARY, "bytes", [codec("vlen-bytes")], vlen(BINARY), ""),
    "numcodecs.packbits": (
        NUMBERS > 3,
        "bool",
        [{"name": "numcodecs.packbits", "configuration": {}}, BYTES],
        numcodecs.PackBits().encode(NUMBERS > 3).tobytes(),
        False,
    ),
    "numcodecs.quantize": (
        NUMBERS.astype("<f4"),
        "float32",
        [codec("numcodecs.quantize", digits=1, dtype="<f4"), LITTLE],
        NUMBERS.astype("<f4").tobytes(),
        0.0,
    ),
    "numcodecs.bitround": (
        NUMBERS.astype("<f4"),
        "float32",
        [codec("numcodecs.bitround", keepbits=20), LITTLE],
        NUMBERS.astype("<f4").tobytes(),
        0.0,
    ),
}
for _name, _instance in LEGACY.items():
    _spec, _payload = legacy(_instance)
    _array_filter = _name in ("numcodecs.delta", "numcodecs.fixedscaleoffset", "numcodecs.astype")
    CODEC_CASES[_name] = (
        NUMBERS,
        "int32",
        [_spec, LITTLE] if _array_filter else [LITTLE, _spec],
        _payload,
        0,
    )
# What v3 readers never heard of; the payload does not matter.
for _name in CODECS:
    CODEC_CASES.setdefault(_name, (NUMBERS, "int32", [{"name": _name, "configuration": {}}, LITTLE], RAW, 0))

PAIR = np.array([(1, 2.5), (3, 4.5)], dtype=[("a", "<i4"), ("b", "<f8")])
WORDS = np.array(["ab", "c"])


def length(name: str, n: int) -> dict[str, Any]:
    return {"name": name, "configuration": {"length_bytes": n}}


def time(name: str) -> dict[str, Any]:
    return {"name": name, "configuration": {"unit": "ns", "scale_factor": 1}}


NAT = -(2**63)
ZEROS = base64.b64encode(bytes(12)).decode()
DATA_TYPE_CASES: dict[str, tuple[np.ndarray[Any, Any], Any, list[Any], bytes, Any]] = {
    "fixed_length_utf32": (
        WORDS,
        length("fixed_length_utf32", 8),
        [LITTLE],
        WORDS.astype("<U2").tobytes(),
        "",
    ),
    "null_terminated_bytes": (
        WORDS.astype("S3"),
        length("null_terminated_bytes", 3),
        [BYTES],
        b"ab\0c\0\0",
        "",
    ),
    "raw_bytes": (np.array([b"ab", b"cd"], "V2"), length("raw_bytes", 2), [BYTES], b"abcd", "AAA="),
    "numpy.datetime64": (
        np.array([1, NAT]).view("M8[ns]"),
        time("numpy.datetime64"),
        [LITTLE],
        np.array([1, NAT], "<i8").tobytes(),
        NAT,
    ),
    "numpy.timedelta64": (
        np.array([1, 2]).view("m8[ns]"),
        time("numpy.timedelta64"),
        [LITTLE],
        np.array([1, 2], "<i8").tobytes(),
        NAT,
    ),
    "string": (TEXT, "string", [codec("vlen-utf8")], vlen(TEXT), ""),
    "bytes": (BINARY, "bytes", [codec("vlen-bytes")], vlen(BINARY), ""),
    "variable_length_bytes": (BINARY, "variable_length_bytes", [codec("vlen-bytes")], vlen(BINARY), ""),
    "structured": (
        PAIR,
        {"name": "structured", "configuration": {"fields": [["a", "int32"], ["b", "float64"]]}},
        [LITTLE],
        PAIR.tobytes(),
        ZEROS,
    ),
    "struct": (
        PAIR,
        {
            "name": "struct",
            "configuration": {
                "fields": [{"name": "a", "data_type": "int32"}, {"name": "b", "data_type": "float64"}]
            },
        },
        [LITTLE],
        PAIR.tobytes(),
        {"a": 0, "b": 0.0},
    ),
}
for _name in DATA_TYPES:
    if _name not in DATA_TYPE_CASES:
        _values = (np.arange(6) % 2).astype(_name)
        _fill: Any = {"b": False, "c": [0.0, 0.0], "f": 0.0}.get(_values.dtype.kind, 0)
        DATA_TYPE_CASES[_name] = (
            _values,
            _name,
            [LITTLE] if _values.itemsize > 1 else [BYTES],
            _values.tobytes(),
            _fill,
        )


def reads(tmp_path: Path, case: tuple[Any, ...], reader: str) -> bool:
    values, data_type, codecs, payload, fill = case
    root = tmp_path / "a"
    write(root, document(values.shape, data_type, codecs, fill), bytes(payload))
    read = read_zarr if reader.startswith("zarr") else read_tensorstore
    try:
        seen = read(root)
    except Exception:  # noqa: BLE001 - each reader has its own errors
        return False
    assert native(seen) == native(values), "it reads, but not the values"
    return True


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", CODECS)
def test_who_reads_a_codec_is_what_the_table_says(name: str, reader: str, tmp_path: Path) -> None:
    if installed(reader):
        assert reads(tmp_path, CODEC_CASES[name], reader) is (reader in CODECS[name].readers)


@pytest.mark.parametrize("reader", READERS)
def test_only_the_newer_zarr_python_reads_structs_in_shards(reader: str, tmp_path: Path) -> None:
    values, data_type, codecs, payload, fill = DATA_TYPE_CASES["structured"]
    shard = codec("sharding_indexed", chunk_shape=list(values.shape), codecs=codecs, index_codecs=[LITTLE])
    case = (values, data_type, [shard], payload + struct.pack("<QQ", 0, len(payload)), fill)
    if installed(reader):
        assert reads(tmp_path, case, reader) is (reader == ZARR_NEW)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", DATA_TYPES)
def test_who_reads_a_data_type_is_what_the_table_says(name: str, reader: str, tmp_path: Path) -> None:
    if installed(reader):
        assert reads(tmp_path, DATA_TYPE_CASES[name], reader) is (reader in DATA_TYPES[name].readers)


def test_one_zarr_python_and_tensorstore_of_the_table_are_installed() -> None:
    assert sum(bool(installed(reader)) for reader in READERS) == 2, "bring the table to these versions"


LEVELS = {
    "gzip": (
        codec("gzip", level=0),
        codec("gzip", level=9),
        codec("gzip", level=-1),
        codec("gzip", level=10),
    ),
    "zstd": (
        codec("zstd", level=-131072, checksum=False),
        codec("zstd", level=22, checksum=False),
        codec("zstd", level=-131073, checksum=False),
        codec("zstd", level=23, checksum=False),
    ),
    "blosc": (
        blosc("lz4", clevel=0),
        blosc("lz4", clevel=9),
        blosc("lz4", clevel=10),
        blosc("lz4", typesize=256),
    ),
}


@pytest.mark.parametrize("name", LEVELS)
def test_all_readers_take_what_is_within_limits_and_some_refuse_what_is_not(
    name: str, tmp_path: Path
) -> None:
    payload = CODEC_CASES[name][3]
    here = [reader for reader in READERS if installed(reader)]
    for position, spec in enumerate(LEVELS[name]):
        case = (NUMBERS, "int32", [LITTLE, spec], payload, 0)
        taken = all(reads(tmp_path / f"{position}{reader}", case, reader) for reader in here)
        inside = limits_problem(CodecSpec.from_json(spec)) is None
        assert taken is inside is (position < 2)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (codec("gzip", level=-1), codec("gzip", level=6)),
        (codec("gzip", level=12), codec("gzip", level=9)),
        (codec("zstd", level=-200000), codec("zstd", level=-131072)),
        (blosc("lz4", typesize=300), blosc("lz4", typesize=1)),
        (codec("numcodecs.zlib", level=-1), codec("numcodecs.zlib", level=-1)),
    ],
    ids=["gzip default", "gzip high", "zstd low", "blosc large items", "others as they are"],
)
def test_what_only_steers_the_encoder_is_brought_within_limits(before: Any, after: Any) -> None:
    assert within_limits(CodecSpec.from_json(before)) == CodecSpec.from_json(after)
