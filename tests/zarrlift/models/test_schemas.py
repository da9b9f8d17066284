"""A schema accepts the hierarchy it was made from, and nothing else."""

from __future__ import annotations

import copy
import json
import shutil
from functools import cache
from typing import Any, Union

import hypothesis.strategies as st
import pytest
from hypothesis import given
from pydantic import BaseModel, Field, ValidationError
from pydantic_zarr import v2, v3
from tests.support.chances import examples
from tests.support.documents import v3_array
from tests.support.fixtures_index import archive

import zarrlift
from zarrlift import models
from zarrlift.recipe.toml_file import load_recipe
from zarrstack.core.errors import MetadataError, UsageError

NAMES = ("zarr-2.18/people/ocean", "zarr-2.18/people/cells", "zarr_v1/zarr-1.1/root", "n5/z5py/all")


@cache
def shown(name):
    return models.show(archive(name).path).model


@cache
def exact(name, leave_open=()):
    return models.load(models.schema(shown(name), leave_open=leave_open))


@st.composite
def mutations(draw, model):
    """A copy of a model with one thing changed, and where: a value, a key more, a key less."""
    changed = copy.deepcopy(model)
    places = []
    waiting = [((), changed)]
    while waiting:
        place, value = waiting.pop()
        items = (
            value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        )
        for key, item in items:
            places.append(((*place, key), value, key))
            waiting.append(((*place, key), item))
    place, holder, key = draw(st.sampled_from(places))
    how = draw(st.sampled_from(("change", "drop", "add")))
    if how == "drop":
        del holder[key]
    elif how == "add":
        if isinstance(holder, dict):
            holder["a key that nobody has"] = 1
        else:
            holder.append("more")
    else:
        old = holder[key]
        holder[key] = draw(
            st.sampled_from((17, "other", None, True, [], {"a": 1}, [1, [2]])).filter(lambda new: new != old)
        )
    return changed, place


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_accepts_the_model_it_was_made_from(name):
    assert exact(name).violations(shown(name)) == ()


@pytest.mark.parametrize("name", NAMES)
@examples(40)
@given(data=st.data())
def test_a_schema_refuses_every_mutation(name, data):
    changed, place = data.draw(mutations(shown(name)))
    violations = exact(name).violations(changed)
    assert violations, place
    assert all(problem.kind == "model" and problem.node is not None for problem in violations)


@pytest.mark.parametrize("name", NAMES)
@examples(25)
@given(data=st.data())
def test_a_zom_as_a_requirement_refuses_what_its_schema_refuses(name, data):
    changed, place = data.draw(mutations(shown(name)))
    try:
        found = models.validate(changed, shown(name))
    except ValueError:
        return  # no model any more
    normal = models.show(changed).model
    if normal != shown(name) and not spelled_otherwise(normal, shown(name)):
        assert found, place


def spelled_otherwise(one, other):
    """Whether models say the same in two ways that a specification allows (no filters, null filters)."""
    return not models.diff(one, other)


def test_numbers_are_those_of_json():
    model = {"zarr_format": 3, "node_type": "group", "attributes": {"n": 1, "yes": True}, "members": {}}
    schema = models.load(models.schema(model))
    assert schema.violations({**model, "attributes": {"n": 1.0, "yes": True}}) == ()
    assert schema.violations({**model, "attributes": {"n": 1, "yes": 1}}), "true is no number"


OPENED = {
    "shape": ("shape", [7, 5, 3]),
    "attributes": ("attributes", {"anything": [1, 2]}),
    "chunks": ("chunk_grid", {"name": "regular", "configuration": {"chunk_shape": [1, 1, 1]}}),
    "codecs": ("codecs", [{"name": "bytes"}]),
    "fill_value": ("fill_value", 99),
    "keys": ("chunk_key_encoding", {"name": "v2", "configuration": {"separator": "."}}),
}


@pytest.mark.parametrize("part", OPENED)
def test_a_part_that_is_left_open_may_differ_and_no_other(part):
    model = models.show(archive("zarr-2.18/people/ocean").path, migrated=True).model
    schema = models.load(models.schema(model, leave_open=(part,)))
    member, value = OPENED[part]
    changed = copy.deepcopy(model)
    changed["members"]["sst"][member] = value
    assert schema.violations(changed) == ()
    for other, (name, different) in OPENED.items():
        if other != part:
            again = copy.deepcopy(model)
            again["members"]["sst"][name] = different
            assert [problem.node for problem in schema.violations(again)]


def test_an_open_shape_keeps_its_number_of_axes():
    model = models.show(archive("zarr-2.18/people/ocean").path).model
    schema = models.load(models.schema(model, leave_open=("shape",)))
    changed = copy.deepcopy(model)
    changed["members"]["sst"]["shape"] = [4]
    (problem,) = schema.violations(changed)
    assert problem.node == "sst"
    assert problem.message.startswith("shape: ")


def test_open_members_may_be_more_and_not_fewer():
    model = models.show(archive("zarr-2.18/people/ocean").path).model
    schema = models.load(models.schema(model, leave_open=("members",)))
    more = copy.deepcopy(model)
    more["members"]["new"] = more["members"]["sst"]
    assert schema.violations(more) == ()
    fewer = copy.deepcopy(model)
    del fewer["members"]["sst"]
    assert [(p.node, p.message) for p in schema.violations(fewer)] == [("sst", "the node is missing")]


@pytest.mark.parametrize("number", [2, 3])
def test_the_schema_of_a_format_is_a_json_schema_of_draft_2020_12(number):
    import jsonschema_rs

    schema = models.schema(zarr_format=number)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert jsonschema_rs.meta.is_valid(json.loads(json.dumps(schema)))


ARRAY = v3_array([4], [2], "int8", codecs=[{"name": "bytes"}])


def group(**members):
    return {"zarr_format": 3, "node_type": "group", "attributes": {}, "members": members}


@pytest.mark.parametrize(
    ("model", "node", "message"),
    [
        pytest.param(group(a={**ARRAY, "shape": [-1]}), "a", "shape/0", id="shape"),
        pytest.param(group(a={**ARRAY, "fill_value": 200}), "a", "fill_value", id="fill-of-the-type"),
        pytest.param(group(a={**ARRAY, "members": {}}), "a", "members", id="array-with-members"),
        pytest.param(group(b=group(a={**ARRAY, "codecs": []})), "b/a", "codecs", id="deep"),
        pytest.param(group(**{"..": group()}), "", "members", id="name-of-periods"),
        pytest.param(group(**{"a/b": group()}), "", "members", id="name-with-a-slash"),
        pytest.param(group(**{"zarr.json": group()}), "", "members", id="reserved-name"),
        pytest.param({**group(), "attributes": []}, "", "attributes", id="attributes"),
        pytest.param({key: {} if key == "attributes" else value for key, value in group().items()
                      if key != "members"}, "", "members", id="no-members"),
        pytest.param({**group(), "consolidated_metadata": {}}, "", "consolidated", id="consolidated"),
        pytest.param(group(a={**ARRAY, "codecs": [{"name": "gzip", "configuration": {"level": 10}}]}),
                     "a", "codecs/0", id="level"),
    ],
)  # fmt: skip
def test_the_schema_of_v3_finds_what_is_wrong_at_its_place(model, node, message):
    violations = models.load(models.schema(zarr_format=3)).violations(model)
    assert any(problem.node == node and message in problem.message for problem in violations), violations


# What a migration's result must be is checked in its plan, before a byte moves.


OCEAN = archive("zarr-2.18/people/ocean").path
CELLS = archive("zarr-2.18/people/cells").path


@pytest.fixture
def model(tmp_path):
    """What migration makes of the ocean, in a file."""
    file = tmp_path / "model.json"
    file.write_text(json.dumps(models.show(OCEAN, migrated=True).model))
    return file


def recipe(model, **more):
    return zarrlift.Recipe(model=models.load(str(model)).named(), **more)


def test_a_result_that_is_as_required_is_made(model, tmp_path):
    outcome = zarrlift.migrate(OCEAN, tmp_path / "new", recipe=recipe(model))
    assert outcome.ok
    assert models.validate(tmp_path / "new", str(model)) == ()


def test_a_result_that_would_not_be_is_refused_before_anything_is_touched(model, tmp_path):
    with pytest.raises(UsageError) as caught:
        zarrlift.migrate(CELLS, tmp_path / "new", recipe=recipe(model))
    assert "the result would not conform to the model" in str(caught.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.json"]


def test_the_plan_lists_every_violation_with_its_path(model, tmp_path):
    changed = json.loads(model.read_text())
    changed["members"]["sst"]["shape"] = [1, 2, 3]
    del changed["members"]["lat"]
    model.write_text(json.dumps(changed))
    plan = zarrlift.plan(OCEAN, tmp_path / "new", recipe=recipe(model))
    refusals = [problem for problem in plan.problems if problem.kind == "model"]
    assert [(problem.node, problem.severity) for problem in refusals] == [
        ("lat", "refusal"),
        ("sst", "refusal"),
    ]
    assert zarrlift.Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan


def test_the_model_is_held_against_the_result_not_the_source(model, tmp_path):
    as_stored = recipe(model, base=zarrlift.ArrayRecipe(codecs="zstd:3"))
    plan = zarrlift.plan(OCEAN, tmp_path / "new", recipe=as_stored)
    assert {problem.message.partition(":")[0] for problem in plan.problems if problem.kind == "model"} == {
        "codecs"
    }


def test_a_model_of_v2_is_no_model_of_a_result(tmp_path):
    file = tmp_path / "v2.json"
    file.write_text(json.dumps(models.show(OCEAN).model))
    with pytest.raises(UsageError, match="a different format"):
        zarrlift.plan(OCEAN, tmp_path / "new", recipe=recipe(file))


def test_a_schema_may_be_required_too(tmp_path):
    schema = tmp_path / "schema.json"
    schema.write_text(json.dumps({"properties": {"attributes": {"required": ["title"]}}}))
    assert zarrlift.plan(OCEAN, "new", recipe=recipe(schema)).problems == ()
    plan = zarrlift.plan(CELLS, "new", recipe=recipe(schema))
    (problem,) = (p for p in plan.problems if p.kind == "model")
    assert "title" in problem.message
    assert problem.node == ""


def test_in_place_the_result_is_checked_too(model, tmp_path):
    shutil.copytree(OCEAN, tmp_path / "here")
    before = {file.name for file in (tmp_path / "here").rglob("*")}
    with pytest.raises(UsageError, match="the result would not conform"):
        zarrlift.migrate(tmp_path / "here", in_place=True, recipe=recipe(model))
    assert {file.name for file in (tmp_path / "here").rglob("*")} == before, "in place keys stay those of v2"


@pytest.fixture
def stopped(model, tmp_path, monkeypatch):
    """The source of a job that has been made and did nothing yet."""
    from zarrlift.jobs.run import Run

    def stop(self):
        raise RuntimeError("stopped")

    source = shutil.copytree(OCEAN, tmp_path / "source")
    monkeypatch.setattr(Run, "__call__", stop)
    with pytest.raises(RuntimeError):
        zarrlift.migrate(source, tmp_path / "new", recipe=recipe(model))
    monkeypatch.undo()
    return source


def test_a_job_keeps_the_model_and_needs_no_file(stopped, model, tmp_path):
    model.unlink()
    assert zarrlift.resume(tmp_path / "new").ok


def test_a_source_that_changed_is_refused_on_resume(stopped, tmp_path):
    shutil.rmtree(stopped / "sst")
    with pytest.raises(UsageError, match="the result would not conform"):
        zarrlift.resume(tmp_path / "new")
    assert not (tmp_path / "new" / "zarr.json").exists()


def test_a_recipe_file_names_a_model_beside_it(model, tmp_path, monkeypatch):
    (tmp_path / "recipe.toml").write_text('model = "model.json"\n')
    monkeypatch.chdir("/")
    loaded = load_recipe(tmp_path / "recipe.toml")
    assert loaded.model is not None
    assert zarrlift.plan(OCEAN, tmp_path / "new", recipe=loaded).problems == ()
    assert zarrlift.Recipe.from_json(json.loads(json.dumps(loaded.to_json()))) == loaded


@pytest.mark.parametrize("text", ["model = 1", 'model = "nowhere.json"'])
def test_a_recipe_that_names_no_model_is_refused(text, tmp_path):
    (tmp_path / "recipe.toml").write_text(text)
    with pytest.raises(UsageError, match="model"):
        load_recipe(tmp_path / "recipe.toml")


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        pytest.param("", MetadataError, "empty", id="empty"),
        pytest.param("[1, 2]", MetadataError, "not a JSON object", id="list"),
        pytest.param('{"zarr_format": 3}', MetadataError, "no known node_type", id="no-node-type"),
        pytest.param('{"zarr_format": 7}', MetadataError, "zarr_format", id="other-format"),
        pytest.param('{"type": "nonsense"}', UsageError, "not a JSON Schema", id="no-schema"),
        pytest.param('{"properties": 5}', UsageError, "not a JSON Schema", id="no-properties"),
        pytest.param(
            '{"$ref": "https://example.org/schema"}', UsageError, "which is not fetched", id="far-away"
        ),
        pytest.param('{"$ref": "#/nowhere"}', UsageError, "not a JSON Schema", id="nowhere"),
        pytest.param(
            '{"$schema": "https://example.org/mine"}', UsageError, "not a JSON Schema", id="dialect"
        ),
    ],
)
def test_what_is_no_model_is_told_before_an_archive_is_read(content, error, message, tmp_path):
    (tmp_path / "model.json").write_text(content)
    with pytest.raises(error) as caught:
        models.load(str(tmp_path / "model.json"))
    assert message in str(caught.value)
    assert "model.json" in str(caught.value)


def test_a_directory_and_nothing_are_no_models(tmp_path):
    with pytest.raises(UsageError, match="this is a directory"):
        models.load(str(tmp_path))
    with pytest.raises(UsageError, match="cannot be read"):
        models.load(str(tmp_path / "nowhere.json"))


def test_parts_are_left_open_of_a_zom_only():
    with pytest.raises(UsageError, match="only the parts of a ZOM"):
        models.load({"type": "object"}, leave_open=("shape",))


# Models as instances of pydantic-zarr, which checks them against types of its own.


KINDS = {("zarr2", "group"): v2.GroupSpec, ("zarr3", "group"): v3.GroupSpec,
         ("zarr2", "array"): v2.ArraySpec, ("zarr3", "array"): v3.ArraySpec}  # fmt: skip


@pytest.mark.parametrize("migrated", [False, True], ids=["v2", "v3"])
@pytest.mark.parametrize("name", ["", "sst"])
def test_a_model_becomes_an_instance_and_back(name, migrated):
    shown = models.show(OCEAN, migrated=migrated)
    model = shown.model["members"][name] if name else shown.model
    spec = models.to_pydantic(model)
    assert isinstance(spec, KINDS[shown.format, "array" if name else "group"])
    assert models.diff(spec.model_dump(mode="json"), model) == ()


class AxisNames(BaseModel, extra="allow"):
    """What xarray asks of an array: `_ARRAY_DIMENSIONS`, and whatever else."""

    dims: list[str] = Field(alias="_ARRAY_DIMENSIONS")


Dataset = v2.GroupSpec[dict[str, Any], Union[v2.GroupSpec, v2.ArraySpec[AxisNames]]]  # noqa: UP007 - as in ZEP 6


def test_pydantic_zarr_checks_a_model_against_a_type():
    model = models.show(OCEAN).model
    assert Dataset.model_validate(model).members["sst"].attributes.dims == ["time", "lat", "lon"]
    del model["members"]["sst"]["attributes"]["_ARRAY_DIMENSIONS"]
    with pytest.raises(ValidationError, match="_ARRAY_DIMENSIONS"):
        Dataset.model_validate(model)


def test_an_array_without_a_separator_has_the_one_of_the_specification():
    """pydantic-zarr 0.9.2 takes "/" for what the v2 specification says is "."."""
    sst = models.show(OCEAN).model["members"]["sst"]
    array = {name: value for name, value in sst.items() if name != "dimension_separator"}
    assert models.to_pydantic(array).dimension_separator == "."
    assert "dimension_separator" not in array, "what is given stays as it is"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shape": "large"}, "pydantic-zarr does not accept the model"),
        ({"zarr_format": 4}, "no known zarr_format"),
    ],
)
def test_what_is_no_model_is_refused(changes, message):
    with pytest.raises(MetadataError, match=message):
        models.to_pydantic(models.show(OCEAN).model["members"]["sst"] | changes)
