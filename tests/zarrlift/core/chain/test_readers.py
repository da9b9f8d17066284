"""The table of who reads what, held against the zarr-python and the tensorstore that are installed."""

from __future__ import annotations

import dataclasses
import json
import struct
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.reader_cases import LITTLE, Case, all_cases, blosc, cases, codec, same
from tests.support.tiny_arrays import read_tensorstore, read_zarr

from zarrlift.core.chain.codec_limits import limits_problem, within_limits
from zarrlift.core.chain.reader_table import (
    Reader,
    codecs,
    data_types,
    head_features,
    node_features,
    readers,
    table,
)
from zarrstack.core.codec_spec import CodecSpec
from zarrstack.core.errors import UsageError

CASES = all_cases()
ZARR, TENSORSTORE = "zarr-python", "tensorstore"


def installed() -> list[Reader]:
    """The zarr-python and the tensorstore of this end."""
    here = {ZARR: version("zarr"), TENSORSTORE: version("tensorstore")}
    return [reader for reader in table().readers if here.get(reader.name) == reader.version]


def reads(root: Path, case: Case, reader: Reader) -> bool:
    case.write(root)
    try:
        seen = {ZARR: read_zarr, TENSORSTORE: read_tensorstore}[reader.name](root)
    except Exception:  # noqa: BLE001 - each reader has its own errors
        return False
    if case.values.dtype.kind == "V" and reader.name == TENSORSTORE:
        return seen.tobytes() == case.values.tobytes()  # as single bytes along one more axis
    assert same(np.asarray(seen), case), "it reads, but not the values"
    return True


def test_one_zarr_python_and_tensorstore_of_the_table_are_installed() -> None:
    assert {reader.name for reader in installed()} == {ZARR, TENSORSTORE}, "bring the table to these versions"


@pytest.mark.parametrize("name", [ZARR, TENSORSTORE])
@pytest.mark.parametrize("feature", CASES)
def test_who_reads_a_feature_is_what_the_table_says(feature: str, name: str, tmp_path: Path) -> None:
    (reader,) = (reader for reader in installed() if reader.name == name)
    case = CASES[feature]
    assert reads(tmp_path / case.name, case, reader) is reader.answer(feature)


@pytest.mark.parametrize("feature", CASES)
def test_the_document_of_a_case_has_its_feature(feature: str) -> None:
    case = CASES[feature]
    assert feature in {*head_features(case.document), *node_features(case.name, dict(case.attributes))}


def test_the_table_has_the_cases_and_answers_all_of_them_for_tested_readers() -> None:
    assert {group: list(names) for group, names in table().features.items()} == {
        group: list(found) for group, found in cases().items()
    }
    for reader in table().readers:
        known = {*reader.reads, *reader.refuses}
        assert known <= CASES.keys()
        assert (reader.tested is None) or known == CASES.keys()
        assert reader.tested or reader.source or reader.built_on, f"{reader} has no evidence"
        assert not reader.reads & reader.refuses.keys()


def test_only_the_newer_zarr_python_reads_structs_in_shards(tmp_path: Path) -> None:
    case = CASES["data type structured"]
    shape = list(case.values.shape)
    shard = codec("sharding_indexed", chunk_shape=shape, codecs=[LITTLE], index_codecs=[LITTLE])
    sharded = dataclasses.replace(
        case,
        codecs=[shard],
        encode=lambda chunk: chunk.tobytes() + struct.pack("<QQ", 0, chunk.nbytes),
    )
    for reader in installed():
        assert reads(tmp_path / reader.name, sharded, reader) is (str(reader) == "zarr-python 3.4.2")


def test_a_row_counts_the_variants_of_a_name_together() -> None:
    assert codecs()["blosc"].portable
    assert codecs()["sharding_indexed"].readers == readers()
    assert data_types()["struct"].strangers == ("zarr-python 3.1.6", "tensorstore 0.1.86")
    assert not data_types()["raw_bytes"].portable, "it is not registered"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("gdal", "gdal 3.12.2"),
        ("GDAL 3.10", "gdal 3.10.3"),
        ("gdal==3.13", "gdal 3.13"),
        ("zarr-python 3", "zarr-python 3.4.2"),
        ("anndata", "anndata"),
    ],
)
def test_a_name_means_the_newest_version_that_was_tested(text: str, found: str) -> None:
    assert str(table().named(text)) == found


@pytest.mark.parametrize(
    ("text", "words"), [("gdl", "Did you mean 'gdal'"), ("gdal 2", "unknown version of gdal"), ("", "''")]
)
def test_an_unknown_reader_is_named(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        table().named(text)


def test_a_reader_that_is_built_on_another_has_its_answers() -> None:
    assert table().named("vizarr").reads is table().named("zarrita").reads


@pytest.mark.parametrize(
    ("document", "features"),
    [
        ({"data_type": "r16", "codecs": ["bytes", "zstd"]}, ("data type r16", "codec bytes", "codec zstd")),
        ({"dimension_names": ["x", None]}, ("dimension names: some",)),
        ({"fill_value": ["NaN", "-Infinity"]}, ("fill value: NaN", "fill value: Infinity")),
    ],
    ids=json.dumps,
)
def test_features_of_other_documents(document: dict[str, Any], features: tuple[str, ...]) -> None:
    assert {*features} <= {*head_features({**CASES["data type int32"].document, **document})}


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
        taken = all(reads(tmp_path / f"{position}{reader}", case, reader) for reader in installed())
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
