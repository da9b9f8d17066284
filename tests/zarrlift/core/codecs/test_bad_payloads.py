"""Whatever is wrong with a payload is a ChunkError, found before memory is spent on it."""

from __future__ import annotations

import bz2
import contextlib
import functools
import gzip
import itertools
import lzma
import struct
import zlib

import numcodecs
import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from tests.support.chances import memory_below
from tests.zarrlift.core.codecs.test_golden import BUFFERS

from zarrlift.core.codec_spec import CodecSpec
from zarrlift.core.codec_table import TABLE
from zarrlift.core.codecs.base import HeadAndTail, Size
from zarrlift.core.codecs.registry import compile_bytes_codec
from zarrstack.core.errors import ChunkError, MetadataError, UnsupportedError

MEGABYTE = 1 << 20
BOMB_SIZE = 128 * MEGABYTE


@functools.cache
def _bomb(name: str) -> bytes:
    return BOMBS[name]()


def _in_pieces(compressor) -> bytes:
    zeros = bytes(MEGABYTE)
    pieces = [compressor.compress(zeros) for _ in range(BOMB_SIZE // MEGABYTE)]
    return b"".join((*pieces, compressor.flush()))


def _raw_zstd_frame_of_zeros(count: int) -> bytes:
    # Blocks of type 1 (RLE) hold 128 KiB in four bytes; the header states no size.
    block = (131072 << 3 | 2).to_bytes(3, "little") + b"\0"
    last = (131072 << 3 | 3).to_bytes(3, "little") + b"\0"
    return b"\x28\xb5\x2f\xfd\x00\x38" + block * (count // 131072 - 1) + last


BOMBS = {
    "numcodecs.zlib": lambda: _in_pieces(zlib.compressobj(9)),
    "gzip": lambda: _in_pieces(zlib.compressobj(9, zlib.DEFLATED, 31)),
    "numcodecs.bz2": lambda: _in_pieces(bz2.BZ2Compressor(9)),
    "numcodecs.lzma": lambda: _in_pieces(lzma.LZMACompressor(preset=0)),
    "zstd": lambda: _raw_zstd_frame_of_zeros(BOMB_SIZE),
    "blosc": lambda: struct.pack("<BBBBIII", 2, 1, 0x31, 4, 1 << 30, 1 << 20, 80) + bytes(64),
    "numcodecs.lz4": lambda: struct.pack("<I", 1 << 30) + bytes(64),
}


@pytest.mark.slow(one_in=7)
@pytest.mark.parametrize("name", BOMBS)
@pytest.mark.parametrize("exact", [True, False], ids=["exact", "bounded"])
def test_a_bomb_is_refused_at_the_cost_of_its_chunk(name, exact):
    codec = compile_bytes_codec(CodecSpec(name))
    bomb = _bomb(name)
    with memory_below(4 * MEGABYTE + len(bomb)), pytest.raises(ChunkError):
        codec.decode(bomb, Size(MEGABYTE, exact=exact))


def test_a_zstd_frame_that_states_its_size_is_refused_by_its_header():
    bomb = zstandard.ZstdCompressor().compress(bytes(BOMB_SIZE // 8))
    codec = compile_bytes_codec(CodecSpec("zstd"))
    with pytest.raises(ChunkError, match="states a size"):
        codec.decode(bomb, Size(MEGABYTE, exact=True))
    with pytest.raises(ChunkError, match="states a size"):
        codec.check(HeadAndTail.of(bomb), Size(MEGABYTE, exact=True))


def test_a_zstd_frame_that_a_later_format_wrote_is_refused():
    """RFC 8878, 3.1.1.1.1.4: a decoder must check that the reserved bit is zero."""
    frame = bytearray(zstandard.ZstdCompressor().compress(b"abc"))
    frame[4] |= 8
    with pytest.raises(ChunkError, match="reserved bit"):
        compile_bytes_codec(CodecSpec("zstd")).decode(bytes(frame), Size(3, exact=True))


DATA = np.arange(3000, dtype="<i4").tobytes()
SHUFFLES = ("noshuffle", "bitshuffle")
SPECS = [
    *(CodecSpec(name) for name in ("gzip", "zstd", "crc32c")),
    *(
        CodecSpec("blosc", {"cname": cname, "shuffle": shuffle, "typesize": 4})
        for cname, shuffle in zip(numcodecs.blosc.list_compressors(), itertools.cycle(SHUFFLES))
    ),
    *(
        CodecSpec(f"numcodecs.{name}")
        for name in (
            *("zlib", "bz2", "lzma", "lz4", "crc32", "crc32c", "adler32", "fletcher32"),
            *("jenkins_lookup3", "base64", "shuffle", "packbits"),
        )
    ),
    CodecSpec("numcodecs.crc32", {"location": "end"}),
    CodecSpec("numcodecs.crc32c", {"location": "start"}),
    CodecSpec("numcodecs.delta", {"dtype": "<i4"}),
    CodecSpec("numcodecs.astype", {"encode_dtype": "<i8", "decode_dtype": "<i4"}),
    CodecSpec("numcodecs.fixedscaleoffset", {"offset": 5, "scale": 1, "dtype": "<i4", "astype": "<i2"}),
    CodecSpec("numcodecs.quantize", {"digits": 3, "dtype": "<f4", "astype": "<f8"}),
    CodecSpec("numcodecs.categorize", {"labels": ["a", "b"], "dtype": "<U1"}),
]


def _decodes_to_its_size_or_not_at_all(codec, payload: bytes, data: bytes) -> None:
    for decoded in (Size(len(data), exact=True), Size(len(data), exact=False)):
        try:
            result = codec.decode(payload, decoded)
        except ChunkError:
            pass
        else:
            length = len(memoryview(result))
            assert length == len(data) if decoded.exact else length <= len(data)
        with contextlib.suppress(ChunkError):
            codec.check(HeadAndTail.of(payload), decoded)


def _payload(spec: CodecSpec) -> tuple[bytes, bytes]:
    data = DATA
    if spec.name.endswith("quantize"):
        data = np.arange(3000, dtype="<f4").tobytes()
    if spec.name.endswith("packbits"):
        data = (np.arange(1001) % 3 == 0).tobytes()
    if spec.name.endswith("categorize"):
        data = np.array(["a", "b", ""] * 50, "<U1").tobytes()
    return data, bytes(memoryview(compile_bytes_codec(spec).encode(data)))


@pytest.mark.parametrize("spec", SPECS, ids=str)
@given(edits=st.lists(st.tuples(st.integers(0, 2**20), st.integers(1, 255)), min_size=1, max_size=6))
def test_a_damaged_payload_gives_a_chunk_error_or_data_of_the_right_size(spec, edits):
    data, payload = _payload(spec)
    damaged = bytearray(payload)
    for place, mask in edits:
        damaged[place % min(len(damaged), 64 if place % 2 else len(damaged))] ^= mask
    _decodes_to_its_size_or_not_at_all(compile_bytes_codec(spec), bytes(damaged), data)


MAGIC = [
    b"",
    *(b"\x1f\x8b\x08", b"\x1f\x8b\x08\x00", b"BZh", b"BZh9", b"BZh91AY&SY", b"\xfd7zXZ\x00", b"\x78\x9c"),
    *(b"\x28\xb5\x2f\xfd", b"\x28\xb5\x2f\xfd\x20", b"\x50\x2a\x4d\x18", b"\x02\x01\x33\x04"),
    *(struct.pack("<I", 12000), struct.pack("<BBBBI", 2, 1, 0x33, 4, 12000), b"\x00", b"\x07"),
]


@pytest.mark.parametrize("spec", SPECS, ids=str)
@given(garbage=st.builds(bytes.__add__, st.sampled_from(MAGIC), st.binary(max_size=200)))
def test_garbage_gives_a_chunk_error_or_data_of_the_right_size(spec, garbage):
    _decodes_to_its_size_or_not_at_all(compile_bytes_codec(spec), garbage, DATA)


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_a_truncated_payload_is_refused(spec):
    data, payload = _payload(spec)
    codec = compile_bytes_codec(spec)
    for length in {0, 1, 4, 17, len(payload) // 2, len(payload) - 4, len(payload) - 1}:
        with pytest.raises(ChunkError):
            codec.decode(payload[:length], Size(len(data), exact=True))


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_bytes_behind_the_payload_are_refused_unless_a_header_states_its_length(spec):
    data, payload = _payload(spec)
    codec, size = compile_bytes_codec(spec), Size(len(data), exact=True)
    for extra in (b"\x01", b"garbage", b"\xff" * 40):
        ends = HeadAndTail.of(payload + extra)
        if spec.name == "blosc":
            assert bytes(codec.decode(payload + extra, size)) == bytes(data)
            assert (codec.check(ends, size), codec.trailing_bytes(ends)) == (False, len(extra))
            continue
        assert codec.trailing_bytes(ends) == 0
        with pytest.raises(ChunkError):
            codec.decode(payload + extra, size)
    whole = HeadAndTail.of(payload)
    assert (codec.check(whole, size), codec.trailing_bytes(whole)) == (True, 0)


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_a_payload_of_another_size_is_refused_with_both_sizes(spec):
    data, payload = _payload(spec)
    codec = compile_bytes_codec(spec)
    for size in (Size(len(data) + 12, exact=True), Size(len(data) - 12, exact=True), Size(0, exact=False)):
        with pytest.raises(ChunkError) as error:
            codec.decode(payload, size)
        assert error.value.problem.found
        assert error.value.problem.expected


ROWS = {
    name
    for name, facts in TABLE.items()
    if facts.role == "checksum" or (facts.items and facts.items.decoded and not facts.items.otherwise)
}


def test_every_codec_is_tried_with_hostile_payloads():
    assert (BUFFERS | ROWS) - {spec.name for spec in SPECS} == set(), "add each of them to SPECS"


@pytest.mark.parametrize("spec", [spec for spec in SPECS if spec.name in ROWS], ids=str)
@pytest.mark.parametrize("exact", [True, False], ids=["exact", "bounded"])
def test_a_payload_of_a_larger_chunk_is_refused_before_it_is_decoded(spec, exact):
    bomb = bytes(compile_bytes_codec(spec).encode(bytes(8 * MEGABYTE)))
    codec = compile_bytes_codec(spec)
    with memory_below(MEGABYTE), pytest.raises(ChunkError):
        codec.decode(bomb, Size(1200, exact=exact))


MEMBERS = {
    "gzip": gzip.compress,
    "numcodecs.bz2": bz2.compress,
    "numcodecs.lzma": lzma.compress,
    "zstd": zstandard.ZstdCompressor().compress,
}


@pytest.mark.parametrize("name", MEMBERS)
def test_several_members_are_one_payload(name):
    codec = compile_bytes_codec(CodecSpec(name))
    payload = MEMBERS[name](DATA[:5000]) + MEMBERS[name](b"") + MEMBERS[name](DATA[5000:])
    decoded = Size(len(DATA), exact=True)
    assert codec.decode(payload, decoded) == DATA
    # Never refused by the cheap look; where that cannot tell, it says so.
    assert codec.check(HeadAndTail.of(payload), decoded) is (name in ("numcodecs.bz2", "numcodecs.lzma"))


def test_zero_padding_behind_gzip_and_xz_is_no_garbage():
    decoded = Size(len(DATA), exact=True)
    for name, payload in (("gzip", gzip.compress(DATA)), ("numcodecs.lzma", lzma.compress(DATA))):
        codec = compile_bytes_codec(CodecSpec(name))
        assert codec.decode(payload + bytes(8), decoded) == DATA
        assert codec.check(HeadAndTail.of(payload + bytes(8)), decoded) is False


def test_a_skippable_zstd_frame_is_passed_over():
    payload = b"\x50\x2a\x4d\x18" + struct.pack("<I", 3) + b"abc" + zstandard.ZstdCompressor().compress(DATA)
    assert compile_bytes_codec(CodecSpec("zstd")).decode(payload, Size(len(DATA), exact=True)) == DATA


@pytest.mark.parametrize("checksum", [False, True])
def test_zstd_frames_without_content_size_are_read(checksum):
    compressor = zstandard.ZstdCompressor(write_content_size=False, write_checksum=checksum)
    payload = compressor.compress(DATA * 300)
    codec = compile_bytes_codec(CodecSpec("zstd"))
    for decoded in (Size(300 * len(DATA), exact=True), Size(1 << 30, exact=False)):
        assert codec.decode(payload, decoded) == DATA * 300
        assert codec.check(HeadAndTail.of(payload), decoded)


def test_a_raw_lzma_dictionary_from_the_metadata_is_bounded():
    huge = {"format": 3, "filters": [{"id": 33, "dict_size": 1 << 31}]}
    with pytest.raises(UnsupportedError):
        compile_bytes_codec(CodecSpec("numcodecs.lzma", huge))


def test_an_xz_dictionary_is_bounded():
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 512 * MEGABYTE}]
    compressor = lzma.LZMACompressor(filters=filters)
    payload = compressor.compress(b"abc") + compressor.flush()
    with pytest.raises(ChunkError):
        compile_bytes_codec(CodecSpec("numcodecs.lzma")).decode(payload, Size(3, exact=True))


@pytest.mark.parametrize(
    "spec",
    [
        CodecSpec("gzip", {"level": 10}),
        CodecSpec("gzip", {"level": True}),
        CodecSpec("gzip", {"speed": 1}),
        CodecSpec("zstd", {"checksum": 1}),
        CodecSpec("blosc", {"cname": "brotli"}),
        CodecSpec("blosc", {"shuffle": 7}),
        CodecSpec("blosc", {"typesize": 0}),
        CodecSpec("blosc", {"cname": ["lz4"]}),
        CodecSpec("numcodecs.delta", {}),
        CodecSpec("numcodecs.delta", {"dtype": "|O"}),
        CodecSpec("numcodecs.delta", {"dtype": 3}),
        CodecSpec("numcodecs.quantize", {"digits": 1, "dtype": "<i4"}),
        CodecSpec("numcodecs.crc32", {"location": "middle"}),
        CodecSpec("numcodecs.lzma", {"format": 3, "filters": None}),
        CodecSpec("numcodecs.categorize", {"labels": [1], "dtype": "<U1"}),
        CodecSpec("numcodecs.categorize", {"labels": ["a"], "dtype": "<i4"}),
        CodecSpec("numcodecs.shuffle", {"elementsize": -1}),
        CodecSpec("numcodecs.base64", {"x": 1}),
    ],
    ids=lambda spec: f"{spec.name}-{spec.configuration}",
)
def test_a_configuration_that_makes_no_sense_is_an_error_of_the_metadata(spec):
    with pytest.raises(MetadataError):
        compile_bytes_codec(spec)
