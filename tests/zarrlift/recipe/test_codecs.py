"""What `--codecs` may say."""

from __future__ import annotations

import pytest

from zarrlift.core.chain.chain import Chain
from zarrlift.recipe.codecs import parse_codecs
from zarrstack.core.codec_spec import CodecSpec
from zarrstack.core.errors import UsageError

ZSTD = CodecSpec("zstd", {"level": 3, "checksum": False})
LITTLE = CodecSpec("bytes", {"endian": "little"})


def blosc(**configuration: object) -> CodecSpec:
    return CodecSpec("blosc", {"cname": "zstd", "clevel": 5, "blocksize": 0, **configuration})


@pytest.mark.parametrize(
    ("text", "tail"),
    [
        ("none", ()),
        ("zstd", (ZSTD,)),
        ("zstd:3", (ZSTD,)),
        (" zstd:-5 ", (CodecSpec("zstd", {"level": -5, "checksum": False}),)),
        ("gzip", (CodecSpec("gzip", {"level": 6}),)),
        ("gzip:0", (CodecSpec("gzip", {"level": 0}),)),
        ("blosc", (blosc(),)),
        ("blosc:lz4", (blosc(cname="lz4"),)),
        ("blosc:zstd:1", (blosc(clevel=1),)),
        ("blosc:zstd:5:shuffle", (blosc(shuffle="shuffle"),)),
        ("crc32c", (CodecSpec("crc32c"),)),
        ("zstd:3+crc32c", (ZSTD, CodecSpec("crc32c"))),
        ('[{"name": "zstd", "configuration": {"level": 3, "checksum": false}}]', (ZSTD,)),
        ('{"name": "numcodecs.lz4"}', (CodecSpec("numcodecs.lz4"),)),
        ("[]", ()),
    ],
)
def test_a_short_form_or_json_says_what_compresses(text: str, tail: tuple[CodecSpec, ...]) -> None:
    request = parse_codecs(text)
    assert (request.mode, request.head, request.tail) == ("explicit", (), tail)


@pytest.mark.parametrize("mode", ["portable", "keep"])
def test_two_words_leave_the_choice_to_the_source(mode: str) -> None:
    assert parse_codecs(mode).mode == mode


def test_json_with_an_array_to_bytes_codec_states_the_head_too() -> None:
    text = '["crc32c", {"name": "bytes", "configuration": {"endian": "little"}}]'
    with pytest.raises(UsageError):
        parse_codecs(text)
    request = parse_codecs('[{"name": "bytes", "configuration": {"endian": "little"}}, "crc32c"]')
    assert request.head == (LITTLE,)
    assert request.tail == (CodecSpec("crc32c"),)
    assert parse_codecs(Chain((LITTLE, CodecSpec("crc32c")))) == request


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("zstandard:3", "Did you mean 'zstd'"),
        ("portabel", "Did you mean 'portable'"),
        ("lzma", "zstd:3, gzip:6"),
        ("", "zstd:3, gzip:6"),
        ("zstd:high", "integer"),
        ("zstd:23", "-131072 to 22"),
        ("gzip:-1", "0 to 9"),
        ("gzip:6:7", "too many"),
        ("blosc:snappy", "lz4, lz4hc"),
        ("blosc:zstd:10", "0 to 9"),
        ("blosc:zstd:5:shuffled", "noshuffle, shuffle"),
        ("crc32c:1", "too many"),
        ("none+crc32c", "cannot be combined"),
        ("keep+crc32c", "unknown codec"),
        ("[{]", "JSON"),
        ('[{"configuration": {}}]', "name"),
        ('[{"name": "zstdd"}]', "Did you mean 'zstd'"),
        ('[{"name": "numcodecs.json2"}]', "unknown codec"),
        ('[{"name": "gzip"}]', "level"),
        ('[{"name": "gzip", "configuration": {"level": true}}]', "0 to 9"),
        ('[{"name": "gzip", "configuration": {"level": 1, "lvl": 1}}]', "lvl"),
        ('[{"name": "transpose", "configuration": {"order": [1, 0]}}]', "--set order"),
        ('[{"name": "numcodecs.delta", "configuration": {"dtype": "<i4"}}]', "array-to-bytes"),
        ('[{"name": "sharding_indexed"}]', "cannot be requested as a codec"),
        ("[1]", "name"),
    ],
)
def test_what_makes_no_sense_says_what_would(text: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_codecs(text)
    assert words in str(caught.value)
