"""Paths of nodes: names joined by "/", and "" for the root."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zarrlift.core.node_paths import names_below, nearest
from zarrstack.core.paths import join, parents, prefix_of

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
