"""Every bytes-to-bytes codec reads what numcodecs writes, and numcodecs reads what it writes."""

from __future__ import annotations

import numcodecs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zarrlift.core.codec_spec import CodecSpec
from zarrlift.core.codecs.base import HeadAndTail, Size
from zarrlift.core.codecs.registry import ARRAY_CODECS, BYTES_CODECS, compile_bytes_codec
from zarrstack.core.errors import CastError, UnsupportedError

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
        for name in "zlib bz2 lzma lz4 crc32 crc32c adler32 fletcher32 jenkins_lookup3 base64".split()
    ),
    CodecSpec("crc32c"),
    CodecSpec("numcodecs.shuffle", {"elementsize": 1}),
]


@pytest.mark.parametrize("spec", LOSSLESS, ids=str)
@given(data=st.binary(max_size=300))
def test_any_bytes_come_back_the_empty_ones_too(spec, data):
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
        (CodecSpec("numcodecs.categorize", {"labels": ["a"], "dtype": "<U2"}), np.array(["b"], "<U2")),
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


def test_bitround_keeps_what_is_rounded_already():
    rounded = numcodecs.BitRound(keepbits=5).encode(np.linspace(0, 1, 9, dtype="f4"))
    codec = compile_bytes_codec(CodecSpec("numcodecs.bitround", {"keepbits": 5}), np.dtype("<f4"))
    payload = codec.encode(rounded.view("u1"))
    assert bytes(memoryview(codec.decode(payload, Size(36, exact=True)))) == rounded.tobytes()


@pytest.mark.parametrize("name", ["numcodecs.sz3", "imagecodecs_jpegxr", "bytes"])
def test_an_unknown_codec_is_refused_with_its_name_and_configuration(name):
    with pytest.raises(UnsupportedError) as refusal:
        compile_bytes_codec(CodecSpec(name, {"level": 3}))
    assert name in refusal.value.problem.found
    assert '"level":3' in refusal.value.problem.found


def test_the_tables_name_classes_that_exist():
    from importlib import import_module

    for place in (*BYTES_CODECS.values(), *ARRAY_CODECS.values()):
        module, _, name = place.partition(":")
        assert isinstance(getattr(import_module(f"zarrlift.core.codecs.{module}"), name), type)
