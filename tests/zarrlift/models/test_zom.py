"""The tree itself, as ZEP 6 has it: flat and back, the name `members`, and what no tree may be."""

from __future__ import annotations

import copy
import json
import re
from functools import cache
from pathlib import Path

import hypothesis.strategies as st
import pytest
import zarr
from hypothesis import given
from tests.support.documents import LITTLE, v3_array
from tests.support.fixtures_index import FORMATS, archive, archives

import zarrlift
from zarrlift import models
from zarrlift.core.json_document import finite
from zarrlift.formats.tree.documents import parse_object
from zarrlift.models.hierarchy import MAX_JSON_LEVELS
from zarrlift.models.zom import in_document, in_model, is_ambiguous, model_problems, text_lines
from zarrstack.core.errors import MetadataError, UsageError

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


# Consolidated metadata is a flattened model: it equals zarr-python's own.


NAMES = ("zarr-2.18/people/ocean", "zarr-2.18/people/cells", "zarr-2.18/people/cohort")


@pytest.mark.parametrize("name", ["zarr-2.18/people/ocean", "zarr-2.18/people/cohort"])
def test_of_v2_it_is_what_zarr_2_wrote(name):
    written = json.loads((archive(name).path / ".zmetadata").read_text())
    assert models.consolidated(models.show(archive(name).path).model) == written


@pytest.mark.parametrize(("number", "name"), [(2, NAMES[0]), (3, NAMES[1])])
def test_a_hierarchy_made_with_it_is_opened_by_it(number, name, tmp_path):
    shown = models.show(archive(name).path, migrated=number == 3)
    models.create(shown, tmp_path / "a", consolidate=True)
    opened = zarr.open_consolidated(str(tmp_path / "a"), zarr_format=number)
    flat = models.flatten(shown.model)
    assert {path for path, _ in opened.members(max_depth=None)} == flat.keys() - {""}
    for path, node in opened.members(max_depth=None):
        assert dict(node.attrs) == flat[path]["attributes"]
    assert models.show(tmp_path / "a").model == shown.model, "what follows from a model is no part of it"


def test_a_root_that_is_an_array_has_none(tmp_path):
    array = models.show(archive(NAMES[0]).path).model["members"]["sst"]
    with pytest.raises(MetadataError, match="root that is a group"):
        models.consolidated(array)
    with pytest.raises(UsageError, match="root that is a group"):
        models.create(array, tmp_path / "a", consolidate=True)
    assert not (tmp_path / "a").exists()


# The model of every fixture: shown, made again, shown again; accepted by the schemas that should.


ARCHIVES = [archive for format_ in FORMATS for archive in archives(format_)]
V2 = [archive for archive in ARCHIVES if archive.format == "zarr_v2"]


def shown(archive):
    return _shown(archive.path)


@cache
def _shown(path):
    return models.show(path)


@cache
def of_format(number):
    return models.load(models.schema(zarr_format=number))


@pytest.mark.slow(one_in=23)
@pytest.mark.parametrize("archive", ARCHIVES, ids=str)
def test_show_create_show_is_the_same_model(archive, tmp_path):
    first = shown(archive)
    models.create(first.model, tmp_path / "made")
    second = models.show(tmp_path / "made")
    assert second.model == first.model
    assert models.diff(first, second) == ()
    assert [
        problem for problem in second.problems if problem.kind == "metadata" and second.format == "zarr3"
    ] == []


@pytest.mark.slow(one_in=7)
@pytest.mark.parametrize("archive", ARCHIVES, ids=str)
def test_a_model_says_what_is_stored_in_strict_json_that_reads_back(archive, tmp_path):
    model = shown(archive).model
    text = "\n".join(text_lines(model))
    assert json.loads(text, parse_constant=pytest.fail) == model
    (tmp_path / "model.json").write_text(text)
    read = models.show(tmp_path / "model.json")
    assert read.model == model
    assert read.problems == (), "what we write needs no leniency"
    for path, node in models.flatten(model).items() if archive in V2 and archive.kind != "zip" else ():
        document = archive.path / path / (".zarray" if "shape" in node else ".zgroup")
        if document.exists():  # groups may be implicit
            stored = parse_object(document.read_bytes(), str(document), most_levels=MAX_JSON_LEVELS)
            assert {name: node[name] for name in stored} == finite(stored)
        assert isinstance(node["attributes"], dict)


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize("archive", ARCHIVES, ids=str)
def test_the_schema_of_the_format_accepts_what_the_specification_does(archive):
    model = shown(archive).model
    violations = of_format(model["zarr_format"]).violations(model)
    if archive.name == "zarr-2.18/deviations":
        # What the specification requires, and old writers left out or wrote otherwise.
        assert {(problem.node, problem.message) for problem in violations} == {
            (f"no_{member}", f'"{member}" is a required property')
            for member in ("compressor", "fill_value", "filters", "order")
        }
    elif archive.name in ("netcdf-4.9.0/nczarr", "netcdf-4.9.3-development/dimensions"):
        # Members of its own in every group; later versions keep them among the attributes.
        assert {problem.node for problem in violations} == set(archive.groups)
        assert all("'_nczarr_group'" in problem.message.lower() for problem in violations)
    else:
        assert violations == ()


@pytest.mark.slow(one_in=25)
@pytest.mark.needs_reader("once")
@pytest.mark.parametrize("archive", ARCHIVES, ids=str)
def test_what_migration_makes_of_it_is_a_model_of_v3(archive):
    made = models.show(shown(archive), migrated=True)
    assert of_format(3).violations(made.model) == ()
    again = models.show(made.model, migrated=True)
    assert models.diff(made, again) == (), "what is v3 and portable stays as it is"


# Where two hierarchies differ: exactly where, and nowhere else.


OCEAN = archive("zarr-2.18/people/ocean").path


def test_every_kind_of_difference_has_its_place():
    first = models.show(OCEAN).model
    second = copy.deepcopy(first)
    del second["members"]["crs"]
    second["members"]["new"] = {"zarr_format": 2, "attributes": {}, "members": {}}
    second["members"]["sst"]["chunks"] = [1, 2, 3]
    second["members"]["lat"]["attributes"]["units"] = "furlong"
    second["members"]["lon"] = {"zarr_format": 2, "attributes": {}, "members": {}}
    del second["attributes"]["title"]
    found = models.diff(first, second)
    assert [(d.path, d.what, d.member) for d in found] == [
        ("", "missing", "attributes/title"),
        ("crs", "missing", None),
        ("lat", "changed", "attributes/units"),
        ("lon", "changed", None),
        ("new", "added", None),
        ("sst", "changed", "chunks"),
    ]
    assert (found[3].first, found[3].second) == ("array", "group")
    assert {d.path for d in models.diff(first, second, ignore=("attributes",))} == {
        "crs",
        "lon",
        "new",
        "sst",
    }


V3 = v3_array([4], [2], "float32", fill_value=0.0, codecs=[LITTLE, {"name": "crc32c"}])


@pytest.mark.parametrize(
    "spelling",
    [
        pytest.param({"fill_value": 0}, id="integer-fill-of-floats"),
        pytest.param({"chunk_key_encoding": {"name": "default"}}, id="default-separator"),
        pytest.param({"chunk_key_encoding": "default"}, id="bare-encoding"),
        pytest.param({"codecs": [V3["codecs"][0], "crc32c"]}, id="bare-codec"),
        pytest.param(
            {"codecs": [V3["codecs"][0], {"name": "crc32c", "configuration": {}}]}, id="empty-config"
        ),
        pytest.param({"dimension_names": [None]}, id="no-names"),
        pytest.param({"storage_transformers": []}, id="no-transformers"),
        pytest.param({"data_type": {"name": "float32"}}, id="data-type-object"),
    ],
)
def test_two_spellings_of_one_thing_are_no_difference(spelling):
    assert models.diff(V3, {**V3, **spelling}) == ()


def test_nor_are_two_spellings_of_the_codecs_in_shards_or_of_an_unknown_key_encoding():
    def sharded(crc32c, keys):
        inner = {"chunk_shape": [1], "codecs": [LITTLE, crc32c], "index_codecs": [LITTLE, crc32c]}
        codecs = [{"name": "sharding_indexed", "configuration": inner}]
        return {**V3, "codecs": codecs, "chunk_key_encoding": keys}

    first = sharded("crc32c", "hilbert")
    assert models.diff(first, sharded({"name": "crc32c", "must_understand": True}, {"name": "hilbert"})) == ()
    (other,) = models.diff(first, sharded("crc32c", {"name": "hilbert", "configuration": {"order": 2}}))
    assert other.member == "chunk_key_encoding"


def test_fill_values_of_a_data_type_that_is_not_known_are_compared_as_written():
    first = {**V3, "data_type": "float9", "fill_value": 1}
    assert models.diff(first, first) == ()
    (other,) = models.diff(first, {**first, "fill_value": 2})
    assert (other.member, other.first, other.second) == ("fill_value", 1, 2)


@pytest.mark.parametrize(
    "change",
    [
        {"fill_value": 1}, {"fill_value": "NaN"}, {"shape": [5]}, {"dimension_names": ["x"]},
        {"chunk_key_encoding": {"name": "default", "configuration": {"separator": "."}}},
        {"codecs": V3["codecs"][:1]}, {"codecs": [V3["codecs"][0], 7]},
        {"data_type": "float64"}, {"attributes": {"a": 1}},
    ],
    ids=str,
)  # fmt: skip
def test_whatever_says_something_else_is_a_difference(change):
    assert [d.what for d in models.diff(V3, {**V3, **change})] == [
        "added" if {*change} & {"dimension_names", "attributes"} else "changed"
    ]


def test_v2_and_v3_are_compared_in_the_words_of_v3(tmp_path):
    zarrlift.migrate(OCEAN, tmp_path / "new", verify="none", recipe=zarrlift.Recipe(
        base=zarrlift.ArrayRecipe(codecs="keep", key_encoding="v2", conventions="none")))  # fmt: skip
    assert models.diff(OCEAN, tmp_path / "new") == ()


# Every model and schema of ZEP 6, run: `zep6.md` restates each with other names, without its mistakes.

PAGE = Path(__file__).with_name("zep6.md").read_text()
BLOCKS = dict(re.findall(r"^## (\S+)\n.*?^```\w+\n(.*?^)```$", PAGE, re.MULTILINE | re.DOTALL))
MODELS = ("array-v2.json", "group-v2.json", "hierarchy-v3.json", "hierarchy-v2.json")


def raw(name):
    return json.loads(BLOCKS[name])


@pytest.fixture(scope="module")
def zep(tmp_path_factory):
    """A folder with a file for each block."""
    folder = tmp_path_factory.mktemp("zep")
    for name, text in BLOCKS.items():
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_the_zep_is_read_made_and_read_by_zarr(name, zep, tmp_path):
    shown = models.show(zep / name)
    models.create(zep / name, tmp_path / "made")
    again = models.show(tmp_path / "made")
    assert again.model == shown.model
    assert again.problems == ()
    opened = zarr.open(tmp_path / "made", mode="r")
    if isinstance(opened, zarr.Group):
        assert sorted(dict(opened.members())) == sorted(shown.model.get("members", {}))
        for _, array in opened.arrays():
            assert array[...].sum() == 0, "no chunk is there, so every value is the fill value"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"zarr_format": 2, "attributes": {}, "members": {},}', "JSON"),
        ('{"zarr_format": 2, "attributes": {}, "members": {}', "JSON"),
        ('{"salinity": {"zarr_format": 2, "attributes": {}}}', "zarr_format"),
        ('{"zarr_version": 2, "attributes": {}, "members": {}}', "zarr_format"),
    ],
    ids=["comma", "brace", "no-group", "zarr_version"],
)
def test_the_mistakes_of_the_draft_are_refused(text, words, tmp_path):
    (tmp_path / "model.json").write_text(text)
    with pytest.raises(MetadataError, match=words):
        models.show(tmp_path / "model.json")


def test_null_for_what_v3_lets_be_absent_is_read_as_absent():
    model = raw("hierarchy-v3.json")
    model["members"]["ice"] |= {"storage_transformers": None, "dimension_names": None}
    array = models.show(model).model["members"]["ice"]
    assert not {"storage_transformers", "dimension_names"} & array.keys()
    assert model["members"]["ice"]["dimension_names"] is None, "the input is not changed"


def test_the_schema_of_v3_accepts_the_example_beside_it_and_refuses_others():
    schema = models.load(raw("schema-v3.json"))
    example = raw("hierarchy-v3.json")
    assert schema.violations(example) == ()
    example["members"]["ice"]["shape"] = ["365"]
    example["members"]["ice"]["colour"] = "red"
    assert [problem.node for problem in schema.violations(example)] == ["ice"]
    example = raw("hierarchy-v3.json")
    del example["members"]["ice"]["codecs"][0]["configuration"]
    assert [problem.node for problem in schema.violations(example)] == ["ice"], (
        "v3 lets a codec have no configuration; the ZEP's schema does not"
    )
