"""Metadata documents as text, one by one and thousands that share members."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from zarrstack.core.json_text import DocumentTexts, document

TEXT = st.text(max_size=5) | st.sampled_from(["\ud800", "NaN", "\u00e4"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(TEXT, VALUES, max_size=4)


@given(head=OBJECTS, others=st.lists(OBJECTS, min_size=1, max_size=3), tail=OBJECTS)
def test_documents_that_share_members_have_the_text_that_each_has_alone(head, others, tail):
    text = DocumentTexts()
    for attributes in (*others, others[0]):
        for value in ({**head, "attributes": attributes}, {"attributes": attributes, **head, **tail}, head):
            assert text(value) == document(value)
            assert json.loads(text(value)) == value
