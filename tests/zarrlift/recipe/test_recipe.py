"""Recipes: path globs, sections, the file, and the way into the job and back."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zarrlift.core.chain.chain import Chain
from zarrlift.core.codec_spec import CodecSpec
from zarrlift.recipe.changes import ARRAY_OPTIONS
from zarrlift.recipe.recipe import ArrayRecipe, Recipe, check_glob, matches
from zarrlift.recipe.toml_file import load_recipe
from zarrstack.core.errors import UsageError

NAMES = st.text(st.characters(blacklist_characters="/", blacklist_categories=("Cs",)), min_size=1, max_size=5)
PATHS = st.lists(NAMES, max_size=4).map("/".join)


@pytest.mark.parametrize(
    ("glob", "path", "named"),
    [
        ("", "", True),
        ("/", "", True),
        ("", "a", False),
        ("a", "a", True),
        ("/a/", "a", True),
        ("a", "a/b", False),
        ("a", "A", False),
        ("*", "a", True),
        ("*", "", False),
        ("*", "a/b", False),
        ("*/b", "a/b", True),
        ("im*", "images", True),
        ("i*s", "images", True),
        ("?", "a", True),
        ("?", "ab", False),
        ("s[0-3]", "s2", True),
        ("s[!0-3]", "s2", False),
        ("s[!0-3]", "s7", True),
        ("s[]]", "s]", True),
        ("s[", "s[", True),
        ("a.b", "axb", False),
        ("**", "", True),
        ("**", "a/b/c", True),
        ("a/**", "a", True),
        ("a/**", "a/b/c", True),
        ("a/**", "ab", False),
        ("**/c", "c", True),
        ("**/c", "a/b/c", True),
        ("a/**/c", "a/c", True),
        ("a/**/c", "a/b/b/c", True),
        ("a/**/c", "b/a/c", False),
        ("*", "a\nb", True),
    ],
)
def test_a_glob_names_whole_paths(glob: str, path: str, named: bool) -> None:
    assert matches(glob, path) is named


@given(PATHS)
def test_two_stars_name_every_node(path: str) -> None:
    assert matches("**", path)


@given(st.lists(st.text("ab1_-.", min_size=1), min_size=1).map("/".join), PATHS)
def test_a_glob_without_wildcards_names_one_path(glob: str, path: str) -> None:
    assert matches(glob, path) is (glob == path)


@given(st.text(max_size=10), PATHS)
def test_any_text_is_a_glob_or_a_clear_error(glob: str, path: str) -> None:
    try:
        check_glob(glob)
    except UsageError:
        return
    matches(glob, path)


@pytest.mark.parametrize("glob", ["a**", "a/**b", "***", "s[z-a]"])
def test_what_is_no_glob_is_refused(glob: str) -> None:
    with pytest.raises(UsageError):
        check_glob(glob)


@pytest.mark.parametrize(
    ("include", "exclude", "chosen"),
    [
        ((), (), ["", "a", "a/x", "b", "b/x"]),
        (("a",), (), ["a", "a/x"]),
        (("a/**",), (), ["a", "a/x"]),
        (("**/x",), (), ["a/x", "b/x"]),
        ((), ("a",), ["", "b", "b/x"]),
        (("a",), ("**/x",), ["a"]),
        (("",), ("b",), ["", "a", "a/x"]),
    ],
)
def test_a_glob_that_names_a_group_speaks_for_all_below_it(include: Any, exclude: Any, chosen: Any) -> None:
    recipe = Recipe(include=include, exclude=exclude)
    assert [path for path in ("", "a", "a/x", "b", "b/x") if recipe.selects(path)] == chosen


def test_later_sections_win() -> None:
    recipe = Recipe(
        base=ArrayRecipe(codecs="zstd:3"),
        sections=(("**", (("order", "C"), ("endian", "big"))), ("a/*", (("endian", "little"),))),
    )
    assert recipe.for_array("b") == ArrayRecipe(codecs="zstd:3", order="C", endian="big")
    assert recipe.for_array("a/b") == ArrayRecipe(codecs="zstd:3", order="C", endian="little")


def test_globs_that_match_nothing_are_found() -> None:
    recipe = Recipe(sections=(("a/*", ()), ("typo", ())), include=("**",), exclude=("typo", "other"))
    assert recipe.unmatched(["", "a", "a/b"]) == ("typo", "other")


DAYS = {"unit": "D", "scale_factor": 1}
CHAIN = Chain((CodecSpec("bytes", {"endian": "little"}), CodecSpec("numcodecs.delta", {"dtype": "<i4"})))


def array_recipes() -> st.SearchStrategy[ArrayRecipe]:
    closed = {
        name: st.sampled_from(option.choices) for name, option in ARRAY_OPTIONS.items() if option.choices
    }
    for name in ("key_encoding", "separator", "shard_index"):
        closed[name] |= st.none()
    return st.builds(
        ArrayRecipe,
        codecs=st.sampled_from(["portable", "keep", "zstd:3"]) | st.just(CHAIN),
        dtype=st.sampled_from([None, "float32", {"name": "numpy.datetime64", "configuration": DAYS}]),
        chunks=st.sampled_from([None, "64,-1", (3, 4)]),
        shards=st.sampled_from([None, "auto", "none", "4x", "8,8", (2,)]),
        conventions=st.sampled_from(["auto", "none", "ome,xarray"]),
        drop_empty=st.booleans(),
        allow_pickle=st.booleans(),
        **closed,
    )


@given(
    array_recipes(),
    st.lists(st.tuples(PATHS, st.just((("codecs", CHAIN), ("drop_empty", True), ("dtype", None))))),
    st.lists(PATHS),
    st.sampled_from([None, True, False]),
)
def test_a_recipe_comes_back_from_the_job_as_it_went_in(
    base: Any, sections: Any, globs: Any, flag: Any
) -> None:
    recipe = Recipe(base=base, sections=tuple(sections), include=tuple(globs), consolidate=flag)
    assert Recipe.from_json(json.loads(json.dumps(recipe.to_json()))) == recipe


def test_options_are_the_fields_of_a_recipe() -> None:
    assert set(ARRAY_OPTIONS) == {field.name for field in fields(ArrayRecipe)}


def test_a_job_keeps_the_words_of_the_user() -> None:
    words = {
        "codecs": "zstd:3",
        "dtype": "float32",
        "chunks": "64,-1",
        "shards": "4x",
        "conventions": "ome,xarray",
    }
    assert ArrayRecipe(**words).to_json() == words


def test_a_job_may_name_a_convention_that_is_not_installed() -> None:
    assert ArrayRecipe.from_json({"conventions": "beamline"}).conventions == ("beamline",)


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "recipe.toml"
    path.write_text(text)
    return path


def test_a_file_says_the_same_as_options_do(tmp_path: Path) -> None:
    text = """
        include = ["images/**"]
        exclude = "**/tmp"
        consolidate = false
        codecs = "zstd:3"
        key-encoding = "v2"
        shard-index = "crc32c"

        [arrays."images/**"]
        dtype = "uint16"
        casting = "clamp"
        drop_empty = true

        [arrays."images/0"]
        codecs = [{name = "gzip", configuration = {level = 1}}]
    """
    recipe = load_recipe(written(tmp_path, text))
    assert recipe == Recipe(
        base=ArrayRecipe(codecs="zstd:3", key_encoding="v2", shard_index="crc32c"),
        sections=(
            ("images/**", (("dtype", "uint16"), ("casting", "clamp"), ("drop_empty", True))),
            ("images/0", (("codecs", '[{"configuration":{"level":1},"name":"gzip"}]'),)),
        ),
        include=("images/**",),
        exclude=("**/tmp",),
        consolidate=False,
    )


def test_every_problem_of_a_file_is_told_at_once_with_its_place(tmp_path: Path) -> None:
    text = """
        codec = "zstd:3"
        endian = "middle"
        include = [1]
        exclude = ["a**"]
        consolidate = "yes"
        allow_pickle = 1

        [arrays."x/*"]
        dtype = "flaot32"
        codecs = "zstdd"
        include = ["y"]

        [arrays."a**"]
        separator = 3
    """
    with pytest.raises(UsageError) as caught:
        load_recipe(written(tmp_path, text))
    said = str(caught.value)
    for words in (
        "11 problems",
        "codec: unknown name; did you mean 'codecs'?",
        "endian: unknown value of endian; found 'middle'",
        "include: a list of path globs",
        "exclude: '**' must be a whole name",
        "consolidate: true or false",
        "allow_pickle: wrong type",
        "Did you mean 'float32'",
        "Did you mean 'zstd'",
        'arrays."x/*".include: unknown name',
        'arrays."a**"',
        "separator: unknown value of separator; found 3",
    ):
        assert words in said


@pytest.mark.parametrize(
    ("content", "words"), [(b"a = ", "not valid TOML"), (b"\xff", "not valid TOML"), (None, "cannot read")]
)
def test_a_file_that_cannot_be_read_is_a_clear_error(content: Any, words: str, tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=words):
        load_recipe(path)


@pytest.mark.parametrize("text", ['arrays = "x"', "[arrays]\na = 1"])
def test_sections_are_tables(text: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="table"):
        load_recipe(written(tmp_path, text))
