"""What Zarr v2 is told reads back as what was meant, and what it cannot be told is refused by name."""

from __future__ import annotations

import pytest

from zarrlift.core.chain.chain import Chain
from zarrlift.core.codec_spec import CodecSpec
from zarrlift.core.codecs.pipeline import axes_order
from zarrlift.core.data_types.v3 import DataType, fill_to_json
from zarrlift.core.zarr_v2.writer import array_document, chain_for_v2, fill_for_v2
from zarrstack.core.errors import UnsupportedError

LITTLE = CodecSpec("bytes", {"endian": "little"})


@pytest.mark.parametrize(
    ("order", "kept"),
    [((2, 1, 0), ["transpose", "bytes"]), ((0, 1, 2), ["bytes"]), ((1, 0, 2), ["bytes"])],
    ids=["F", "C", "neither"],
)
def test_orders_that_v2_has(order: tuple[int, ...], kept: list[str]) -> None:
    """F is said; any other transpose goes, and chunks are encoded anew."""
    chain = Chain((CodecSpec("transpose", {"order": list(order)}), LITTLE))
    assert [spec.name for spec in chain_for_v2(chain, 3).codecs] == kept


def test_two_transposes_that_make_f_are_f() -> None:
    turns = [CodecSpec("transpose", {"order": order}) for order in ([1, 2, 0], [1, 0, 2])]
    chain = chain_for_v2(Chain((*turns, LITTLE)), 3)
    assert axes_order(Chain((*turns, LITTLE)), 3) == (2, 1, 0)
    assert axes_order(chain, 3) == (2, 1, 0)


def test_a_checksum_goes_and_the_rest_stays() -> None:
    chain = Chain((LITTLE, CodecSpec("zstd", {"level": 3}), CodecSpec("crc32c")))
    assert [spec.name for spec in chain_for_v2(chain, 1).codecs] == ["bytes", "zstd"]


@pytest.mark.parametrize("name", ["n5_default", "sharding_indexed", "numcodecs.json2"])
def test_what_v2_has_no_codec_for_is_refused_by_name(name: str) -> None:
    with pytest.raises(UnsupportedError, match=name):
        chain_for_v2(Chain((CodecSpec(name),)), 1)


def test_codecs_that_no_v2_reader_has_are_refused_by_name() -> None:
    with pytest.raises(UnsupportedError, match="mystery"):
        chain_for_v2(Chain((LITTLE, CodecSpec("mystery"))), 1)


def document_of(*codecs: CodecSpec, data_type: str = "int32") -> dict:
    chain = chain_for_v2(Chain((LITTLE, *codecs)), 1)
    return array_document(
        shape=(4,), chunks=(2,), data_type=DataType(data_type), chain=chain, fill=0, separator="/"
    )


def test_a_single_codec_is_the_compressor_since_tensorstore_has_no_filters() -> None:
    document = document_of(CodecSpec("numcodecs.zlib", {"level": 1}))
    assert document["compressor"] == {"id": "zlib", "level": 1}
    assert document["filters"] is None
    assert document["dimension_separator"] == "/"


def test_what_only_encoders_ask_for_is_left_out_for_older_readers() -> None:
    blosc = CodecSpec(
        "blosc", {"cname": "zstd", "clevel": 5, "shuffle": "bitshuffle", "typesize": 4, "blocksize": 0}
    )
    assert document_of(blosc)["compressor"] == {
        "id": "blosc", "cname": "zstd", "clevel": 5, "shuffle": 2, "blocksize": 0,
    }  # fmt: skip
    zstd = CodecSpec("zstd", {"level": 3, "checksum": True})
    assert document_of(zstd)["compressor"] == {"id": "zstd", "level": 3}


def test_filters_stand_in_their_order() -> None:
    delta = CodecSpec("numcodecs.delta", {"dtype": "<i4"})
    shuffle = CodecSpec("numcodecs.shuffle", {"elementsize": 4})
    document = document_of(delta, shuffle)
    assert [codec["id"] for codec in document["filters"]] == ["delta", "shuffle"]
    assert document["compressor"] is None
    document = document_of(delta, CodecSpec("gzip", {"level": 5}))
    assert [codec["id"] for codec in document["filters"]] == ["delta"]
    assert document["compressor"] == {"id": "gzip", "level": 5}


@pytest.mark.parametrize(
    ("name", "fill"),
    [
        ("float32", "0x7fc00001"),
        ("float64", "0xfff8000000000000"),
        ("complex64", [0.0, "Infinity"]),  # 1j * inf has a NaN in its real part
        ("bytes", ""),
    ],
)
def test_fill_values_that_v2_cannot_say(name: str, fill) -> None:
    middle = CodecSpec("vlen-bytes") if name == "bytes" else LITTLE
    with pytest.raises(UnsupportedError, match="cannot represent this fill value"):
        fill_for_v2(fill, DataType(name), Chain((middle,)))


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("float64", -0.0, -0.0),
        ("float64", float("nan"), "NaN"),
        ("float16", float("-inf"), "-Infinity"),
        ("complex128", complex(float("inf"), 0), ["Infinity", 0.0]),
        ("uint64", 2**64 - 1, 2**64 - 1),
        ("bool", True, True),
    ],
)
def test_fill_values_that_it_can(name: str, value, said) -> None:
    data_type = DataType(name)
    assert repr(fill_for_v2(fill_to_json(value, data_type), data_type, Chain((LITTLE,)))) == repr(said)
