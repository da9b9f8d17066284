"""Hostile and damaged models: one clear error with the path, no traceback, no endless work."""

from __future__ import annotations

import json

import pytest
from tests.support.fixtures_index import FORMATS, archive, bad_cases

from zarrlift import models
from zarrlift.formats.tree.directory import MAX_LEVELS
from zarrlift.models import hierarchy
from zarrlift.models.schemas import Schema
from zarrlift.models.zom import text_lines
from zarrstack.core.errors import MetadataError, UsageError, ZarrstackError

GROUP = {"zarr_format": 3, "node_type": "group", "attributes": {}, "members": {}}


def nested(levels):
    """Groups in groups, so many below the root."""
    root = dict(GROUP)
    here = root
    for _ in range(levels):
        below = {**GROUP, "members": {}}
        here["members"] = {"a": below}
        here = below
    return root


def test_as_deep_as_archives_may_be(tmp_path):
    model = nested(MAX_LEVELS)
    text = "\n".join(text_lines(model))
    (tmp_path / "model.json").write_text(text)
    assert models.show(tmp_path / "model.json").model == model
    assert models.unflatten(models.flatten(model)) == model
    assert models.validate(model, models.schema(zarr_format=3)) == ()
    assert models.validate(model, models.schema(model)) == ()
    assert models.diff(model, model) == ()
    assert len(models.consolidated(model)["consolidated_metadata"]["metadata"]) == MAX_LEVELS


def test_what_is_deeper_is_refused_with_its_path():
    with pytest.raises(MetadataError, match="levels deep") as caught:
        models.show(nested(MAX_LEVELS + 5))
    assert caught.value.problem.node == "/".join("a" * (MAX_LEVELS + 1))


@pytest.mark.parametrize("levels", [2_000, 200_000])
def test_a_depth_bomb_in_a_file_is_refused(levels, tmp_path):
    head = '{"zarr_format": 3, "node_type": "group", "attributes": {}, "members": {"a": '
    (tmp_path / "model.json").write_text(head * levels + "{}" + "}}" * levels)
    with pytest.raises(MetadataError, match="nested too deeply"):
        models.show(tmp_path / "model.json")
    (tmp_path / "schema.json").write_text('{"not": ' * levels + "{}" + "}" * levels)
    with pytest.raises(MetadataError, match="nested too deeply"):
        models.load(str(tmp_path / "schema.json"))


def test_a_deep_attribute_is_refused_in_python_too():
    deep: list[object] = []
    for _ in range(400):
        deep = [deep]
    with pytest.raises(MetadataError, match="nested too deeply") as caught:
        models.show({**GROUP, "members": {"a": {**GROUP, "attributes": {"deep": deep}}}})
    assert caught.value.problem.node == "a"


def test_a_size_bomb_is_refused_unread(tmp_path, monkeypatch):
    with (tmp_path / "model.json").open("wb") as file:
        file.truncate(hierarchy.MAX_BYTES + 1)
    with pytest.raises(UsageError, match="too large"):
        models.show(tmp_path / "model.json")


def test_a_schema_that_is_itself_ends():
    schema = Schema({"$ref": "#/$defs/a", "$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}]}}}, name="loop")
    assert list(schema.violations(GROUP)) == []


def test_a_pattern_that_runs_away_is_stopped():
    schema = Schema(
        {"properties": {"attributes": {"properties": {"a": {"pattern": "^(a+)+$(?=x)"}}}}}, name="x"
    )
    assert list(schema.violations({**GROUP, "attributes": {"a": "a" * 60 + "!"}}))


@pytest.mark.parametrize(
    ("name", "message"),
    [("..", "periods"), ("", "empty"), ("zarr.json", "zarr.json"), ("a/b", "slash"), ("a\\b", "character")],
)
def test_names_that_v3_forbids_are_refused_with_their_path(name, message):
    inner = {**GROUP, "members": {name: GROUP}}
    with pytest.raises(MetadataError, match=message) as caught:
        models.show({**GROUP, "members": {"outer": inner}})
    assert caught.value.problem.node.startswith("outer")


def test_every_fault_of_a_tree_is_said_at_once():
    model = {
        **GROUP,
        "members": {
            "v2": {"zarr_format": 2, "attributes": {}, "members": {}},
            "text": "a node",
            "kind": {"zarr_format": 3, "node_type": "table", "attributes": {}},
            "attributes": {**GROUP, "attributes": [1]},
            "members": {**GROUP, "members": 7},
            "leaf": {"zarr_format": 3, "node_type": "array", "attributes": {}, "members": {}},
            "...": GROUP,
        },
    }
    with pytest.raises(MetadataError) as caught:
        models.show(model)
    text = str(caught.value)
    for path in ("/v2", "/text", "/kind", "/attributes", "/members", "/leaf", "/..."):
        assert path in text


def test_half_a_surrogate_pair_is_no_crash(tmp_path):
    model = {**GROUP, "attributes": {"half": "\ud800"}}
    assert json.loads("\n".join(text_lines(model))) == model
    assert models.validate(model, models.schema(zarr_format=3)) == ()
    assert models.validate(model, model) == ()
    (problem,) = models.validate(model, {"properties": {"attributes": {"const": {"half": "x"}}}})
    assert problem.message == "the model cannot be checked"
    with pytest.raises(UsageError, match="surrogates not allowed"):
        models.load(models.schema(model))
    models.create(model, tmp_path / "made")
    assert models.show(tmp_path / "made").model == model


def test_numbers_that_are_no_json_become_zarrs_words(tmp_path):
    (tmp_path / "zarr.json").write_text(
        '{"zarr_format": 3, "node_type": "group", "attributes": {"a": [NaN, {"b": -Infinity}]}}'
    )
    shown = models.show(tmp_path)
    assert shown.model["attributes"] == {"a": ["NaN", {"b": "-Infinity"}]}
    assert {problem.kind for problem in shown.problems} == {"attributes"}
    (tmp_path / "model.json").write_text('{"zarr_format": 2, "attributes": {"a": NaN}, "members": {}}')
    assert models.show(tmp_path / "model.json").model["attributes"] == {"a": "NaN"}


CASES = [case for format_ in FORMATS for case in bad_cases(format_)]


@pytest.mark.slow(one_in=11)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_damaged_archive_is_shown_as_far_as_it_can_be(case):
    try:
        shown = models.show(case.path)
    except ZarrstackError as error:
        said = error.problem
    else:
        said = None
    if said is not None:
        assert said.node is not None or said.key or said.found, "an error says where"
        return
    assert models.flatten(shown.model)
    good = models.flatten(shown.model).get("good")
    assert good is None or good["shape"] == [6, 4] or good["shape"] == [4, 6]
    json.dumps(shown.model, allow_nan=False)


@pytest.mark.parametrize(
    ("document", "message"),
    [("{", "not JSON"), ("[]", "not a JSON object"), ('{"zarr_format": 3}', "neither array nor group"),
     ('{"zarr_format": 3, "node_type": "group", "attributes": 1}', "attributes")],
)  # fmt: skip
def test_a_damaged_node_of_v3_is_left_out_and_named(document, message, tmp_path):
    models.create(models.show(archive("zarr-2.18/people/ocean").path, migrated=True), tmp_path / "a")
    (tmp_path / "a" / "sst" / "zarr.json").write_text(document)
    shown = models.show(tmp_path / "a")
    assert "sst" not in shown.model["members"]
    (problem,) = shown.problems
    assert (problem.node, problem.severity) == ("sst", "refusal")
    assert message in problem.message
    assert models.validate(tmp_path / "a", models.schema(zarr_format=3)) == (problem,)
