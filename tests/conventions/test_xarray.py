"""`_ARRAY_DIMENSIONS` becomes `dimension_names`, where it can."""

from __future__ import annotations

from typing import Any

import pytest

from zarrlift.archive import ArrayNode, Layout
from zarrlift.conventions import recognise
from zarrlift.recipe import ArrayRecipe
from zarrstack.core.chain import Chain, CodecSpec
from zarrstack.core.dtypes import DataType
from zarrstack.core.keys import KeyEncoding


def node(ndim: int, attributes: dict[str, Any], present: Any = None) -> ArrayNode:
    layout = Layout(
        shape=(2,) * ndim,
        data_type=DataType("int8"),
        fill_value=0,
        chunk_shape=(2,) * ndim,
        chain=Chain((CodecSpec("bytes"),)),
        keys=KeyEncoding("v2", "."),
        dimension_names=present,
    )
    return ArrayNode(path="a", attributes=attributes, layout=layout)


@pytest.mark.parametrize("names", [["y", "x"], ["y", None], [None, None], ["x", "x"]])
def test_one_name_or_null_per_dimension_moves(names: list[Any]) -> None:
    seen = recognise(node(2, {"units": "m", "_ARRAY_DIMENSIONS": names}), ArrayRecipe())
    assert seen.attributes == {"units": "m"}
    assert seen.dimension_names == tuple(names)
    assert seen.problems == ()


@pytest.mark.parametrize("names", ["yx", ["y"], ["z", "y", "x"], ["y", 1], [["y"], "x"], None, {"y": 1}])
def test_anything_else_stays_an_attribute_with_a_warning(names: Any) -> None:
    attributes = {"_ARRAY_DIMENSIONS": names}
    seen = recognise(node(2, attributes), ArrayRecipe())
    assert seen.attributes == attributes
    assert seen.dimension_names is None
    assert [problem.severity for problem in seen.problems] == ["warning"]


def test_a_0d_array_loses_its_empty_list() -> None:
    seen = recognise(node(0, {"_ARRAY_DIMENSIONS": []}), ArrayRecipe())
    assert (seen.attributes, seen.problems) == ({}, ())


def test_other_names_that_the_array_has_already_win() -> None:
    attributes = {"_ARRAY_DIMENSIONS": ["y", "x"]}
    seen = recognise(node(2, attributes, ("lat", "lon")), ArrayRecipe())
    assert seen.attributes == attributes
    assert seen.dimension_names == ("lat", "lon")
    assert [problem.severity for problem in seen.problems] == ["warning"]


@pytest.mark.parametrize("present", [("y", "x"), (None, None)])
def test_the_same_names_or_none_do_not_stand_in_the_way(present: Any) -> None:
    seen = recognise(node(2, {"_ARRAY_DIMENSIONS": ["y", "x"]}, present), ArrayRecipe())
    assert (seen.attributes, seen.dimension_names, seen.problems) == ({}, ("y", "x"), ())


@pytest.mark.parametrize(
    ("attributes", "conventions"),
    [({"_ARRAY_DIMENSIONS": ["y", "x"]}, "none"), ({"units": "m"}, "auto"), ({}, "auto")],
)
def test_without_the_attribute_or_the_wish_nothing_changes(attributes: Any, conventions: Any) -> None:
    seen = recognise(node(2, attributes), ArrayRecipe(conventions=conventions))
    assert (seen.attributes, seen.dimension_names, seen.problems) == (attributes, None, ())
