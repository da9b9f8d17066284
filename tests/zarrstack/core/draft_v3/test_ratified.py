"""Arrays of the 2022 draft as `zarr.json`, and back, in both dialects."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.v3_documents import document, read_by_zarr

from zarrstack.core.chain.chain import Chain
from zarrstack.core.chain.codec_spec import CodecSpec
from zarrstack.core.data_types.v3 import DataType, fill_to_json, zero_fill
from zarrstack.core.draft_v3.array import DraftArray, describe_array
from zarrstack.core.draft_v3.nodes import Dialect
from zarrstack.core.draft_v3.ratified import draft_document, from_ratified, to_ratified
from zarrstack.core.errors import MetadataError, UnsupportedError
from zarrstack.core.json_text import canonical
from zarrstack.core.zarr_v2.chain import read_chain

TEXT, ZARR_PYTHON = Dialect.TEXT, Dialect.ZARR_PYTHON
DIALECTS = [TEXT, ZARR_PYTHON]
TYPES = "bool int8 uint8 int16 uint64 float16 float32 float64 complex64 complex128".split()
CODECS = {
    "none": [],
    "gzip": [CodecSpec("gzip", {"level": 3})],
    "zstd": [CodecSpec("zstd", {"level": 1, "checksum": False})],
    "zlib": [CodecSpec("numcodecs.zlib", {"level": 1})],
}


@st.composite
def arrays(draw) -> DraftArray:
    """Any array that both dialects can say."""
    ndim = draw(st.integers(0, 3))
    shape = tuple(draw(st.lists(st.integers(0, 20), min_size=ndim, max_size=ndim)))
    chunks = tuple(draw(st.lists(st.integers(1, 5), min_size=ndim, max_size=ndim)))
    counts = tuple(draw(st.lists(st.integers(1, 4), min_size=ndim, max_size=ndim)))
    data_type = DataType(draw(st.sampled_from(TYPES)))
    endian = draw(st.sampled_from(["little", "big"]))
    packing = CodecSpec("bytes", {"endian": endian} if data_type.itemsize > 1 else {})
    reverse = draw(st.booleans()) and ndim > 1
    front = [CodecSpec("transpose", {"order": list(reversed(range(ndim)))})] if reverse else []
    value = draw(st.sampled_from([zero_fill(data_type), np.ones((), data_type.numpy)[()]]))
    names = st.lists(st.none() | st.text(max_size=3), min_size=ndim, max_size=ndim)
    attributes = draw(st.dictionaries(st.sampled_from(["a", "b"]), st.integers() | st.text(max_size=3)))
    if draw(st.booleans()):
        attributes["_ARRAY_DIMENSIONS"] = draw(names)
    return DraftArray(
        shape=shape,
        chunk_shape=chunks,
        data_type=data_type,
        fill_value=fill_to_json(value, data_type),
        chain=Chain((*front, packing, *draw(st.sampled_from(list(CODECS.values()))))),
        separator=draw(st.sampled_from("/.")),
        chunks_per_shard=draw(st.sampled_from([None, counts])),
        attributes=attributes,
    )


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
@given(array=arrays())
def test_an_array_comes_back_from_both_documents(dialect, array) -> None:
    shown = to_ratified(array)
    again = from_ratified(json.loads(json.dumps(shown)))
    assert canonical(to_ratified(again)) == canonical(shown)
    kept = draft_document(again, dialect)
    described, _ = describe_array(kept, dialect)
    assert canonical(to_ratified(described)) == canonical(shown)


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
@given(array=arrays(), more=st.integers(0, 3))
def test_where_shape_and_attributes_change_nothing_else_does(dialect, array, more) -> None:
    old = draft_document(array, dialect) | {"extensions": [{"extension": "x:y", "must_understand": False}]}
    changed = to_ratified(array) | {"shape": [n + more for n in array.shape], "attributes": {"new": more}}
    changed.pop("dimension_names", None)
    new = draft_document(from_ratified(changed), dialect, old)
    assert (new["shape"], new["attributes"]) == ([n + more for n in array.shape], {"new": more})
    assert {**new, "shape": 0, "attributes": 0} == {**old, "shape": 0, "attributes": 0}


FILTERED = {
    "attributes": {"filters": [{"id": "delta", "dtype": "<i4", "astype": "<i2"}], "unit": "m"},
    "chunk_grid": {"chunk_shape": [2], "separator": "/", "type": "regular"},
    "chunk_memory_layout": "C",
    "data_type": "<i4",
    "extensions": [],
    "fill_value": None,
    "shape": [4],
}


def test_filters_are_codecs_above_and_stay_attributes_below() -> None:
    array, _ = describe_array(FILTERED, ZARR_PYTHON, read_filtered=read_chain)
    shown = to_ratified(array)
    assert [codec["name"] for codec in shown["codecs"]] == ["numcodecs.delta", "bytes"]
    assert shown["attributes"] == {"unit": "m"}
    shown["attributes"] = {"unit": "s"}
    new = draft_document(from_ratified(shown), ZARR_PYTHON, FILTERED, read_filtered=read_chain)
    assert new == FILTERED | {"attributes": {"filters": FILTERED["attributes"]["filters"], "unit": "s"}}
    with pytest.raises(UnsupportedError):  # there is no other way to say it
        draft_document(from_ratified(shown), ZARR_PYTHON)
    shown["attributes"] = {"filters": 1}
    with pytest.raises(UnsupportedError, match="another name"):
        draft_document(from_ratified(shown), ZARR_PYTHON, FILTERED, read_filtered=read_chain)


WRONG = {
    "an unknown member": {"more": 1},
    "a storage transformer": {"storage_transformers": [{"name": "x"}]},
    "another grid": {"chunk_grid": {"name": "rectilinear", "configuration": {}}},
    "keys of Zarr v2": {"chunk_key_encoding": {"name": "v2"}},
    "too many dimension names": {"dimension_names": ["a", "b"]},
    "attributes that are none": {"attributes": []},
    "a fill value that is none": {"fill_value": "x"},
    "shards of shards": {
        "codecs": [
            {
                "name": "sharding_indexed",
                "configuration": {
                    "chunk_shape": [2],
                    "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
                    "codecs": [
                        {
                            "name": "sharding_indexed",
                            "configuration": {"chunk_shape": [1], "codecs": [], "index_codecs": []},
                        }
                    ],
                },
            }
        ]
    },
    "a shard that holds no whole chunks": {
        "codecs": [
            {
                "name": "sharding_indexed",
                "configuration": {
                    "chunk_shape": [3],
                    "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
                    "codecs": [{"name": "bytes"}],
                },
            }
        ]
    },
}


@pytest.mark.parametrize("changed", WRONG.values(), ids=WRONG)
def test_what_no_draft_can_say_is_refused(changed) -> None:
    sound = json.loads(document("int32", 0))
    assert from_ratified(sound).shape == (3,)
    with pytest.raises((UnsupportedError, MetadataError)):
        from_ratified({**sound, **changed})


@pytest.mark.parametrize("missing", ["shape", "data_type", "chunk_grid", "codecs", "fill_value"])
def test_a_member_that_is_missing_is_named(missing) -> None:
    sound = json.loads(document("int32", 0))
    with pytest.raises(MetadataError, match="missing") as caught:
        from_ratified({name: value for name, value in sound.items() if name != missing})
    assert missing in caught.value.problem.found


@given(array=arrays())
def test_zarr_python_opens_what_is_shown(array) -> None:
    found = read_by_zarr(json.dumps(to_ratified(array)).encode())
    assert found.shape == array.shape
    assert found.dtype == array.data_type.numpy
