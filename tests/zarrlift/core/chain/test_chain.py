"""Codec chains as data: nothing is lost, and equal chains compare as equal."""

from __future__ import annotations

import dataclasses
import json
import pickle
import struct
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version
from tests.support.chances import try_each
from tests.support.reader_cases import LITTLE, Case, all_cases, blosc, codec, features_of, same
from tests.support.readers import READERS

from zarrlift.core.chain.chain import Chain
from zarrlift.core.chain.codec_limits import limits_problem, within_limits
from zarrlift.core.chain.reader_table import EVERY_COPY, codecs, data_types, features, head_features, reading
from zarrlift.core.codec_spec import CodecSpec
from zarrlift.core.codec_table import ARRAY_FILTERS, ARRAY_TO_BYTES, REGISTERED_FILTERS
from zarrstack.core.errors import MetadataError, UnsupportedError

BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
TRANSPOSE = {"name": "transpose", "configuration": {"order": [1, 0]}}
DELTA = {"name": "numcodecs.delta", "configuration": {"dtype": "<i4"}}
QUANTIZE = {"name": "numcodecs.quantize", "configuration": {"digits": 2, "dtype": "<f4"}}
ZSTD = {"name": "zstd", "configuration": {"level": 3, "checksum": False}}

values = st.integers() | st.booleans() | st.text(max_size=3) | st.lists(st.integers(), max_size=2)
configurations = st.dictionaries(st.text(max_size=3), values, max_size=2)


def specs(*names):
    return st.builds(CodecSpec, st.sampled_from(sorted(names)), configurations, st.booleans())


tails = st.lists(specs("gzip", "zstd", "crc32c", "numcodecs.shuffle"), max_size=3)
chains = st.builds(
    lambda transposes, middle, filters, tail: Chain((*transposes, middle, *filters, *tail)),
    st.lists(specs("transpose"), max_size=2),
    specs(*ARRAY_TO_BYTES),
    st.lists(specs(*ARRAY_FILTERS - REGISTERED_FILTERS), max_size=2)
    | st.lists(specs(*REGISTERED_FILTERS), max_size=2),
    tails,
)


@given(chains)
def test_writing_and_reading_loses_nothing(chain):
    data = json.loads(json.dumps(chain.to_json()))
    assert Chain.from_json(data) == chain
    assert Chain.from_json(data).to_json() == data
    assert pickle.loads(pickle.dumps(chain)) == chain


@given(chains)
def test_the_normal_form_is_reached_in_one_step(chain):
    once = Chain.from_json(chain.to_json())
    assert Chain.from_json(once.to_json()) == once
    assert once.codecs[once.middle].name in ARRAY_TO_BYTES


@given(chains, chains)
def test_the_common_prefix_is_common_and_longest(a, b):
    count = a.common_prefix(b)
    assert b.common_prefix(a) == count
    assert a.codecs[:count] == b.codecs[:count]
    assert a.codecs[count : count + 1] != b.codecs[count : count + 1] or count == len(a.codecs) == len(
        b.codecs
    )
    assert a.common_prefix(a) == len(a.codecs)


@given(chains, chains)
def test_equal_chains_have_equal_hashes(a, b):
    assert (a == b) == (a.to_json() == b.to_json() and len(a.codecs) == len(b.codecs))
    assert a != b or hash(a) == hash(b)


def test_array_filters_stand_before_the_bytes_in_json_and_behind_them_inside():
    data = [TRANSPOSE, DELTA, QUANTIZE, BYTES, ZSTD]
    chain = Chain.from_json(data)
    assert [codec.name for codec in chain.codecs] == [
        "transpose", "bytes", "numcodecs.delta", "numcodecs.quantize", "zstd",
    ]  # fmt: skip
    assert chain.to_json() == data


def test_a_filter_before_a_transpose_is_no_filter_behind_it():
    with pytest.raises(UnsupportedError):
        Chain.from_json([DELTA, TRANSPOSE, BYTES])


def test_registered_filters_and_those_of_numcodecs_are_not_combined():
    with pytest.raises(UnsupportedError, match="registered filters are combined"):
        Chain.from_json([{"name": "scale_offset"}, DELTA, BYTES])


def test_a_filter_behind_a_compressor_cannot_be_written():
    chain = Chain(tuple(map(CodecSpec.from_json, (BYTES, ZSTD, DELTA))))
    with pytest.raises(UnsupportedError):
        chain.to_json()


def filters(*texts):
    """Array filters from texts such as "delta dtype=>i4 astype=<i2"."""
    specs = []
    for text in texts:
        name, *members = text.split()
        specs.append(CodecSpec(f"numcodecs.{name}", dict(member.split("=") for member in members)))
    return tuple(specs)


@pytest.mark.parametrize("endian", ["little", "big"])
def test_what_zarr_pythons_read_differently_is_refused(endian):
    other = {"little": "<", "big": ">"}[{"little": "big", "big": "little"}[endian]]
    delta = filters(f"delta dtype={other}i4 astype={other}i4")[0].to_json()
    with pytest.raises(UnsupportedError, match=r"3\.1\.6 and 3\.4\.2 read this byte order"):
        Chain.from_json([delta, {"name": "bytes", "configuration": {"endian": endian}}])


def test_a_filter_of_another_byte_order_than_the_array_cannot_be_written():
    chain = Chain((CodecSpec("bytes", {"endian": "big"}), *filters("delta dtype=<i4")))
    with pytest.raises(UnsupportedError, match="another byte order"):
        chain.to_json()


@pytest.mark.parametrize("dtype", ["float99", "", 4, ["<i4"]])
def test_a_filter_with_a_nonsensical_type_is_refused(dtype):
    delta = {"name": "numcodecs.delta", "configuration": {"dtype": dtype}}
    with pytest.raises(MetadataError, match="dtype is not a data type"):
        Chain.from_json([delta, BYTES])


def test_key_order_and_empty_configurations_do_not_count():
    assert CodecSpec.from_json(
        {"name": "zstd", "configuration": {"checksum": False, "level": 3}}
    ) == CodecSpec.from_json(ZSTD)
    assert CodecSpec.from_json("crc32c") == CodecSpec.from_json({"name": "crc32c", "configuration": {}})


def test_a_number_and_a_truth_value_are_not_equal():
    assert CodecSpec("zstd", {"checksum": False}) != CodecSpec("zstd", {"checksum": 0})


def test_must_understand_is_kept_where_it_says_something():
    plain = {"name": "crc32c", "must_understand": False}
    assert CodecSpec.from_json(plain).to_json() == plain
    assert CodecSpec.from_json({"name": "crc32c", "must_understand": True}) == CodecSpec("crc32c")


def test_its_text_is_short():
    assert str(Chain.from_json([TRANSPOSE, BYTES, ZSTD])) == "transpose > bytes:little > zstd:3"


BAD = {
    "null": None,
    "text": "bytes",
    "object": BYTES,
    "number": 3,
    "two of them": [BYTES, BYTES],
    "transpose behind bytes": [BYTES, TRANSPOSE],
    "nameless": [{"configuration": {}}],
    "name is a number": [{"name": 1}],
    "list for a codec": [["bytes"]],
    "null for a codec": [None],
    "configuration is null": [{"name": "bytes", "configuration": None}],
    "v2 form": [{"id": "zlib", "level": 1}],
    "unknown member": [BYTES | {"endian": "big"}],
    "must_understand is text": [BYTES | {"must_understand": "no"}],
}


@pytest.mark.parametrize("data", BAD.values(), ids=BAD)
def test_malformed_chains_are_refused_with_what_was_found(data):
    with pytest.raises(MetadataError) as caught:
        Chain.from_json(data)
    assert caught.value.problem.found is not None


@pytest.mark.parametrize("name", ["gzip", "reshape", "numcodecs.shuffle"])
def test_unknown_codecs_on_the_array_side_are_refused_by_name(name):
    with pytest.raises(UnsupportedError, match=name):
        Chain.from_json([{"name": name}, BYTES])


# The table of who reads what, compared with the zarr-python and the tensorstore that are installed.


CASES = all_cases()
NEWER = Version(version("zarr")) >= Version("3.4")
CASTS = find_spec("cast_value_rs") is not None


def reads(root: Path, case: Case, reader: str) -> bool:
    case.write(root)
    try:
        seen = READERS[reader](root, "").values
    except Exception:  # noqa: BLE001 - each reader has its own errors
        return False
    assert same(np.asarray(seen), case), "it reads, but not the values"
    return True


@pytest.mark.parametrize("reader", EVERY_COPY)
def test_who_reads_a_feature_is_what_the_table_says(reader: str, tmp_path: Path) -> None:
    newer = {"data type struct": NEWER, "codec scale_offset": NEWER, "codec cast_value": NEWER and CASTS}

    def check(feature: str) -> None:
        case = CASES[feature]
        only_newer = feature in newer and reader == "zarr-python"
        expected = newer[feature] if only_newer else reader in reading(features_of(case)).able
        folder = tmp_path / str([*CASES].index(feature))  # some names are none for files
        assert reads(folder, case, reader) is expected

    try_each(CASES, check)


def test_each_feature_of_the_table_has_a_case() -> None:
    cases = {name for case in CASES.values() for name in features_of(case)}
    assert features().keys() == cases, "the cases are in tests/support/reader_cases.py"


def test_only_the_newer_zarr_python_reads_structs_in_shards(tmp_path: Path) -> None:
    case = CASES["data type structured"]
    shape = list(case.values.shape)
    shard = codec("sharding_indexed", chunk_shape=shape, codecs=[LITTLE], index_codecs=[LITTLE])
    sharded = dataclasses.replace(
        case,
        codecs=[shard],
        encode=lambda chunk: chunk.tobytes() + struct.pack("<QQ", 0, chunk.nbytes),
    )
    assert reads(tmp_path / "zarr", sharded, "zarr-python") is NEWER
    assert not reads(tmp_path / "tensorstore", sharded, "tensorstore")


def test_a_codec_is_portable_if_it_is_registered_and_both_read_it() -> None:
    assert codecs()["blosc"].portable
    assert codecs()["sharding_indexed"].readers == EVERY_COPY
    assert data_types()["string"].readers == ("zarr-python",)
    assert not data_types()["raw_bytes"].portable, "it is not registered"


def test_of_a_codec_that_is_not_in_the_table_nothing_is_known() -> None:
    found = reading(("codec bytes", "codec numcodecs.zfpy", "dimension names: none"))
    assert found.able == ()
    assert dict(found.unable) == {"xarray": ("dimension names: none",)}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"data_type": "r16", "codecs": ["bytes", "zstd"]}, ("data type r*", "codec bytes", "codec zstd")),
        ({"dimension_names": None}, ("dimension names: none",)),
        ({"fill_value": ["0x7fc00001", "NaN"]}, ("fill value: bits",)),
    ],
    ids=json.dumps,
)
def test_features_of_other_documents(document: dict[str, Any], expected: tuple[str, ...]) -> None:
    assert {*expected} <= {*head_features({**CASES["data type int32"].document, **document})}


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
    plain = CASES[f"codec {name} zstd" if name == "blosc" else f"codec {name}"]
    for position, spec in enumerate(LEVELS[name]):
        case = dataclasses.replace(plain, codecs=[LITTLE, spec])
        taken = all(reads(tmp_path / f"{position}{reader}", case, reader) for reader in EVERY_COPY)
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
