"""Keys by a pattern: what `str.format` makes, one key per chunk, one chunk per key."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zarrlift.core.grid.chunk_keys import PatternKeys, chunk_keys_from_json, chunk_keys_of
from zarrstack.core.chunk_keys_v3 import KeyEncoding
from zarrstack.core.errors import MetadataError

PATTERNS = (
    *("data.bin", "{0}.raw", "chunk{0:04}", "tile_{0:03}_{1:03}.bin", "z{1}/y{0}", "{2}/a{0:02}/{1}_b"),
    *("1{0}", "{0}1a1{1}", "(x)[{0}]+{1}%s"),
)
each_pattern = pytest.mark.parametrize("pattern", PATTERNS)


def fields(pattern: str) -> int:
    return pattern.count("{")


@each_pattern
@given(data=st.data())
def test_a_key_is_what_format_makes_and_leads_back_to_its_chunk(pattern, data):
    ndim = fields(pattern)
    rows = data.draw(st.lists(st.tuples(*[st.integers(0, 2**63 - 1)] * ndim), max_size=4))
    keys = PatternKeys(pattern)
    for row in rows:
        assert keys.key(row) == pattern.format(*row)
        assert keys.coordinates(keys.key(row), ndim) == row
        assert keys.coordinates(keys.key(row), ndim + 1) is None
        segments = keys.key(row).split("/")
        assert len(segments) == keys.depth(ndim)
        assert all(keys.fits(level, name) for level, name in enumerate(segments))
        assert keys.key(row).startswith(keys.start)
    many = np.array(rows, dtype=np.int64).reshape(len(rows), ndim)
    assert keys.keys(many) == [keys.key(row) for row in rows]


@given(
    pattern=st.sampled_from(["{0}.raw", "chunk{0:04}", "tile_{0:03}_{1:03}.bin", "{0}1a1{1}"]),
    key=st.from_regex(r"(chunk|tile_)?[0-9]{1,5}(_|1a1)?[0-9]{0,4}(\.raw|\.bin)?", fullmatch=True),
)
def test_only_its_own_key_leads_to_a_chunk(pattern, key):
    keys = PatternKeys(pattern)
    place = keys.coordinates(key, keys.ndim)
    assert place is None or keys.key(place) == key


@pytest.mark.parametrize(
    ("key", "place"),
    [
        ("tile_003_001.bin", (3, 1)),
        ("tile_1003_001.bin", (1003, 1)),
        ("tile_3_001.bin", None),
        ("tile_0003_001.bin", None),
        ("tile_003_001.bin\n", None),
        ("tile_٠٠٣_001.bin", None),
        ("xtile_003_001.bin", None),
    ],
)
def test_a_number_has_one_form(key, place):
    assert PatternKeys("tile_{0:03}_{1:03}.bin").coordinates(key, 2) == place


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("{0}{1}", "a text between them"),
        ("{0:02}7{1:02}", "a text between them"),
        ("{0}.{0}", "one field for each axis"),
        ("{1}", "one field for each axis"),
        ("{0}.{x}", "fields such as"),
        ("{{0}}", "fields such as"),
        ("{0:x}", "fields such as"),
        ("{0!r}", "fields such as"),
        ("../{0}", "a relative path"),
        ("/{0}", "a relative path"),
        ("a//{0}", "a relative path"),
        ("a/", "a relative path"),
        ("", "a relative path"),
        ("a\\{0}", "a relative path"),
    ],
)
def test_a_pattern_without_one_meaning_is_refused(pattern, words):
    with pytest.raises(MetadataError, match=words):
        PatternKeys(pattern)


@pytest.mark.parametrize(
    ("pattern", "ndim", "keys"),
    [
        ("c/{0}/{1}", 2, KeyEncoding("default", "/")),
        ("c.{0}", 1, KeyEncoding("default", ".")),
        ("{0}.{1}", 2, KeyEncoding("v2", ".")),
        ("{0}/{1}/{2}", 3, KeyEncoding("v2", "/")),
        ("0", 0, KeyEncoding("v2", "/")),
        ("c", 0, KeyEncoding("default", "/")),
        ("{1}.{0}", 2, PatternKeys("{1}.{0}")),
        ("c{0}", 1, PatternKeys("c{0}")),
    ],
)
def test_a_pattern_with_the_keys_of_v3_is_its_encoding(pattern, ndim, keys):
    assert chunk_keys_of(pattern, ndim) == keys
    place = tuple(range(3, 3 + ndim))
    assert keys.key(place) == pattern.format(*place)


def test_a_pattern_is_for_one_number_of_axes():
    with pytest.raises(MetadataError, match="one field for each axis"):
        chunk_keys_of("{0}.{1}", 3)


@each_pattern
def test_a_saved_pattern_is_equal(pattern):
    keys = PatternKeys(pattern)
    assert chunk_keys_from_json(json.loads(json.dumps(keys.to_json()))) == keys


@pytest.mark.parametrize("data", [{"name": "pattern"}, {"name": "pattern", "configuration": {"pattern": 1}}])
def test_a_pattern_without_text_is_refused(data):
    with pytest.raises(MetadataError, match="not a pattern of keys"):
        chunk_keys_from_json(data)
