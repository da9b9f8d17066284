"""`_ARRAY_DIMENSIONS` becomes `dimension_names`, where it can."""

from __future__ import annotations

from typing import Any

import pytest

from zarrlift.archive import Archive, ArrayNode, Layout
from zarrlift.conventions import Change, apply_conventions
from zarrlift.recipe import ArrayRecipe, Recipe
from zarrstack.core.chain import Chain, CodecSpec
from zarrstack.core.dtypes import DataType
from zarrstack.core.errors import Problem
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


def recognise(node: ArrayNode, conventions: str = "auto") -> tuple[Change, tuple[Problem, ...]]:
    """What becomes of an array that is an archive of its own, and what is said of it."""
    archive = Archive(url="x", format="zarr2", nodes=(node,))
    applied = apply_conventions(archive, None, Recipe(base=ArrayRecipe(conventions=conventions)))
    return applied.change(node.path), applied.told(node.path)


@pytest.mark.parametrize("names", [["y", "x"], ["y", None], [None, None], ["x", "x"]])
def test_one_name_or_null_per_dimension_moves(names: list[Any]) -> None:
    change, told = recognise(node(2, {"units": "m", "_ARRAY_DIMENSIONS": names}))
    assert change.attributes == {"units": "m"}
    assert change.dimension_names == tuple(names)
    assert told == ()


@pytest.mark.parametrize("names", ["yx", ["y"], ["z", "y", "x"], ["y", 1], [["y"], "x"], None, {"y": 1}])
def test_anything_else_stays_an_attribute_with_a_warning(names: Any) -> None:
    change, told = recognise(node(2, {"_ARRAY_DIMENSIONS": names}))
    assert change == Change()
    assert [problem.severity for problem in told] == ["warning"]


def test_a_0d_array_loses_its_empty_list() -> None:
    change, told = recognise(node(0, {"_ARRAY_DIMENSIONS": []}))
    assert (change.attributes, told) == ({}, ())


def test_other_names_that_the_array_has_already_win() -> None:
    change, told = recognise(node(2, {"_ARRAY_DIMENSIONS": ["y", "x"]}, ("lat", "lon")))
    assert change == Change()
    assert [problem.severity for problem in told] == ["warning"]


@pytest.mark.parametrize("present", [("y", "x"), (None, None)])
def test_the_same_names_or_none_do_not_stand_in_the_way(present: Any) -> None:
    change, told = recognise(node(2, {"_ARRAY_DIMENSIONS": ["y", "x"]}, present))
    assert (change.attributes, change.dimension_names, told) == ({}, ("y", "x"), ())


@pytest.mark.parametrize(
    ("attributes", "conventions"),
    [({"_ARRAY_DIMENSIONS": ["y", "x"]}, "none"), ({"units": "m"}, "auto"), ({}, "auto")],
)
def test_without_the_attribute_or_the_wish_nothing_changes(attributes: Any, conventions: str) -> None:
    assert recognise(node(2, attributes), conventions) == (Change(), ())
