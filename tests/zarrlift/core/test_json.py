"""JSON of documents and paths of nodes: their text, what is read from it, values that nothing changes."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PureWindowsPath
from types import MappingProxyType
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zarrlift.core.codec_spec import CodecSpec
from zarrlift.core.data_types.v3 import DataType
from zarrlift.core.frozen_json import frozen
from zarrlift.core.json_document import document
from zarrlift.core.json_fields import FieldsAsJSON, json_of_fields
from zarrlift.core.node_paths import local_path, names_below, nearest
from zarrstack.core.errors import Problem
from zarrstack.core.paths import join, parents, prefix_of

# JSON by the fields of a dataclass: all of them, in their order, as JSON's own types.


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner(FieldsAsJSON):
    lengths: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outer(FieldsAsJSON):
    zero: int = 0
    name: str = "a"
    share: float = 0.5
    known: bool = True
    inner: Inner | None = None
    pairs: tuple[tuple[str, int], ...] = ()
    rows: tuple[Inner, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()


def test_fields_are_members_in_their_order() -> None:
    outer = Outer(
        inner=Inner(lengths=(2, 3)),
        pairs=(("x", 1), ("y", 2)),
        rows=(Inner(), Inner(lengths=())),
        counts=MappingProxyType({"b": 1, "a": 2}),
        problems=(Problem(kind="metadata", message="wrong"),),
    )
    assert json.dumps(outer.to_json()) == json.dumps(
        {
            "zero": 0,
            "name": "a",
            "share": 0.5,
            "known": True,
            "inner": {"lengths": [2, 3]},
            "pairs": [["x", 1], ["y", 2]],
            "rows": [{"lengths": None}, {"lengths": []}],
            "counts": {"b": 1, "a": 2},
            "problems": [{"kind": "metadata", "severity": "refusal", "message": "wrong"}],
        }
    )


def test_members_can_be_left_out() -> None:
    assert json_of_fields(Inner(lengths=(1,)), "lengths") == {}
    assert list(json_of_fields(Outer(), "name", "rows"))[:3] == ["zero", "share", "known"]
    assert list(json_of_fields(Outer()))[1] == "name"


def test_a_value_without_a_form_is_an_error() -> None:
    with pytest.raises(AttributeError, match="to_json"):
        Inner(lengths={1}).to_json()  # type: ignore[arg-type]


# Metadata documents as text.


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


# JSON values of a layout cannot be changed, and are otherwise like any other JSON.


VALUE = {"a": [1, {"b": 2.5}], "c": {"d": [None, True]}}


@pytest.mark.parametrize(
    "change",
    [
        lambda value: value.update(a=1),
        lambda value: value.__setitem__("a", 1),
        lambda value: value.__delitem__("a"),
        lambda value: value.pop("a"),
        lambda value: value.setdefault("z", 1),
        lambda value: value["a"].append(1),
        lambda value: value["a"].__iadd__([1]),
        lambda value: value["a"][1].clear(),
        lambda value: value["c"]["d"].sort(),
    ],
)
def test_no_level_of_a_frozen_value_can_be_changed(change):
    value = frozen(VALUE)
    with pytest.raises(TypeError, match="cannot be changed"):
        change(value)
    assert value == VALUE


@pytest.mark.parametrize("remake", [copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
def test_copies_are_equal_and_frozen(remake):
    value = remake(frozen(VALUE))
    assert value == VALUE
    assert json.dumps(value) == json.dumps(VALUE)
    with pytest.raises(TypeError):
        value["a"].append(1)


def test_configurations_of_codecs_and_data_types_are_frozen():
    order = [1, 0]
    spec = CodecSpec("transpose", {"order": order})
    order.reverse()
    assert spec == CodecSpec("transpose", {"order": [1, 0]})
    with pytest.raises(TypeError):
        spec.configuration["order"].reverse()
    spec.to_json()["configuration"]["order"].reverse()  # as JSON for others, it is a copy
    assert spec == CodecSpec("transpose", {"order": [1, 0]})
    data_type = DataType.from_json({"name": "fixed_length_utf32", "configuration": {"length_bytes": 8}})
    with pytest.raises(TypeError):
        data_type.configuration.update(length_bytes=4)


# Paths of nodes: names joined by "/", and "" for the root.

NAMES = st.text(st.characters(exclude_characters="/", exclude_categories=["Cs"]), min_size=1, max_size=4)
PATHS = st.lists(NAMES, max_size=5).map("/".join)


def test_the_paths_above_one_are_given_nearest_first():
    assert parents("a/b/c") == ("a/b", "a", "")
    assert parents("a") == ("",)
    assert parents("") == ()


@given(path=PATHS, name=NAMES)
def test_what_is_joined_lies_below_and_comes_apart_again(path, name):
    below = join(path, name)
    assert below.startswith(prefix_of(path))
    assert below == prefix_of(path) + name
    assert parents(below) == (path, *parents(path))


@given(path=PATHS, known=st.dictionaries(PATHS, st.integers(), max_size=4))
def test_the_nearest_is_the_first_that_is_known_from_the_path_up(path, known):
    expected = [known[line] for line in (path, *parents(path)) if line in known]
    assert nearest(path, known) == (expected[0] if expected else None)


def test_a_path_that_only_begins_alike_is_not_above():
    assert nearest("ab/c", {"a": 1}) is None
    assert nearest("a/c", {"a": 1, "": 0}) == 1


@given(paths=st.lists(PATHS, max_size=6))
def test_the_names_below_are_those_on_the_way_to_every_path(paths):
    expected = {
        above: frozenset(line.removeprefix(prefix_of(above)).split("/")[0] for line in below(above, paths))
        for path in paths
        for above in parents(path)
    }
    assert names_below(paths) == expected


def below(above, paths):
    return [path for path in paths if path and path.startswith(prefix_of(above))]


# Paths of files in URLs, which on Windows begin with a drive or a server.


@pytest.mark.parametrize(
    ("path", "written"),
    [
        ("C:\\old.zarr", "file:///C:/old.zarr"),
        ("d:\\100 %\\\u00e9 #1.zarr", "file:///d:/100%20%25/%C3%A9%20%231.zarr"),
        ("\\\\server\\share\\a b", "file://server/share/a%20b"),
    ],
)
def test_the_url_of_a_file_names_it_on_windows(path: str, written: str) -> None:
    url = urlsplit(written)
    assert PureWindowsPath(local_path(unquote(url.path), url.netloc, windows=True)) == PureWindowsPath(path)


def test_a_drive_is_a_folder_elsewhere() -> None:
    assert local_path("/C:/data", windows=False) == "/C:/data"
