"""Stored bytes under zarr-python's names: chunks written as Zarr v2 does, read through v3 documents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
from tests.support.documents import layout, write_one_chunk
from tests.support.readers import by_zarr_python

from zarrlift.archive.nodes import ArrayNode
from zarrlift.core.codec_spec import CodecSpec
from zarrlift.core.data_types.v3 import DataType
from zarrlift.planning.destination import destination_layout
from zarrlift.planning.zarr_json import array_document
from zarrlift.recipe.recipe import ArrayRecipe

SHAPE = (4, 6)
IN_TENTHS = np.round(np.linspace(-9, 9, 24), 1).reshape(SHAPE)
WHOLE = np.arange(-12, 12).reshape(SHAPE) * 3


def cases(order: str) -> dict[str, tuple[np.ndarray[Any, Any], list[Any], bool]]:
    """Values, filters and whether zarr-python reads them, for arrays of one byte order."""
    other = {"<": ">", ">": "<"}[order]
    little = order == "<"
    i4, f4, f8 = f"{order}i4", f"{order}f4", f"{order}f8"
    n, x, y = WHOLE.astype(i4), IN_TENTHS.astype(f4), IN_TENTHS.astype(f8)
    filters = numcodecs
    result = {
        "no filter": (n, [], True),
        "delta": (n, [filters.Delta(i4)], True),
        "delta to fewer bytes": (n, [filters.Delta(i4, f"{order}i2")], True),
        "delta to the other byte order": (n, [filters.Delta(i4, f"{other}i2")], True),
        "delta to single bytes": (n, [filters.Delta(i4, "|i1")], True),
        "delta of the other byte order": (n, [filters.Delta(f"{other}i4")], False),
        "delta of another data type": (n, [filters.Delta(f4)], False),
        "delta of fewer bytes": (n, [filters.Delta("|u1")], False),
        "delta of unsigned numbers": (n, [filters.Delta(f"{order}u4")], True),
        "delta of times": (n.astype(f"{order}i8").view(f"{order}M8[s]"), [filters.Delta(f"{order}i8")], True),
        "delta of booleans": (n > 3, [filters.Delta("|u1")], False),
        "fixedscaleoffset": (y, [filters.FixedScaleOffset(0, 10, f8, f"{order}i2")], True),
        "fixedscaleoffset to the other byte order": (
            y,
            [filters.FixedScaleOffset(0, 10, f8, f"{other}i2")],
            True,
        ),
        "quantize": (x, [filters.Quantize(3, f4)], True),
        "quantize to another type": (x, [filters.Quantize(3, f4, f"{order}f2")], False),
        "astype": (y, [filters.AsType(f4, f8)], True),
        "quantize to another type, and astype": (
            x,
            [filters.Quantize(3, f4, f"{other}f2"), filters.AsType(f4, f"{other}f2")],
            True,
        ),
        "astype to the other byte order": (y, [filters.AsType(f"{other}f4", f8)], True),
        "astype to more bytes": ((n > 3).view("u1"), [filters.AsType(f"{other}i2", "|u1")], False),
        "astype and delta of other sizes": (y, [filters.AsType(f4, f8), filters.Delta(f"{order}i2")], False),
        "packbits": (n > 3, [filters.PackBits()], True),
        "packbits and delta": (n > 3, [filters.PackBits(), filters.Delta("|u1")], True),
        "delta and packbits": (n > 3, [filters.Delta("|u1"), filters.PackBits()], False),
        "delta and shuffle": (n, [filters.Delta(i4), filters.Shuffle(4)], True),
        "two array filters": (y, [filters.FixedScaleOffset(0, 10, f8, i4), filters.Delta(i4)], True),
        "two array filters of other byte orders": (
            y,
            [filters.FixedScaleOffset(0, 10, f8, f"{other}i4"), filters.Delta(f"{other}i4", i4)],
            True,
        ),
        "a filter and bitround": (y, [filters.FixedScaleOffset(0, 10, f8, "<f4"), filters.BitRound(9)], True),
        "an array filter behind a bytes filter": (n, [filters.Shuffle(4), filters.Delta("|u1")], False),
        "shuffle": (n, [filters.Shuffle(4)], True),
        "shuffle of other items": (n, [filters.Shuffle(8)], True),
        "zlib as a filter": (n, [filters.Zlib(1)], True),
        "crc32": (n, [filters.CRC32()], True),
        "crc32 at the end": (n, [filters.CRC32(location="end")], True),
        "crc32c at the start": (n, [filters.checksum32.CRC32C(location="start")], True),
        "adler32": (n, [filters.Adler32()], True),
        "fletcher32": (n, [filters.Fletcher32()], True),
        "jenkins_lookup3": (n, [filters.JenkinsLookup3()], True),
        "lz4": (n, [filters.LZ4()], True),
        "bz2": (n, [filters.BZ2()], True),
        "lzma": (n, [filters.LZMA()], True),
        "zlib level -1": (n, [filters.Zlib(-1)], True),
        "delta and lz4": (n, [filters.Delta(i4), filters.LZ4()], True),
    }
    if little:
        result["bitround"] = (x, [filters.BitRound(9)], True)  # encodes little-endian floats only
    return result


ALL = [
    pytest.param(values, chain, order, reads, id=f"{name}, {byte_order}, {order}")
    for byte_order, order in ("<C", ">F")
    for name, (values, chain, reads) in cases(byte_order).items()
]


def node(values: np.ndarray[Any, Any], codecs: list[Any], order: str) -> ArrayNode:
    endian = "big" if values.dtype.str[0] == ">" else "little"
    specs = [CodecSpec("bytes", {"endian": endian} if values.itemsize > 1 else {})]
    if order == "F":
        specs.insert(0, CodecSpec("transpose", {"order": [1, 0]}))
    for codec in codecs:
        configuration = dict(codec.get_config())
        specs.append(CodecSpec(f"numcodecs.{configuration.pop('id')}", configuration))
    fill = False if values.dtype == bool else 0
    of = layout(*specs, shape=SHAPE, chunks=SHAPE, data_type=DataType.from_numpy(values.dtype), fill=fill)
    return ArrayNode(path="a", layout=of)


def native(array: np.ndarray[Any, Any]) -> bytes | list[Any]:
    """What is compared: bits in native order, or Python values of variable length."""
    if array.dtype.kind in "OTU":
        return [value if isinstance(value, bytes) else str(value) for value in array.ravel().tolist()]
    return array.astype(array.dtype.newbyteorder("=")).tobytes()


@pytest.mark.parametrize(("values", "codecs", "order", "reads"), ALL)
def test_what_is_kept_reads_back_with_the_same_values(
    values: np.ndarray[Any, Any], codecs: list[Any], order: str, reads: bool, tmp_path: Path
) -> None:
    source = node(values, codecs, order)
    kept, problems = destination_layout(source, ArrayRecipe(), in_place=True)
    refused = [problem for problem in problems if problem.severity == "refusal"]
    assert (not refused) is reads
    if refused:
        return
    assert kept == source.layout
    payload: Any = np.asarray(values, order=order)
    for codec in codecs:
        payload = codec.encode(payload)
    if not codecs:
        payload = payload.tobytes(order="A")
    stored = bytes(numcodecs.compat.ensure_bytes(payload))
    write_one_chunk(tmp_path / "a", array_document(kept, {}), stored)
    for codec in reversed(codecs):
        payload = codec.decode(payload)
    decoded = np.frombuffer(numcodecs.compat.ensure_bytes(payload), dtype=values.dtype)
    seen = by_zarr_python(tmp_path / "a", "").values
    assert native(seen) == native(decoded.reshape(SHAPE, order=order))


@pytest.mark.parametrize(
    ("data_type", "chain", "words"),
    [
        ("object", [CodecSpec("numcodecs.json2")], "objects have no v3 name"),
        ("object", [CodecSpec("numcodecs.vlen-array")], "objects have no v3 name"),
        ("string", [CodecSpec("numcodecs.object-categorize", {"labels": ["a"]})], "objects have no v3 name"),
        (
            "int32",
            [CodecSpec("bytes", {"endian": "little"}), CodecSpec("numcodecs.bitround", {"keepbits": 3})],
            "bitround of signed integers",
        ),
        (
            "int32",
            [CodecSpec("bytes", {"endian": "little"}), CodecSpec("numcodecs.own")],
            "no v3 reader supports",
        ),
        (
            "fixed_length_utf32",
            [CodecSpec("bytes", {"endian": "little"}), CodecSpec("numcodecs.categorize", {"labels": ["a"]})],
            "no v3 reader supports",
        ),
        (
            "int32",
            [CodecSpec("bytes", {"endian": "little"}), CodecSpec("blosc", {"cname": "snappy", "clevel": 5})],
            "cname",
        ),
        ("structured", [CodecSpec("numpy_bytes", {"dtype": [["a", ">i4"]]})], "not all little-endian"),
        ("structured", [CodecSpec("bytes", {"endian": "big"})], "3.1.6 reads big-endian structs wrongly"),
        (
            "string",
            [CodecSpec("vlen-utf8"), CodecSpec("numcodecs.delta", {"dtype": "|u1"})],
            "array filters of text of variable length",
        ),
    ],
)
def test_what_v3_cannot_name_as_stored_is_refused_by_name(
    data_type: str, chain: list[Any], words: str
) -> None:
    named = {
        "structured": {"name": "structured", "configuration": {"fields": [["a", "int32"]]}},
        "fixed_length_utf32": {"name": "fixed_length_utf32", "configuration": {"length_bytes": 8}},
    }.get(data_type, data_type)
    fill = "" if data_type != "int32" else 0
    of = layout(*chain, shape=(2,), chunks=(2,), data_type=DataType.from_json(named), fill=fill)
    same, problems = destination_layout(
        ArrayNode(path="a", layout=of), ArrayRecipe(codecs="keep"), in_place=False
    )
    assert same is of
    assert any(words in problem.message for problem in problems if problem.severity == "refusal")
    assert all("without --codecs keep" in (problem.advice or "") for problem in problems)
