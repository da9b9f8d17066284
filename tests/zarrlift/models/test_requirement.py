"""What a migration's result must be is checked in its plan, before a byte moves."""

from __future__ import annotations

import json
import shutil

import pytest
from tests.support.fixtures_index import archive

import zarrlift
from zarrlift import models
from zarrlift.recipe.recipe import RequiredModel
from zarrlift.recipe.toml_file import load_recipe
from zarrstack.core.errors import MetadataError, UsageError

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


def test_schemas_and_types_may_be_required_too(tmp_path, monkeypatch):
    schema = tmp_path / "schema.json"
    schema.write_text(json.dumps({"properties": {"attributes": {"required": ["title"]}}}))
    (tmp_path / "required_model.py").write_text(
        "from pydantic import BaseModel\nclass A(BaseModel):\n    title: str\n"
        "class M(BaseModel):\n    attributes: A\n"
    )
    monkeypatch.chdir(tmp_path)
    for what in (schema, "required_model:M"):
        assert zarrlift.plan(OCEAN, "new", recipe=recipe(what)).problems == ()
        (problem,) = (
            p for p in zarrlift.plan(CELLS, "new", recipe=recipe(what)).problems if p.kind == "model"
        )
        assert "title" in problem.message
        assert problem.node == ""


def test_in_place_the_result_is_checked_too(model, tmp_path):
    shutil.copytree(OCEAN, tmp_path / "here")
    before = {file.name for file in (tmp_path / "here").rglob("*")}
    with pytest.raises(UsageError, match="the result would not conform"):
        zarrlift.migrate(tmp_path / "here", in_place=True, recipe=recipe(model))
    assert {file.name for file in (tmp_path / "here").rglob("*")} == before, "in place keys stay those of v2"


def test_a_job_keeps_the_model_and_needs_no_file(model, tmp_path, monkeypatch):
    from zarrlift.jobs.run import Run

    def stop(self):
        raise RuntimeError("stopped")

    monkeypatch.setattr(Run, "__call__", stop)
    with pytest.raises(RuntimeError):
        zarrlift.migrate(OCEAN, tmp_path / "new", recipe=recipe(model))
    monkeypatch.undo()
    model.unlink()
    assert zarrlift.resume(tmp_path / "new").ok


def test_a_source_that_changed_is_refused_on_resume(model, tmp_path, monkeypatch):
    from zarrlift.jobs.run import Run

    source = tmp_path / "source"
    shutil.copytree(OCEAN, source)

    def stop(self):
        raise RuntimeError("stopped")

    monkeypatch.setattr(Run, "__call__", stop)
    with pytest.raises(RuntimeError):
        zarrlift.migrate(source, tmp_path / "new", recipe=recipe(model))
    monkeypatch.undo()
    shutil.rmtree(source / "sst")
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
    (tmp_path / "recipe.toml").write_text('model = "my.module:Class"\n')
    assert load_recipe(tmp_path / "recipe.toml").model == RequiredModel(name="my.module:Class")


@pytest.mark.parametrize("text", ["model = 1", 'model = "nowhere.json"'])
def test_a_recipe_that_names_no_model_is_refused(text, tmp_path):
    (tmp_path / "recipe.toml").write_text(text)
    with pytest.raises(UsageError, match="model"):
        load_recipe(tmp_path / "recipe.toml")


def test_a_job_of_before_there_were_models_has_none():
    assert "model" not in zarrlift.Recipe().to_json()
    assert zarrlift.Recipe.from_json(zarrlift.Recipe().to_json()).model is None


def test_one_model_for_many_archives(model, tmp_path):
    places = [tmp_path / f"copy-{number}" for number in range(5)]
    for place in places:
        shutil.copytree(OCEAN, place)
    shutil.rmtree(places[2] / "sst")
    (places[3] / ".zgroup").unlink()
    shutil.rmtree(places[4])
    found = dict(models.validate_many(places, str(model), migrated=True))
    assert [bool(found[place]) for place in places] == [False, False, True, False, True]
    assert [problem.node for problem in found[places[2]]] == ["sst"]
    assert found[places[4]][0].message.startswith("no such file or directory")


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


def test_parts_are_left_open_of_a_zom_only(tmp_path):
    for model in ({"type": "object"}, "zarrlift.models.zom:Flat"):
        with pytest.raises(UsageError, match="only the parts of a ZOM"):
            models.load(model, leave_open=("shape",))
