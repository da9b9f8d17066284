"""The fixtures are there, unchanged, and cover what they promise."""

from __future__ import annotations

import importlib.util
import json
from functools import cache
from typing import Any

import numpy as np
import pytest
from fixtures_index import FIXTURES, ExpectedArchive, archive, archives, arrays, same

DTYPES = (
    ["|b1", "|i1", "|u1"]
    + [f"{order}{kind}" for kind in ("i2", "i4", "i8", "u2", "u4", "u8") for order in "<>"]
    + [f"{order}{kind}" for kind in ("f2", "f4", "f8", "c8", "c16") for order in "<>"]
    + ["|S6", "<U7", ">U7", "|V5", "<M8[ns]", ">M8[ns]", "<M8[D]", "<m8[s]", ">m8[ns]", "<M8[25s]", "|O"]
)

COMPRESSORS = ("zlib", "gzip", "bz2", "lzma", "lz4", "zstd", "blosc")
FILTERS = (
    *("delta", "fixedscaleoffset", "quantize", "bitround", "astype", "packbits", "shuffle", "categorize"),
    *("crc32", "crc32c", "adler32", "fletcher32", "jenkins_lookup3"),
    *("vlen-utf8", "vlen-bytes", "vlen-array", "json2", "msgpack2", "pickle"),
)


@cache
def documents() -> tuple[dict[str, Any], ...]:
    """Every `.zarray` in the fixtures that lie as folders."""
    folders = (one.path for one in archives() if one.kind == "directory")
    return tuple(json.loads(file.read_bytes()) for folder in folders for file in folder.rglob(".zarray"))


def test_no_fixture_changed_unnoticed() -> None:
    spec = importlib.util.spec_from_file_location("manifest", FIXTURES / "writers" / "manifest.py")
    assert spec is not None
    assert spec.loader is not None
    manifest = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(manifest)
    assert manifest.entries() == manifest.read()


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_data_type_has_an_array_in_c_and_f_order(dtype: str) -> None:
    orders = {d.get("order") for d in documents() if d["dtype"] == dtype}
    assert orders >= {"C", "F"}


@pytest.mark.parametrize("codec", COMPRESSORS + FILTERS)
def test_every_codec_has_an_array(codec: str) -> None:
    used = (c for d in documents() for c in (d.get("compressor"), *(d.get("filters") or ())) if c)
    assert codec in {c["id"] for c in used}


@pytest.mark.parametrize("one", archives(), ids=str)
def test_expectations_load_and_have_the_shape_of_their_array(one: ExpectedArchive) -> None:
    assert one.path.exists()
    for array in one.arrays.values():
        if array.unreadable is None:
            assert array.values.shape == array.shape
            assert array.values.dtype == array.little


def test_awkward_values_keep_their_bits() -> None:
    floats = archive("zarr-2.18/dtypes")["C/be_f4"].values.reshape(-1)
    assert floats.view("<u4")[1] == 0x7FC0BEEF
    assert np.signbit(floats[6])
    assert floats[6] == 0


def test_equality_is_by_bits_not_by_value() -> None:
    assert same(np.array([np.nan, 1], "<f4"), np.array([np.nan, 1], ">f4"))
    assert not same(np.array([0.0]), np.array([-0.0]))


def test_no_two_arrays_share_an_id() -> None:
    ids = [array.id for array in arrays()]
    assert len(ids) == len(set(ids))
