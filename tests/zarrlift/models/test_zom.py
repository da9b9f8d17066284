"""The tree itself: flat and back, the name `members`, and what no tree may be."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from zarrlift import models
from zarrlift.models.zom import in_document, in_model, is_ambiguous, model_problems
from zarrstack.core.errors import MetadataError

GROUP = {"zarr_format": 3, "node_type": "group", "attributes": {}}
ARRAY = {"zarr_format": 2, "shape": [1], "attributes": {}}

names = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="/\\\0"), min_size=1, max_size=5
).filter(lambda name: name.strip(".") and name != "zarr.json")


@st.composite
def trees(draw):
    """A v3 model of groups and of things that are no groups."""
    if draw(st.booleans()):
        return {"zarr_format": 3, "node_type": "array", "shape": [draw(st.integers(0, 9))], "attributes": {}}
    members = draw(st.dictionaries(names, st.deferred(trees), max_size=3))
    return {
        **GROUP,
        "attributes": draw(st.dictionaries(names, st.integers(), max_size=2)),
        "members": members,
    }


@given(trees())
def test_flat_and_back_is_the_same_model(model):
    assert models.unflatten(models.flatten(model)) == model
    assert model_problems(model) == []


@given(trees())
def test_a_flat_model_has_each_node_once_and_no_members(model):
    def count(node):
        return 1 + sum(count(member) for member in node.get("members", {}).values())

    flat = models.flatten(model)
    assert len(flat) == count(model)
    assert not any("members" in node for node in flat.values())


def test_paths_may_begin_with_a_slash_and_groups_may_be_missing():
    model = models.unflatten({"/a/b": {**GROUP, "attributes": {"x": 1}}})
    assert model == {
        **GROUP,
        "members": {"a": {**GROUP, "members": {"b": {**GROUP, "attributes": {"x": 1}, "members": {}}}}},
    }


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        pytest.param({"members": 1}, {"_members": 1, "members": {}}, id="members"),
        pytest.param(
            {"members": 1, "_members": 2}, {"__members": 1, "_members": 2, "members": {}}, id="both"
        ),
        pytest.param(
            {"__members": 3, "members": 1, "_members": 2},
            {"__members": 3, "___members": 1, "_members": 2, "members": {}},
            id="all-three",
        ),
        pytest.param(
            {"attributes": {"members": 1}}, {"attributes": {"members": 1}, "members": {}}, id="inside"
        ),
    ],
)
def test_a_property_called_members_gets_underscores(document, expected):
    """ZEP 6, of the base model: as many underscores as it takes until the name is free."""
    assert in_model(document, {}) == expected
    assert in_document(expected) == document


@given(st.dictionaries(st.sampled_from(["members", "_members", "__members", "x"]), st.integers()))
def test_renaming_loses_nothing_but_where_zep_6_is_ambiguous(document):
    back = in_document(in_model(document, {}))
    assert sorted(back.values()) == sorted(document.values())
    assert is_ambiguous(document) == (back != document)
    # Names without a gap from `members` on leave no doubt.
    names = sorted(name for name in document if name != "x")
    if names in ([], ["members"], ["_members", "members"], ["__members", "_members", "members"]):
        assert back == document


def test_a_group_of_v3_with_a_member_called_members_round_trips(tmp_path):
    (tmp_path / "zarr.json").write_text(
        '{"zarr_format": 3, "node_type": "group", "members": {"must_understand": false}}'
    )
    shown = models.show(tmp_path)
    assert shown.model["_members"] == {"must_understand": False}
    models.create(shown, tmp_path / "again")
    assert '"members": {"must_understand": false}' in (tmp_path / "again" / "zarr.json").read_text()
    assert models.show(tmp_path / "again").model == shown.model


def test_what_would_not_read_back_is_told(tmp_path):
    (tmp_path / "zarr.json").write_text('{"zarr_format": 3, "node_type": "group", "_members": {}}')
    (problem,) = (problem for problem in models.show(tmp_path).problems if problem.kind == "model")
    assert problem.severity == "warning"


@pytest.mark.parametrize(
    ("flat", "message"),
    [
        ({}, "contains no node"),
        ({"a": ARRAY, "a/b": ARRAY}, "below an array"),
        ({"..": ARRAY}, "periods"),
        ({"a//b": ARRAY}, "empty name"),
        ({"/".join("a" * 300): GROUP}, "levels deep"),
    ],
    ids=["nothing", "below-an-array", "periods", "empty-name", "deep"],
)
def test_what_is_no_tree_is_refused(flat, message):
    with pytest.raises(MetadataError, match=message):
        models.unflatten(flat)
