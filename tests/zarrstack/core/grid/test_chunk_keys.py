"""Chunk keys: one key per chunk, one chunk per key."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zarrstack.core.chunk_keys_v3 import KeyEncoding
from zarrstack.core.errors import MetadataError

ENCODINGS = [KeyEncoding(name, separator) for name in ("default", "v2") for separator in (".", "/")]
encodings = pytest.mark.parametrize("encoding", ENCODINGS, ids=str)
places = st.lists(st.integers(0, 2**63 - 1), max_size=5).map(tuple)


@pytest.mark.parametrize(
    ("name", "separator", "place", "key"),
    [
        ("default", "/", (1, 23, 45), "c/1/23/45"),
        ("default", ".", (1, 23, 45), "c.1.23.45"),
        ("default", "/", (), "c"),
        ("default", ".", (), "c"),
        ("v2", ".", (1, 23, 45), "1.23.45"),
        ("v2", "/", (1, 23, 45), "1/23/45"),
        ("v2", ".", (), "0"),
        ("v2", "/", (0,), "0"),
    ],
)
def test_keys_as_the_specification_gives_them(name, separator, place, key):
    assert KeyEncoding(name, separator).key(place) == key


@encodings
@given(place=places)
def test_a_key_leads_back_to_its_chunk(encoding, place):
    assert encoding.coordinates(encoding.key(place), len(place)) == place


@encodings
@given(place=places)
def test_a_key_is_as_deep_as_it_has_segments(encoding, place):
    assert len(encoding.key(place).split("/")) == encoding.depth(len(place))


@encodings
@given(key=st.from_regex(r"(c[./])?[0-9]{1,3}([./][0-9]{1,3}){0,3}", fullmatch=True) | st.text(max_size=8))
def test_only_its_own_key_leads_to_a_chunk(encoding, key):
    for ndim in range(5):
        place = encoding.coordinates(key, ndim)
        assert place is None or encoding.key(place) == key


@encodings
@given(data=st.data())
def test_keys_of_many_chunks_are_those_of_each(encoding, data):
    ndim = data.draw(st.integers(0, 4))
    rows = data.draw(st.lists(st.tuples(*[st.integers(0, 2**63 - 1)] * ndim), max_size=5))
    array = np.array(rows, dtype=np.int64).reshape(len(rows), ndim)
    assert encoding.keys(array) == [encoding.key(row) for row in rows]


NO_KEYS = (
    *("", "c", "c/", "c/1", "c/1/2/3", "c//2", "c/01/2", "c/-1/2", "c/1.5/2", "c/+1/2", "c/1/2/"),
    *("/c/1/2", "C/1/2", "c/1/٢", "c/ 1/2", "c/1/2\n", "c/1e3/2", "c/1_0/2", ".zarray", "zarr.json"),
    "c/1/" + "9" * 5000,
)


@encodings
def test_other_names_are_no_keys(encoding):
    for key in NO_KEYS:
        own = key.replace("/", encoding.separator)
        if encoding.name == "v2":
            own = own.removeprefix("c" + encoding.separator)
        assert encoding.coordinates(own, 2) is None, key


@encodings
def test_json_survives_reading_and_writing(encoding):
    assert KeyEncoding.from_json(json.loads(json.dumps(encoding.to_json()))) == encoding


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        ("default", KeyEncoding("default", "/")),
        ({"name": "default"}, KeyEncoding("default", "/")),
        ({"name": "v2"}, KeyEncoding("v2", ".")),
        ({"name": "v2", "configuration": {}}, KeyEncoding("v2", ".")),
        ({"name": "v2", "configuration": {"separator": "/"}}, KeyEncoding("v2", "/")),
    ],
    ids=str,
)
def test_what_is_left_out_has_a_default(data, encoding):
    assert KeyEncoding.from_json(data) == encoding


@pytest.mark.parametrize(
    "data",
    [
        None,
        3,
        [],
        {},
        "n5",
        {"name": "suffix"},
        {"name": ["v2"]},
        {"name": "v2", "configuration": {"separator": ""}},
        {"name": "v2", "configuration": {"separator": ["/"]}},
        {"name": "v2", "configuration": {"separator": None}},
        {"name": "v2", "configuration": ["/"]},
        {"name": "v2", "configuration": {"suffix": ".shard"}},
        {"name": "v2", "separator": "/"},
    ],
    ids=str,
)
def test_encodings_that_are_not_known_are_refused(data):
    with pytest.raises(MetadataError) as caught:
        KeyEncoding.from_json(data)
    assert caught.value.problem.found is not None
