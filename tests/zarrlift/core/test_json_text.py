"""Metadata documents as text."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from zarrstack.core.json_text import document

TEXT = st.text(max_size=5) | st.sampled_from(["\ud800", "NaN", "\u00e4"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(TEXT, VALUES, max_size=4)


@given(value=OBJECTS, attributes=OBJECTS)
def test_the_text_of_a_document_has_its_values(value, attributes):
    for whole in (value, {**value, "attributes": attributes}):
        assert json.loads(document(whole)) == whole
