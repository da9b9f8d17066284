"""What N5 is told reads back as what was meant, and what it cannot be told is refused by name."""

from __future__ import annotations

import json

import pytest
from tests.support.fixture_objects import FixtureObjects
from tests.support.fixtures_index import archives

from zarrlift.core.chain.chain import Chain
from zarrlift.core.data_types.v3 import DataType
from zarrlift.core.n5.dataset import STANDARD, describe_dataset
from zarrlift.core.n5.writer import chain_for_n5, dataset_members, require_own_names, require_zero_fill
from zarrstack.core.codec_spec import CodecSpec
from zarrstack.core.errors import UnsupportedError

BIG = CodecSpec("bytes", {"endian": "big"})
LITTLE = CodecSpec("bytes", {"endian": "little"})
UINT16 = DataType("uint16")
FOREIGN = {"lz4_block", "lz4_bare", "numcodecs.lz4"}
"""Streams under N5's name lz4 that are three different ones: v3 has none of them."""


@pytest.mark.parametrize("axes", ["reversed", "kept"])
def test_what_old_writers_said_is_said_again(axes: str) -> None:
    """The description of each dataset, written and read, is the same description."""
    seen = 0
    for one in archives("n5"):
        for path in one.arrays:
            content = FixtureObjects(one.path).get(f"{path}/attributes.json" if path else "attributes.json")
            before, _ = describe_dataset(json.loads(content))
            if before is None or before.data_type.name not in STANDARD:
                continue
            last = before.chain(axes).codecs[-1]
            if last.name in FOREIGN or (last.name == "numcodecs.lzma" and last.configuration["format"] != 1):
                continue
            chain = chain_for_n5(before.chain(axes), before.data_type, len(before.dimensions), axes)
            assert chain == before.chain(axes), path
            members = dataset_members(
                shape=before.shape(axes),
                chunks=before.chunk_shape(axes),
                data_type=before.data_type,
                chain=chain,
                axes=axes,
            )
            dataset, problems = describe_dataset(members)
            assert problems == ()
            assert dataset.shape(axes) == before.shape(axes)
            assert dataset.chunk_shape(axes) == before.chunk_shape(axes)
            assert dataset.data_type == before.data_type
            # Levels that only encoders ask for may be spelt otherwise: Java's gzip has -1.
            assert [spec.name for spec in dataset.chain(axes).codecs] == [s.name for s in chain.codecs]
            seen += 1
    assert seen > 100


def test_little_endian_values_become_big_endian_and_single_bytes_have_no_order() -> None:
    chain = chain_for_n5(Chain((LITTLE, CodecSpec("zstd", {"level": 3}))), UINT16, 3, "reversed")
    assert chain == Chain((BIG, CodecSpec("zstd", {"level": 3})))
    single = Chain((LITTLE,))
    assert chain_for_n5(single, DataType("uint8"), 3, "reversed") == single


def test_a_checksum_goes() -> None:
    chain = chain_for_n5(Chain((BIG, CodecSpec("crc32c"))), UINT16, 1, "reversed")
    assert chain == Chain((BIG,))


@pytest.mark.parametrize(
    ("chain", "data_type", "word"),
    [
        (Chain((CodecSpec("bytes"),)), "bool", "data type"),
        (Chain((LITTLE,)), "float16", "data type"),
        (Chain((LITTLE,)), "complex64", "data type"),
        (Chain((CodecSpec("vlen-utf8"),)), "string", "data type"),
        (Chain((CodecSpec("n5_default"),)), "uint16", "n5_default"),
        (Chain((LITTLE, CodecSpec("numcodecs.lz4", {"acceleration": 1}))), "uint16", "lz4"),
        (
            Chain((LITTLE, CodecSpec("numcodecs.lzma", {"format": 3, "filters": [{"id": 33}]}))),
            "uint16",
            "lzma",
        ),
        (
            Chain((LITTLE, CodecSpec("numcodecs.shuffle", {"elementsize": 2}), CodecSpec("gzip"))),
            "uint16",
            "filters",
        ),
    ],
    ids=str,
)
def test_what_n5_does_not_have_is_refused_by_name(chain: Chain, data_type: str, word: str) -> None:
    with pytest.raises(UnsupportedError, match=word):
        chain_for_n5(chain, DataType(data_type), 1, "reversed")


def test_blocks_that_java_cannot_hold() -> None:
    with pytest.raises(UnsupportedError, match="more elements"):
        dataset_members(
            shape=(2**20, 2**20), chunks=(2**16, 2**16), data_type=UINT16, chain=Chain((BIG,)), axes="kept"
        )


@pytest.mark.parametrize(("name", "fill"), [("uint8", 1), ("float32", "NaN"), ("float64", -0.0)])
def test_a_missing_block_is_zero_and_nothing_else(name: str, fill) -> None:
    with pytest.raises(UnsupportedError, match="fill value"):
        require_zero_fill(fill, DataType(name))
    require_zero_fill(0, DataType(name))


def test_attributes_that_would_mean_something_else() -> None:
    require_own_names({"dataType": "raw", "resolution": [1, 2]}, dataset=False)
    for attributes, dataset in (
        ({"dimensions": [1]}, True),
        ({"n5": "no version"}, False),
        ({"dimensions": [1], "blockSize": [1]}, False),
    ):
        with pytest.raises(UnsupportedError, match="attributes"):
            require_own_names(attributes, dataset=dataset)
