"""gzip and zlib by either library: the same values, the same errors, bytes that every reader takes."""

from __future__ import annotations

import gzip
import itertools
import struct
import sys
import types
import zlib
from unittest import mock

import deflate as libdeflate
import numcodecs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.chances import memory_below

from zarrlift.core.codec_spec import CodecSpec
from zarrlift.core.codecs import deflate
from zarrlift.core.codecs.base import Size
from zarrlift.core.codecs.registry import compile_bytes_codec
from zarrstack.core.errors import ChunkError

MEGABYTE = 1 << 20
LIBRARIES = {"zlib": None, "libdeflate": libdeflate}
CODECS = ("gzip", "numcodecs.zlib")
RNG = np.random.default_rng(11)
DATA = {
    "camera": (RNG.poisson(300, 30_000) + 100).astype("<u2").tobytes(),
    "field": (np.cumsum(RNG.normal(size=9_000)) + 280).astype(">f4").tobytes(),
    "labels": np.repeat(RNG.integers(0, 1 << 40, 50), 300).astype("<u8").tobytes(),
    "noise": RNG.bytes(20_000),
    "zeros": bytes(50_000),
    "one": b"x",
    "none": b"",
}


@pytest.fixture(params=LIBRARIES)
def library(request, monkeypatch):
    monkeypatch.setattr(deflate, "libdeflate", LIBRARIES[request.param])
    return request.param


def with_library(name, function, *words):
    """What the function does with that library: its bytes, or everything its error says."""
    before = deflate.libdeflate
    deflate.libdeflate = LIBRARIES[name]
    try:
        return bytes(memoryview(function(*words)))
    except ChunkError as error:
        return error.problem
    finally:
        deflate.libdeflate = before


def exactly(data):
    return Size(len(data), exact=True)


# ----- the choice


def test_the_suite_runs_with_the_fast_library():
    assert deflate.libdeflate is libdeflate


@pytest.mark.parametrize(("version", "taken"), [("0.8.1", False), ("0.9.0", True), ("1.0", True)])
def test_a_module_that_keeps_the_interpreter_lock_is_not_taken(monkeypatch, version, taken):
    module = types.ModuleType("deflate")
    module.__version__ = version
    monkeypatch.setitem(sys.modules, "deflate", module)
    assert (deflate._libdeflate() is module) is taken


def test_without_the_module_zlib_does_it_all(monkeypatch):
    monkeypatch.setitem(sys.modules, "deflate", None)
    assert deflate._libdeflate() is None


# ----- round trips


@pytest.mark.parametrize("codec", CODECS)
@given(data=st.binary(max_size=3000), repeats=st.integers(1, 40), level=st.integers(-1, 9))
def test_any_bytes_come_back_from_either_library(codec, data, repeats, level):
    data *= repeats
    compiled = compile_bytes_codec(CodecSpec(codec, {"level": level}))
    payloads = {with_library(name, compiled.encode, data) for name in LIBRARIES}
    for payload, name in itertools.product(payloads, LIBRARIES):
        assert with_library(name, compiled.decode, payload, exactly(data)) == data


@pytest.mark.parametrize("kind", DATA)
def test_every_reader_takes_what_is_written(library, kind):
    data = DATA[kind]
    for level in range(-1, 10):
        member = bytes(deflate.gzip_compress(data, level))
        stream = bytes(deflate.zlib_compress(data, level))
        assert member[:10] == deflate.GZIP_HEADER
        assert gzip.decompress(member) == data
        assert zlib.decompress(stream) == data
        for name in LIBRARIES:
            assert with_library(name, deflate.gzip_decompress, member, exactly(data)) == data
            assert with_library(name, deflate.zlib_decompress, stream, exactly(data)) == data
        if data:  # numcodecs itself cannot decode what holds nothing
            assert bytes(numcodecs.GZip().decode(member)) == data
            assert bytes(numcodecs.Zlib().decode(stream)) == data


def test_a_level_gives_about_the_size_that_it_gives_with_zlib():
    for level, data in itertools.product(range(-1, 10), DATA.values()):
        plain, fast = (len(with_library(name, deflate.gzip_compress, data, level)) for name in LIBRARIES)
        assert fast <= 1.05 * plain + 16, level


def test_level_6_does_not_give_twice_the_size_for_label_images():
    grid = np.stack(np.meshgrid(*map(np.arange, (64, 64, 64)), indexing="ij"), -1)
    cells = (grid + 2 * np.sin(grid[..., ::-1] / 3)) // (23, 29, 31)  # with crooked borders
    data = (cells @ (10007, 101, 1) + 720575940000).astype("<u8").tobytes()
    plain, fast = (len(with_library(name, deflate.gzip_compress, data, 6)) for name in LIBRARIES)
    assert fast <= 1.05 * plain < len(libdeflate.gzip_compress(data, 6))


@pytest.mark.parametrize("wrap", [bytearray, memoryview, lambda d: np.frombuffer(d, "u1")])
@pytest.mark.parametrize("codec", CODECS)
def test_any_buffer_is_taken(library, codec, wrap):
    compiled = compile_bytes_codec(CodecSpec(codec))
    data = DATA["camera"]
    payload = bytes(compiled.encode(wrap(data)))
    assert payload == compiled.encode(data)
    assert compiled.decode(wrap(payload), exactly(data)) == data


# ----- what is not one plain member

PLAIN = DATA["camera"]
HALF = PLAIN[:30_000]


def with_header(flags: int, fields: bytes, *, header_crc: int | None = None) -> bytes:
    """A gzip member with what RFC 1952, 2.3.1 lets a header hold."""
    header = b"\x1f\x8b\x08" + bytes([flags]) + bytes(5) + b"\xff" + fields
    if header_crc is not None:
        header += struct.pack("<H", (zlib.crc32(header) ^ header_crc) & 0xFFFF)
    body = zlib.compress(PLAIN, 6, -15)
    return b"".join((header, body, struct.pack("<II", zlib.crc32(PLAIN), len(PLAIN))))


def far_in_a_small_window(size: int) -> bytes:
    """A zlib stream that says 256 bytes of window and reaches back further."""
    stream = zlib.compress(RNG.bytes(1000) * (size // 1000))
    header = 0x08 << 8
    return (header + 31 - header % 31).to_bytes(2, "big") + stream[2:]


MEMBER = gzip.compress(PLAIN, mtime=0)
STREAM = zlib.compress(PLAIN)
GOOD = {
    "members": gzip.compress(HALF) + gzip.compress(b"") + gzip.compress(PLAIN[30_000:]),
    "padding": MEMBER + bytes(100),
    "members and padding": gzip.compress(HALF) + bytes(3) + gzip.compress(PLAIN[30_000:]) + bytes(5),
    "name": with_header(0x08, b"name.bin\0"),
    "extra, name, comment, text": with_header(0x1D, b"\x03\0abcname\0comment\0"),
    "header crc": with_header(0x02, b"", header_crc=0),
}


@pytest.mark.parametrize("case", GOOD)
@pytest.mark.parametrize("exact", [True, False])
def test_whatever_a_gzip_payload_may_hold_is_read(library, case, exact):
    size = Size(len(PLAIN), exact=True) if exact else Size(1 << 30, exact=False)
    assert deflate.gzip_decompress(GOOD[case], size) == PLAIN


DAMAGED_GZIP = {
    "empty": b"",
    "no gzip": b"\x1f\x8c" + MEMBER[2:],
    "not deflate": MEMBER[:2] + b"\x07" + MEMBER[3:],
    "reserved flag": MEMBER[:3] + b"\x20" + MEMBER[4:],
    "wrong header crc": with_header(0x02, b"", header_crc=1),
    "name without end": b"\x1f\x8b\x08\x08" + bytes(6) + b"n" * 40,
    "header only": MEMBER[:10],
    "wrong crc": MEMBER[:-8] + bytes([MEMBER[-8] ^ 1]) + MEMBER[-7:],
    "zero crc": MEMBER[:-8] + bytes(4) + MEMBER[-4:],
    "wrong size": MEMBER[:-4] + struct.pack("<I", len(PLAIN) + 1),
    "zero size": MEMBER[:-4] + bytes(4),
    "no trailer": MEMBER[:-8],
    "half a trailer": MEMBER[:-4],
    "half": MEMBER[: len(MEMBER) // 2],
    "a flipped bit": MEMBER[:500] + bytes([MEMBER[500] ^ 4]) + MEMBER[501:],
    "garbage behind": MEMBER + b"garbage",
    "one byte behind": MEMBER + b"\x01",
    "twice": MEMBER + MEMBER,
    "its own trailer behind": MEMBER + MEMBER[-8:],
    "garbage and its own trailer behind": MEMBER + b"garbage" + MEMBER[-8:],
    "half a member behind": MEMBER + MEMBER[:100],
    "members of another size": gzip.compress(HALF) + gzip.compress(HALF[:-1]),
    "too small": gzip.compress(PLAIN[:-1]),
    "too large": gzip.compress(PLAIN + b"x"),
    "zlib": STREAM,
}
DAMAGED_ZLIB = {
    "empty": b"",
    "one byte": b"\x78",
    "header only": STREAM[:2],
    "wrong header": b"\x78\x00" + STREAM[2:],
    "a dictionary": b"\x78\xbb" + STREAM[2:],
    "wrong adler": STREAM[:-1] + bytes([STREAM[-1] ^ 1]),
    "no adler": STREAM[:-4],
    "half": STREAM[: len(STREAM) // 2],
    "a flipped bit": STREAM[:500] + bytes([STREAM[500] ^ 4]) + STREAM[501:],
    "one byte behind": STREAM + b"\0",
    "twice": STREAM + STREAM,
    "its own adler behind": STREAM + STREAM[-4:],
    "garbage and its own adler behind": STREAM + b"garbage" + STREAM[-4:],
    "too small": zlib.compress(PLAIN[:-1]),
    "too large": zlib.compress(PLAIN + b"x"),
    "gzip": MEMBER,
}
DAMAGED = [("gzip", case, DAMAGED_GZIP[case]) for case in DAMAGED_GZIP]
DAMAGED += [("numcodecs.zlib", case, DAMAGED_ZLIB[case]) for case in DAMAGED_ZLIB]


@pytest.mark.parametrize(
    ("codec", "payload"),
    [(codec, payload) for codec, _, payload in DAMAGED],
    ids=[f"{codec}: {case}" for codec, case, _ in DAMAGED],
)
def test_damage_is_told_in_the_same_words(codec, payload):
    compiled = compile_bytes_codec(CodecSpec(codec))
    told = [with_library(name, compiled.decode, payload, exactly(PLAIN)) for name in LIBRARIES]
    assert not isinstance(told[0], bytes)
    assert told[0] == told[1]


@pytest.mark.parametrize("size", [10_000, 300_000])
def test_a_stream_that_reaches_beyond_its_window_is_taken_by_both_or_by_none(size):
    # zlib sees it only where its own window matters, that is in long streams.
    stream = far_in_a_small_window(size)
    told = [with_library(name, deflate.zlib_decompress, stream, Size(size, exact=True)) for name in LIBRARIES]
    assert told[0] == told[1]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("writer", LIBRARIES)
@given(
    edits=st.lists(st.tuples(st.integers(0, 2**20), st.integers(0, 255)), max_size=3),
    cut=st.integers(0, 30),
    behind=st.sampled_from(["", "zeros", "tail", "again", "garbage"]),
    exact=st.booleans(),
)
def test_any_damage_is_told_alike(codec, writer, edits, cut, behind, exact):
    data = DATA["field"][:6000]
    compiled = compile_bytes_codec(CodecSpec(codec))
    payload = bytearray(with_library(writer, compiled.encode, data))
    whole = bytes(payload)
    for place, mask in edits:
        payload[place % len(payload)] ^= mask
    more = {"": b"", "zeros": bytes(9), "tail": whole[-8:], "again": whole, "garbage": b"garbage"}[behind]
    damaged = bytes(payload[: len(payload) - cut]) + more
    size = Size(len(data), exact=exact)
    told = [with_library(name, compiled.decode, damaged, size) for name in LIBRARIES]
    assert told[0] == told[1]


# ----- bounds


def bomb(window: int) -> bytes:
    """16 MiB of zeros."""
    stream = zlib.compressobj(1, zlib.DEFLATED, window)
    return stream.compress(bytes(16 * MEGABYTE)) + stream.flush()


BOMBS = {
    "gzip": ("gzip", bomb(31)),
    "gzip that states a small size": ("gzip", bomb(31)[:-4] + struct.pack("<I", MEGABYTE)),
    "gzip that states a large size": ("gzip", gzip.compress(b"abc")[:-4] + b"\xff\xff\xff\xff"),
    "gzip of many members": ("gzip", gzip.compress(bytes(MEGABYTE), 1) * 16),
    "zlib": ("numcodecs.zlib", bomb(15)),
}


@pytest.mark.parametrize("name", BOMBS)
@pytest.mark.parametrize("exact", [True, False], ids=["exact", "bounded"])
def test_a_bomb_costs_what_its_chunk_costs(library, name, exact):
    codec, payload = BOMBS[name]
    compiled = compile_bytes_codec(CodecSpec(codec))
    with memory_below(4 * MEGABYTE + len(payload)), pytest.raises(ChunkError):
        compiled.decode(payload, Size(MEGABYTE, exact=exact))


def test_a_size_that_deflate_cannot_reach_reserves_nothing(library):
    lie = gzip.compress(b"abc")[:-4] + struct.pack("<I", 1 << 31)
    with memory_below(MEGABYTE), pytest.raises(ChunkError):
        deflate.gzip_decompress(lie, Size(1 << 31, exact=False))


# ----- zlib -> gzip


@pytest.mark.parametrize("writer", LIBRARIES)
@pytest.mark.parametrize("kind", DATA)
def test_the_deflate_stream_is_kept_whoever_wrote_it(library, writer, kind):
    data = DATA[kind]
    stream = with_library(writer, deflate.zlib_compress, data, 6)
    member = deflate.rewrap_zlib_to_gzip(stream, exactly(data))
    assert gzip.decompress(member) == data
    assert member[10:-8] == stream[2:-4]


@pytest.mark.parametrize("case", DAMAGED_ZLIB)
def test_a_damaged_stream_is_not_rewrapped(case):
    told = [
        with_library(name, deflate.rewrap_zlib_to_gzip, DAMAGED_ZLIB[case], exactly(PLAIN))
        for name in LIBRARIES
    ]
    assert not isinstance(told[0], bytes)
    assert told[0] == told[1]


# ----- what the two libraries judge differently


def declaring_too_many(literals: int, distances: int) -> bytes:
    """A raw deflate stream of "aaaaa", whose block declares so many codes (RFC 1951, 3.2.7), uses three."""
    lengths = [0] * (literals + distances)
    lengths[ord("a")] = lengths[256] = lengths[literals] = 1
    bits = [1, 0, 1]  # the last block, with codes of its own
    for number, width in ((literals - 257, 5), (distances - 1, 5), (15, 4)):
        bits += [number >> place & 1 for place in range(width)]
    order = (16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15)
    for symbol in order:  # lengths 0 and 1 take one bit each
        bits += [int(symbol in (0, 1)), 0, 0]
    bits += lengths
    bits += [0, 0, 0, 0, 0, 1]
    bits += [0] * (-len(bits) % 8)
    return bytes(
        sum(bit << place for place, bit in enumerate(bits[at : at + 8])) for at in range(0, len(bits), 8)
    )


def test_codes_that_are_declared_and_never_used_are_the_only_known_difference():
    trailer = struct.pack("<II", zlib.crc32(b"aaaaa"), 5)
    for literals, distances, alike in ((257, 1, True), (286, 30, True), (288, 1, False), (257, 32, False)):
        member = deflate.GZIP_HEADER + declaring_too_many(literals, distances) + trailer
        told = [
            with_library(name, deflate.gzip_decompress, member, Size(5, exact=True)) for name in LIBRARIES
        ]
        assert (told[0] == told[1]) is alike
        assert told[1] == b"aaaaa"


def stored_member(plain: bytes) -> bytes:
    """A gzip member of stored blocks (RFC 1951, 3.2.4), whose length is known beforehand."""
    most = 65_535
    parts = [plain[start : start + most] for start in range(0, len(plain), most)]
    blocks = [struct.pack("<BHH", part is parts[-1], len(part), len(part) ^ 0xFFFF) + part for part in parts]
    return deflate.GZIP_HEADER + b"".join(blocks) + struct.pack("<II", zlib.crc32(plain), len(plain))


@pytest.mark.parametrize("beyond", [-9, -8, -4, -1, 0, 1, 100_000])
def test_a_first_trailer_is_found_wherever_it_lies_in_a_large_payload(beyond: int) -> None:
    """The payload is searched piece by piece; a trailer may lie across two of them."""
    at = 4 * deflate._PIECE + beyond
    plain = np.random.default_rng(7).integers(0, 256, at - 10 - 5 * (at // 65_540 + 1), np.uint8).tobytes()
    member = stored_member(plain)
    assert len(member) == at + 8
    assert bytes(deflate.gzip_decompress(member, Size(len(plain), exact=True))) == plain
    with pytest.raises(ChunkError):
        deflate.gzip_decompress(member + b"garbage" + member[-8:], Size(len(plain), exact=True))


@given(
    data=st.data(), length=st.sampled_from([4, 8]), piece=st.integers(1, 5), few=st.sampled_from([0, 1, 64])
)
def test_a_first_trailer_is_found_as_a_plain_search_finds_it(
    data: st.DataObject, length: int, piece: int, few: int
) -> None:
    """Bytes of few kinds, so that trailers overlap themselves; at any place of memory."""
    some = st.sampled_from(b"\0\1").map(lambda byte: bytes([byte]))
    trailer = b"".join(data.draw(st.lists(some, min_size=length, max_size=length)))
    body = b"".join(data.draw(st.lists(some | st.just(trailer), max_size=30)))
    ahead = data.draw(st.integers(0, 3))
    payload = memoryview(bytes(ahead) + body + trailer)[ahead:]
    with mock.patch.object(deflate, "_PIECE", piece), mock.patch.object(deflate, "_FEW", few):
        found = deflate._ends_with_first(payload, trailer)
    assert found == (bytes(payload).find(trailer) == len(body))


def test_a_trailer_that_overlaps_itself_at_the_end_is_not_the_first() -> None:
    assert deflate._ends_with_first(b"?" + b"ab" * 4, b"ab" * 4)
    assert not deflate._ends_with_first(b"?" + b"ab" * 5, b"ab" * 4)
