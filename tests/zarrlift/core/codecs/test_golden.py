"""Every bytes-to-bytes codec reads what numcodecs or Java writes, and numcodecs reads what it writes."""

from __future__ import annotations

import struct

import numcodecs
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from xxhash import xxh32_intdigest

from zarrlift.core.codec_spec import CodecSpec
from zarrlift.core.codec_table import TABLE
from zarrlift.core.codecs.base import HeadAndTail, Size
from zarrlift.core.codecs.registry import compile_bytes_codec
from zarrstack.core.errors import CastError, ChunkError, MetadataError, UnsupportedError, ZarrstackError

RAW_LZMA = [{"id": 3, "dist": 4}, {"id": 33, "preset": 1}]
NUMBERS = np.arange(-600, 600, 3, dtype="<i4")
FLOATS = np.array([0.5, -0.5, 1.25, 96.0, 0.0], "<f8")

# Name here, configuration, numcodecs' id, an array both must agree on.
CASES = [
    ("gzip", {"level": 5}, "gzip", NUMBERS),
    ("gzip", {"level": -1}, "gzip", NUMBERS),
    ("zstd", {"level": 3}, "zstd", NUMBERS),
    ("zstd", {"level": -7, "checksum": True}, "zstd", NUMBERS),
    ("numcodecs.zlib", {"level": 9}, "zlib", NUMBERS),
    ("numcodecs.bz2", {"level": 1}, "bz2", NUMBERS),
    ("numcodecs.lzma", {}, "lzma", NUMBERS),
    ("numcodecs.lzma", {"format": 1, "check": -1, "preset": 9, "filters": None}, "lzma", NUMBERS),
    ("numcodecs.lzma", {"format": 2, "preset": 1}, "lzma", NUMBERS),
    ("numcodecs.lzma", {"format": 3, "filters": RAW_LZMA}, "lzma", NUMBERS),
    ("numcodecs.lz4", {"acceleration": 2}, "lz4", NUMBERS),
    *(
        ("blosc", {"cname": name, "clevel": 5, "shuffle": shuffle, "blocksize": 0}, "blosc", NUMBERS)
        for name in numcodecs.blosc.list_compressors()
        for shuffle in (-1, 0, 1, 2)
    ),
    ("blosc", {"cname": "lz4", "clevel": 0, "shuffle": 1, "blocksize": 256}, "blosc", NUMBERS),
    ("numcodecs.crc32", {}, "crc32", NUMBERS),
    ("numcodecs.crc32", {"location": "end"}, "crc32", NUMBERS),
    ("numcodecs.crc32c", {}, "crc32c", NUMBERS),
    ("numcodecs.crc32c", {"location": "start"}, "crc32c", NUMBERS),
    ("crc32c", {}, "crc32c", NUMBERS),
    ("numcodecs.adler32", {}, "adler32", NUMBERS),
    ("numcodecs.adler32", {"location": "end"}, "adler32", NUMBERS),
    ("numcodecs.fletcher32", {}, "fletcher32", NUMBERS),
    ("numcodecs.fletcher32", {}, "fletcher32", np.arange(7, dtype="u1")),
    ("numcodecs.jenkins_lookup3", {"initval": 3, "prefix": None}, "jenkins_lookup3", NUMBERS),
    ("numcodecs.shuffle", {"elementsize": 4}, "shuffle", NUMBERS),
    ("numcodecs.shuffle", {"elementsize": 1}, "shuffle", NUMBERS),
    ("numcodecs.base64", {}, "base64", NUMBERS),
    ("numcodecs.delta", {"dtype": "<i4"}, "delta", NUMBERS),
    ("numcodecs.delta", {"dtype": "<i4", "astype": "<i2"}, "delta", NUMBERS),
    ("numcodecs.delta", {"dtype": ">i2", "astype": "|i1"}, "delta", np.arange(-50, 50, dtype=">i2")),
    ("numcodecs.delta", {"dtype": "<u8"}, "delta", np.array([2**63, 0, 2**64 - 1], "<u8")),
    (
        "numcodecs.fixedscaleoffset",
        {"offset": -1, "scale": 4, "dtype": "<f8", "astype": "<u2"},
        "fixedscaleoffset",
        FLOATS,
    ),
    ("numcodecs.quantize", {"digits": 3, "dtype": ">f8", "astype": ">f4"}, "quantize", FLOATS.astype(">f8")),
    ("numcodecs.bitround", {"keepbits": 5}, "bitround", np.arange(9, dtype="<f4") / 8),
    ("numcodecs.astype", {"encode_dtype": ">f4", "decode_dtype": "<f8"}, "astype", FLOATS),
    ("numcodecs.packbits", {}, "packbits", np.arange(13) % 3 == 0),
    ("numcodecs.packbits", {}, "packbits", np.arange(16) % 3 == 0),
    (
        "numcodecs.categorize",
        {"labels": ["ä", "bc"], "dtype": "<U3", "astype": "|u1"},
        "categorize",
        np.array(["bc", "", "ä", "ä"], "<U3"),
    ),
]


@pytest.mark.parametrize(("name", "configuration", "numcodec", "array"), CASES)
def test_it_reads_what_numcodecs_writes_and_the_other_way_round(name, configuration, numcodec, array):
    theirs = numcodecs.get_codec({"id": numcodec, **configuration})
    ours = compile_bytes_codec(CodecSpec(name, configuration), array.dtype)
    decoded = Size(array.nbytes, exact=True)

    payload = numcodecs.compat.ensure_bytes(theirs.encode(array))
    assert bytes(memoryview(ours.decode(payload, decoded))) == array.tobytes()
    assert ours.check(HeadAndTail.of(payload), decoded)

    payload = bytes(memoryview(ours.encode(array.view("u1"))))
    assert numcodecs.compat.ensure_bytes(theirs.decode(payload)) == array.tobytes()
    assert ours.check(HeadAndTail.of(payload), decoded)
    size = ours.encoded_size(decoded)
    assert len(payload) == size.at_most if size.exact else len(payload) <= size.at_most


LOSSLESS = [
    CodecSpec("gzip", {"level": 1}),
    CodecSpec("zstd", {"level": 1, "checksum": True}),
    CodecSpec("blosc", {"cname": "zstd", "clevel": 1, "shuffle": "shuffle", "typesize": 8}),
    CodecSpec("blosc", {"cname": "blosclz", "clevel": 9, "shuffle": "bitshuffle", "typesize": 3}),
    *(
        CodecSpec(f"numcodecs.{name}")
        for name in "zlib bz2 lzma lz4 crc32 crc32c adler32 fletcher32 jenkins_lookup3".split()
    ),
    CodecSpec("crc32c"),
    CodecSpec("numcodecs.shuffle", {"elementsize": 1}),
]


MAGIC = "4c5a34426c6f636b"

# What lz4-java 1.8.0 wrote, through `new LZ4BlockOutputStream(out, blockSize)`.
JAVA = {
    "packed, packed and stored": (
        64,
        bytes(70) + bytes(range(60)),
        MAGIC + "200b000000400000000499fa031f00010027500000000000"
        + MAGIC + "203f00000040000000ffee6b0f12000100f02a" + bytes(range(1, 58)).hex()
        + MAGIC + "100200000002000000079f40063a3b"
        + MAGIC + "10000000000000000000000000",
    ),
    "nothing": (1 << 16, b"", MAGIC + "16000000000000000000000000"),
    "zeros": (
        1 << 16,
        bytes(300),
        MAGIC + "260c0000002c0100006941070e1f000100ff14500000000000" + MAGIC + "16000000000000000000000000",
    ),
}  # fmt: skip
WRITTEN = [
    (CodecSpec("lz4_block", {"blockSize": size}), value, stored) for size, value, stored in JAVA.values()
]
"""What others than numcodecs wrote: the codec, a value, and its payload in hexadecimal digits."""


@pytest.mark.parametrize(("spec", "value", "stored"), WRITTEN, ids=lambda each: str(each)[:40])
def test_it_reads_what_its_writer_wrote(spec, value, stored):
    codec, payload, size = compile_bytes_codec(spec), bytes.fromhex(stored), Size(len(value), exact=True)
    assert bytes(codec.decode(payload, size)) == value
    assert codec.check(HeadAndTail.of(payload), size)


OTHERS = {"cast_value", "lz4_bare", "numcodecs.bitround", "scale_offset"}
"""Codecs that tests of their own try."""
BUFFERS = {
    name
    for name, row in TABLE.items()
    if row.made_by and row.kind != "serializer" and not (row.package or row.like or name in OTHERS)
}


def test_every_codec_is_tried_here() -> None:
    tried = {case[0] for case in CASES} | {case[0].name for case in WRITTEN}
    assert BUFFERS - tried == set(), "add what numcodecs encodes to CASES, or what others wrote to WRITTEN"


@pytest.mark.parametrize("spec", LOSSLESS, ids=str)
@given(data=st.binary(max_size=300))
def test_any_bytes_come_back_the_empty_ones_too(spec, data):
    assume(data or spec.name != "numcodecs.fletcher32")  # numcodecs fails, so no archive has it
    codec = compile_bytes_codec(spec)
    payload = codec.encode(data)
    for decoded in (Size(len(data), exact=True), Size(len(data) + 7, exact=False)):
        assert bytes(memoryview(codec.decode(payload, decoded))) == data
        assert codec.check(HeadAndTail.of(payload), decoded)
    assert payload is data or bytes(memoryview(codec.encode(data))) == bytes(memoryview(payload))


@pytest.mark.parametrize(
    ("spec", "values"),
    [
        (CodecSpec("numcodecs.delta", {"dtype": "<f4"}), np.array([1e8, 1.1, 3.3], "<f4")),
        (CodecSpec("numcodecs.delta", {"dtype": "<i4", "astype": "|i1"}), np.array([0, 1000], "<i4")),
        (CodecSpec("numcodecs.astype", {"encode_dtype": "<f4", "decode_dtype": "<f8"}), np.array([0.1])),
        (CodecSpec("numcodecs.quantize", {"digits": 1, "dtype": "<f8"}), np.array([0.123])),
        (CodecSpec("numcodecs.bitround", {"keepbits": 3}), np.array([0.123])),
        (
            CodecSpec(
                "numcodecs.fixedscaleoffset", {"offset": 0, "scale": 1, "dtype": "<f8", "astype": "<i4"}
            ),
            np.array([-0.0]),
        ),
        (CodecSpec("numcodecs.packbits"), np.array([2], "u1")),
    ],
    ids=lambda value: str(value) if isinstance(value, CodecSpec) else "",
)
def test_a_filter_refuses_to_write_what_it_would_change(spec, values):
    with pytest.raises(CastError):
        compile_bytes_codec(spec, values.dtype).encode(values.view("u1"))


@given(bits=st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=40))
def test_filters_keep_every_bit_they_read(bits):
    # Whatever lies in storage decodes as numcodecs decodes it, NaN payloads included.
    stored = np.array(bits, "<u4")
    for spec in (
        CodecSpec("numcodecs.delta", {"dtype": ">i4"}),
        CodecSpec("numcodecs.delta", {"dtype": "<f4"}),
        CodecSpec("numcodecs.quantize", {"digits": 1, "dtype": "<f4"}),
        CodecSpec("numcodecs.astype", {"encode_dtype": ">f4", "decode_dtype": "<f8"}),
        CodecSpec("numcodecs.fixedscaleoffset", {"offset": 10, "scale": 3, "dtype": "<f8", "astype": "<i4"}),
    ):
        codec = compile_bytes_codec(spec)
        with np.errstate(all="ignore"):
            name = spec.name.removeprefix("numcodecs.")
            theirs = numcodecs.get_codec({"id": name, **spec.configuration}).decode(stored)
        ours = codec.decode(stored.view("u1"), Size(theirs.nbytes, exact=True))
        assert bytes(memoryview(ours)) == theirs.tobytes()


@pytest.mark.parametrize("name", ["numcodecs.sz3", "imagecodecs_jpegxr", "bytes"])
def test_an_unknown_codec_is_refused_with_its_name_and_configuration(name):
    with pytest.raises(UnsupportedError) as refusal:
        compile_bytes_codec(CodecSpec(name, {"level": 3}))
    assert name in refusal.value.problem.found
    assert '"level":3' in refusal.value.problem.found


# N5's `lz4`: Java's block stream as lz4-java 1.8.0 writes it, and z5's bare blocks.

STREAM = bytes.fromhex(JAVA["packed, packed and stored"][2])
DECODED = JAVA["packed, packed and stored"][1]
EXACT = Size(len(DECODED), exact=True)
CODEC = compile_bytes_codec(CodecSpec("lz4_block", {"blockSize": 64}))

BARE = compile_bytes_codec(CodecSpec("lz4_bare"))


def header(
    *,
    method: int = 0x20,
    level: int = 0,
    packed: int = 1,
    size: int = 1,
    checksum: int = 0,
    magic=b"LZ4Block",
) -> bytes:
    """A block's header."""
    return struct.pack("<8sBiii", magic, method | level, packed, size, checksum)


END = header(method=0x10, packed=0, size=0)


def java_stream(data: bytes, block_size: int) -> bytes:
    """`data` as LZ4BlockOutputStream writes it: each block packed, where that makes it smaller."""
    level = max(0, (block_size - 1).bit_length() - 10)
    stream = b""
    for start in range(0, len(data), block_size):
        block = data[start : start + block_size]
        packed = numcodecs.lz4.compress(block)[4:]
        method, body = (0x20, packed) if len(packed) < len(block) else (0x10, block)
        checksum = xxh32_intdigest(block, 0x9747B28C) & 0x0FFFFFFF
        sizes = {"packed": len(body), "size": len(block), "checksum": checksum}
        stream += header(method=method, level=level, **sizes) + body
    return stream + header(method=0x10, level=level, packed=0, size=0)


def test_java_writes_these_streams():
    for block_size, value, stored in JAVA.values():
        assert java_stream(value, block_size).hex() == stored


@given(st.binary(max_size=3000), st.sampled_from((64, 100, 1024, 1 << 16)), st.booleans())
def test_it_reads_blocks_of_any_size(data, block_size, exact):
    codec = compile_bytes_codec(CodecSpec("lz4_block", {"blockSize": block_size}))
    payload = java_stream(data, block_size)
    size = Size(len(data), exact=exact)
    assert bytes(codec.decode(payload, size)) == data
    assert codec.check(HeadAndTail.of(payload), size)
    assert len(payload) <= codec.encoded_size(size).at_most


def test_a_stream_may_hold_blocks_of_another_size_than_the_metadata_says():
    codec = compile_bytes_codec(CodecSpec("lz4_block"))
    assert bytes(codec.decode(STREAM, EXACT)) == DECODED


BAD = {
    "an empty payload": b"",
    "no magic": b"x" * 60,
    "an unknown method": header(method=0x30) + b"\0" + END,
    "a negative length": header(packed=-1) + END,
    "a negative size": header(size=-5) + END,
    "a block larger than its level allows": header(packed=100, size=1025) + bytes(100) + END,
    "a stored block of two lengths": header(method=0x10, packed=5, size=6) + bytes(5) + END,
    "a size without bytes": header(packed=0, size=9) + END,
    "an end mark with a checksum": header(method=0x10, packed=0, size=0, checksum=1),
    "more than LZ4 can pack": header(packed=1, size=256) + b"\0" + END,
    "no end mark": STREAM[:-21],
    "a block cut short": STREAM[:40],
    "bytes behind the end": STREAM + b"\0",
    "a wrong checksum": STREAM[:17] + b"\0" + STREAM[18:],
    "a damaged block": STREAM[:22] + b"\xff" + STREAM[23:],
    "two streams": STREAM + STREAM,
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("exact", [True, False], ids=["exact", "bounded"])
def test_damage_is_a_chunk_error(case, exact):
    with pytest.raises(ChunkError) as caught:
        CODEC.decode(BAD[case], Size(len(DECODED), exact=exact))
    assert caught.value.problem.message


def test_sizes_are_added_up_before_anything_is_unpacked():
    bomb = header(method=0x20, level=15, packed=140000, size=1 << 25) + bytes(140000)
    with pytest.raises(ChunkError, match="more than its chunk holds"):
        CODEC.decode(bomb * 100, EXACT)
    with pytest.raises(ChunkError, match="more than its chunk holds"):
        CODEC.check(HeadAndTail.of(bomb), EXACT)


def test_a_stream_that_unpacks_to_less_is_refused_where_the_size_is_known():
    with pytest.raises(ChunkError, match="wrong size"):
        CODEC.decode(STREAM, Size(len(DECODED) + 1, exact=True))


def test_a_stream_without_its_end_is_seen_without_decoding():
    with pytest.raises(ChunkError, match="end mark"):
        CODEC.check(HeadAndTail.of(STREAM[:-4]), EXACT)


@pytest.mark.parametrize("size", [63, (1 << 25) + 1, "64", None, True])
def test_block_sizes_are_those_that_java_takes(size):
    with pytest.raises(MetadataError):
        compile_bytes_codec(CodecSpec("lz4_block", {"blockSize": size}))


@given(st.binary(max_size=80), st.integers(0, len(STREAM)), st.integers(0, 300), st.booleans())
def test_nothing_but_our_errors_escapes(data, place, size, exact):
    for payload in (data, STREAM[:place] + data, STREAM[:place] + data + STREAM[place + len(data) :]):
        for codec in (CODEC, BARE):
            try:
                result = codec.decode(payload, Size(size, exact=exact))
            except ZarrstackError:
                continue
            assert len(result) <= size


# ----- bare blocks


def test_a_bare_block_is_what_z5_writes():
    # z5py 3.0.2, behind the header of a truncated block of 3 x 2 elements
    payload = bytes.fromhex("c00019001a001b002000210022")
    expected = np.array([25, 26, 27, 32, 33, 34], ">u2").tobytes()
    assert bytes(BARE.decode(payload, Size(12, exact=True))) == expected


@given(st.binary(max_size=2000))
def test_a_bare_block_needs_the_size_from_outside(data):
    payload = numcodecs.lz4.compress(data)[4:]
    size = Size(len(data), exact=True)
    assert bytes(BARE.decode(payload, size)) == data
    assert BARE.check(HeadAndTail.of(payload), size)
    assert len(payload) <= BARE.encoded_size(size).at_most
    with pytest.raises(ChunkError, match="not known"):
        BARE.decode(payload, Size(len(data), exact=False))
    with pytest.raises(ChunkError):
        BARE.decode(payload, Size(len(data) + 1, exact=True))


def test_a_java_stream_taken_for_a_bare_block_is_no_silent_mistake():
    with pytest.raises(ChunkError, match="z5py"):
        CODEC.decode(numcodecs.lz4.compress(DECODED)[4:], EXACT)
