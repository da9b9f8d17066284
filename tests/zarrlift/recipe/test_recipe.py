"""Recipes: path globs, sections, the file, and the way into the job and back; options of codecs and grids."""

from __future__ import annotations

import json
import tomllib
from dataclasses import fields
from math import prod
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zarrlift.core.chain.chain import Chain
from zarrlift.core.codec_spec import CodecSpec
from zarrlift.planning.chunks_and_shards import (
    LARGEST,
    MAX_INNER_CHUNKS,
    MAX_SHARDS,
    SMALLEST,
    along_axes,
    chunk_shape,
    chunks_per_shard,
)
from zarrlift.recipe.changes import ARRAY_OPTIONS
from zarrlift.recipe.parsing import parse_chunks, parse_codecs, parse_shards, shards_text
from zarrlift.recipe.recipe import ArrayRecipe, Recipe, check_glob, matches
from zarrlift.recipe.toml_file import load_recipe, parse_recipe
from zarrstack.core.errors import UnsupportedError, UsageError

# Recipes: path globs, sections, the file, and the way into the job and back.


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
    for name in (name for name, option in ARRAY_OPTIONS.items() if option.type is not str):
        with pytest.raises(UsageError, match=f"of {name}"):  # __post_init__ checks values of every type
            ArrayRecipe(**{name: object()})  # type: ignore[arg-type]


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


# Options of codecs and grids, parsed.


# What `--chunks` and `--shards` mean for one array, and what `auto` aims at.


MIB = 1 << 20


@pytest.mark.parametrize(
    ("text", "shape", "expected"),
    [
        ("64,64", (100, 200), (64, 64)),
        ("64, 64", (100, 200), (64, 64)),
        ("-1,7", (100, 200), (100, 7)),
        ("300,300", (100, 200), (100, 200)),
        ("-1,5", (0, 3), (1, 3)),
        ("t=64", (100, 200), (64, 11)),
        ("x = -1, t = 300", (100, 200), (100, 200)),
    ],
)
def test_a_chunk_is_no_longer_than_its_axis(text, shape, expected) -> None:
    lengths = along_axes("--chunks", parse_chunks(text), ("t", "x"), (10, 11))
    assert chunk_shape(lengths, shape) == expected


WRONG_NAMES = ["t", "t=", "=4", "t=4,t=5", "t=4,5", "t=1.5", "t=4x", {}, {"a,b": 4}, {"a=b": 4}, {"t": True}]


@pytest.mark.parametrize(
    "text", ["", "0", "64,0", "-2", "a", "1;2", "1,", "1.5", "9" * 20, "t=0", "100MB", *WRONG_NAMES]
)
def test_lengths_that_make_no_sense(text) -> None:
    with pytest.raises(UsageError, match="--chunks takes lengths"):
        parse_chunks(text)


@pytest.mark.parametrize(
    "text",
    ["", "0", "0x", "x", "-1", "2,-1", "4X", "automatic", "none,none", "0MB", "-1MB", "t=-1", *WRONG_NAMES],
)
def test_shards_that_make_no_sense(text) -> None:
    with pytest.raises(UsageError, match="--shards takes chunks per shard"):
        parse_shards(text)


@pytest.mark.parametrize("text", ["auto", "none", "4x", "8,8,8", "1", "100MB", "1.5 GiB", "t=4,x=5"])
def test_shards_that_make_sense(text) -> None:
    assert shards_text(parse_shards(text)) == text


def test_names_are_given_as_text_or_as_a_mapping_and_a_job_stores_them() -> None:
    recipe = ArrayRecipe(chunks={"time": 100, "lat": 50}, shards="100MB")
    assert recipe == ArrayRecipe(chunks="time=100, lat=50", shards="100 MB")
    assert recipe.to_json() == {"chunks": "time=100,lat=50", "shards": "100MB"}
    assert ArrayRecipe.from_json(recipe.to_json()) == recipe
    toml = 'chunks = {time = 100, lat = 50}\nshards = "100MB"'
    assert parse_recipe(tomllib.loads(toml)).base == recipe


def test_another_number_of_axes_is_no_slip_of_the_pen() -> None:
    """A recipe speaks of many arrays; where it does not fit one, that one keeps what it has."""
    with pytest.raises(UnsupportedError, match=r"different numbers of axes.*expected 1 length[.]"):
        along_axes("--chunks", (64, 64), None, (1,))
    with pytest.raises(UnsupportedError, match=r"different numbers of axes.*expected 2 lengths[.]"):
        along_axes("--chunks", (64,), None, (1, 1))
    for names, found in (((None, "x"), "t; expected .no name., x"), (None, "t, x; expected numbers")):
        with pytest.raises(UnsupportedError, match=f"a dimension.*found {found}"):
            along_axes("--chunks", parse_chunks("t=4,x=5"), names, (1, 1))
    with pytest.raises(UnsupportedError, match=r"different numbers of axes.*expected 1 number[.]"):
        chunks_per_shard((2, 2), (4,), MIB)


@pytest.mark.parametrize(
    ("text", "counts", "expected"),
    [
        ("none", (9, 9), None),
        ("4x", (9, 9), (4, 4)),
        ("2,5", (9, 9), (2, 5)),
        ("20x", (9, 9), (20, 20)),
        ("4x", (), None),
        ("t=5", (9, 9), (5, 1)),
        ("4MB", (9, 9), (1, 2)),
        ("200MB", (9, 9), (9, 9)),
        ("100MB", (9, 9), (8, 8)),
        ("40MB", (9, 9), (4, 8)),
    ],
)
def test_what_is_asked_for_is_what_there_is(text, counts, expected) -> None:
    assert chunks_per_shard(parse_shards(text), counts, MIB, ("t", "x"))[0] == expected


@pytest.mark.parametrize(
    ("counts", "inner_chunk", "expected"),
    [
        pytest.param((8, 8, 8), 0.5 * MIB, (4, 4, 8), id="from half a MiB to 64"),
        pytest.param((50, 50), 200 * MIB, None, id="large enough already"),
        pytest.param((1,), MIB, None, id="a single chunk"),
        pytest.param((0, 4), MIB, None, id="no chunk"),
        pytest.param((), MIB, None, id="a scalar"),
        pytest.param((3, 1000), MIB, (3, 32), id="no longer than the array"),
        pytest.param((300, 300, 300), MIB, (8, 8, 16), id="few shards, as far as 1 GiB allows"),
        pytest.param((2**40,), 3, (2**18,), id="an index that can be read"),
    ],
)
def test_auto(counts, inner_chunk, expected) -> None:
    assert chunks_per_shard("auto", counts, inner_chunk)[0] == expected


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=5).map(tuple), st.floats(1, 2e9))
def test_auto_stays_within_its_limits(counts, inner_chunk) -> None:
    found, why = chunks_per_shard("auto", counts, inner_chunk)
    shard = found or (1,) * len(counts)
    size = prod(shard) * inner_chunk
    number = prod(-(-n // s) for n, s in zip(counts, shard, strict=True))
    assert why
    assert all(1 <= s <= n for s, n in zip(shard, counts, strict=True))
    assert size <= max(LARGEST, inner_chunk)
    whole = shard == counts
    assert prod(shard) <= MAX_INNER_CHUNKS
    if not whole and size * 2 <= LARGEST and prod(shard) * 2 <= MAX_INNER_CHUNKS:
        assert size >= SMALLEST
        assert number <= MAX_SHARDS


# What `--codecs` may say.


ZSTD = CodecSpec("zstd", {"level": 3, "checksum": False})
LITTLE = CodecSpec("bytes", {"endian": "little"})


def blosc(**configuration: object) -> CodecSpec:
    return CodecSpec("blosc", {"cname": "zstd", "clevel": 5, "blocksize": 0, **configuration})


@pytest.mark.parametrize(
    ("text", "tail"),
    [
        ("none", ()),
        ("zstd", (ZSTD,)),
        ("zstd:3", (ZSTD,)),
        (" zstd:-5 ", (CodecSpec("zstd", {"level": -5, "checksum": False}),)),
        ("gzip", (CodecSpec("gzip", {"level": 6}),)),
        ("gzip:0", (CodecSpec("gzip", {"level": 0}),)),
        ("blosc", (blosc(),)),
        ("blosc:lz4", (blosc(cname="lz4"),)),
        ("blosc:zstd:1", (blosc(clevel=1),)),
        ("blosc:zstd:5:shuffle", (blosc(shuffle="shuffle"),)),
        ("crc32c", (CodecSpec("crc32c"),)),
        ("zstd:3+crc32c", (ZSTD, CodecSpec("crc32c"))),
        ('[{"name": "zstd", "configuration": {"level": 3, "checksum": false}}]', (ZSTD,)),
        ('{"name": "numcodecs.lz4"}', (CodecSpec("numcodecs.lz4"),)),
        ("[]", ()),
    ],
)
def test_a_short_form_or_json_says_what_compresses(text: str, tail: tuple[CodecSpec, ...]) -> None:
    request = parse_codecs(text)
    assert (request.mode, request.head, request.tail) == ("explicit", (), tail)


@pytest.mark.parametrize("mode", ["portable", "keep"])
def test_two_words_leave_the_choice_to_the_source(mode: str) -> None:
    assert parse_codecs(mode).mode == mode


def test_json_with_an_array_to_bytes_codec_states_the_head_too() -> None:
    text = '["crc32c", {"name": "bytes", "configuration": {"endian": "little"}}]'
    with pytest.raises(UsageError):
        parse_codecs(text)
    request = parse_codecs('[{"name": "bytes", "configuration": {"endian": "little"}}, "crc32c"]')
    assert request.head == (LITTLE,)
    assert request.tail == (CodecSpec("crc32c"),)
    assert parse_codecs(Chain((LITTLE, CodecSpec("crc32c")))) == request


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("zstandard:3", "Did you mean 'zstd'"),
        ("portabel", "Did you mean 'portable'"),
        ("lzma", "zstd:3, gzip:6"),
        ("", "zstd:3, gzip:6"),
        ("zstd:high", "integer"),
        ("zstd:23", "-131072 to 22"),
        ("gzip:-1", "0 to 9"),
        ("gzip:6:7", "too many"),
        ("blosc:snappy", "lz4, lz4hc"),
        ("blosc:zstd:10", "0 to 9"),
        ("blosc:zstd:5:shuffled", "noshuffle, shuffle"),
        ("crc32c:1", "too many"),
        ("none+crc32c", "cannot be combined"),
        ("keep+crc32c", "unknown codec"),
        ("[{]", "JSON"),
        ('[{"configuration": {}}]', "name"),
        ('[{"name": "zstdd"}]', "Did you mean 'zstd'"),
        ('[{"name": "numcodecs.json2"}]', "unknown codec"),
        ('[{"name": "gzip"}]', "level"),
        ('[{"name": "gzip", "configuration": {"level": true}}]', "0 to 9"),
        ('[{"name": "gzip", "configuration": {"level": 1, "lvl": 1}}]', "lvl"),
        ('[{"name": "transpose", "configuration": {"order": [1, 0]}}]', "--set order"),
        ('[{"name": "numcodecs.delta", "configuration": {"dtype": "<i4"}}]', "array-to-bytes"),
        ('[{"name": "sharding_indexed"}]', "cannot be requested as a codec"),
        ("[1]", "name"),
    ],
)
def test_what_makes_no_sense_says_what_would(text: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_codecs(text)
    assert words in str(caught.value)
