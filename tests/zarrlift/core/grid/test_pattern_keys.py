"""Keys by patterns: every name that was added has an index of its own, and the index gives the name."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.chances import examples

from zarrlift.core.grid.chunk_keys import chunk_keys_from_json
from zarrlift.core.grid.pattern_keys import NamePatterns, PatternKeys
from zarrstack.core.errors import MetadataError, UnsupportedError

NAMES = st.lists(
    st.text(st.sampled_from("c/.%d0123é-"), min_size=1, max_size=24), min_size=1, max_size=30, unique=True
)


def keys_of(names: list[str]) -> PatternKeys:
    patterns = NamePatterns()
    for name in names:
        patterns.add(name)
    return patterns.keys()


@given(NAMES)
@examples(200)
def test_each_name_has_an_index_of_its_own(names: list[str]) -> None:
    keys = keys_of(names)
    places = [keys.coordinates(name, 1) for name in names]
    assert None not in places
    assert len(set(places)) == len(names)
    assert all(0 <= place[0] < keys.total for place in places if place is not None)
    assert keys.keys(np.array(places, np.int64)) == names
    assert [keys.key(place) for place in places if place is not None] == names


def test_chunks_of_a_grid_have_one_pattern() -> None:
    keys = keys_of([f"c/{i}/{j}" for i in range(3, 9) for j in range(100)])
    assert keys.patterns == (("c/%d/%d", ((3, 8), (0, 99))),)
    assert keys.total == 600
    assert keys.coordinates("c/2/0", 2) is None
    assert keys.coordinates("c/3/00", 2) is None
    assert keys.coordinates("c.3.0", 2) is None


def test_leading_zeros_and_percent_signs_are_kept() -> None:
    keys = keys_of(["007", "7", "0100", "100%", "9" * 30])
    assert {pattern for pattern, _ in keys.patterns} == {"%03d", "%d", "%04d", "%d%%", "9" * 30}
    assert [keys.key((index,)) for index in range(keys.total)] == ["007", "0100", "7", "100%", "9" * 30]


def test_their_json_is_complete() -> None:
    keys = keys_of(["c/0/1", "c/10/0", "note.txt"])
    assert chunk_keys_from_json(keys.to_json()) == keys
    assert pickle.loads(pickle.dumps(keys)) == keys
    with pytest.raises(MetadataError, match="not keys by patterns"):
        PatternKeys.from_json({"name": "patterns"})


def test_names_without_a_pattern_are_refused() -> None:
    patterns = NamePatterns()
    letters = str.maketrans("0123456789", "ghijklmnop")
    names = [f"{number:x}".translate(letters) for number in range(10_001)]
    for name in names[:-1]:
        patterns.add(name)
    with pytest.raises(UnsupportedError, match="no pattern"):
        patterns.add(names[-1])
