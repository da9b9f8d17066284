"""A schema accepts the hierarchy it was made from, and nothing else."""

from __future__ import annotations

import copy
import json
from functools import cache

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from tests.support.fixtures_index import archive

from zarrlift import models
from zarrstack.core.errors import UsageError

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
@settings(max_examples=40)
@given(data=st.data())
def test_a_schema_refuses_every_mutation(name, data):
    changed, place = data.draw(mutations(shown(name)))
    violations = exact(name).violations(changed)
    assert violations, place
    assert all(problem.kind == "model" and problem.node is not None for problem in violations)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=25)
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


def test_an_unknown_part_is_a_usage_error():
    with pytest.raises(UsageError, match="unknown part of a model"):
        models.schema({"zarr_format": 2, "attributes": {}, "members": {}}, leave_open=("colour",))


@pytest.mark.parametrize("number", [2, 3])
def test_the_schema_of_a_format_is_a_json_schema_of_draft_2020_12(number):
    import jsonschema_rs

    schema = models.schema(zarr_format=number)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert jsonschema_rs.meta.is_valid(json.loads(json.dumps(schema)))


ARRAY = {
    "zarr_format": 3, "node_type": "array", "shape": [4], "data_type": "int8", "fill_value": 0,
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}},
    "chunk_key_encoding": {"name": "default"}, "codecs": [{"name": "bytes"}], "attributes": {},
}  # fmt: skip


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
