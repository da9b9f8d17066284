"""N5's `lz4`: Java's block stream as lz4-java 1.8.0 writes it, and z5's bare blocks."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zarrlift.core.codec_spec import CodecSpec
from zarrlift.core.codecs.base import HeadAndTail, Size
from zarrlift.core.codecs.registry import compile_bytes_codec
from zarrstack.core.errors import ChunkError, MetadataError, ZarrstackError

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


@pytest.mark.parametrize("case", JAVA)
def test_it_reads_what_java_writes_and_writes_the_same_bytes(case):
    block_size, decoded, stored = JAVA[case]
    codec = compile_bytes_codec(CodecSpec("lz4_block", {"blockSize": block_size}))
    size = Size(len(decoded), exact=True)
    payload = bytes.fromhex(stored)

    assert bytes(codec.decode(payload, size)) == decoded
    assert codec.check(HeadAndTail.of(payload), size)
    assert bytes(codec.encode(decoded)) == payload


@given(st.binary(max_size=3000), st.sampled_from((64, 100, 1024, 1 << 16)), st.booleans())
def test_what_is_encoded_decodes_to_the_same(data, block_size, exact):
    codec = compile_bytes_codec(CodecSpec("lz4_block", {"blockSize": block_size}))
    payload = bytes(codec.encode(data))
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
    payload = bytes(BARE.encode(data))
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
        CODEC.decode(bytes(BARE.encode(DECODED)), EXACT)
