"""Where two hierarchies differ: exactly where, and nowhere else."""

from __future__ import annotations

import copy

import pytest
from tests.support.fixtures_index import archive

import zarrlift
from zarrlift import models
from zarrlift.models.differences import normal
from zarrlift.models.hierarchy import in_v3_words
from zarrlift.planning.zarr_json import array_document, group_document

OCEAN = archive("zarr-2.18/people/ocean").path


def test_equal_hierarchies_do_not_differ(tmp_path):
    model = models.show(OCEAN)
    assert models.diff(OCEAN, OCEAN) == ()
    models.create(model.model, tmp_path / "made")
    assert models.diff(OCEAN, tmp_path / "made") == (), "chunks are no structure"


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


def test_the_other_way_round_added_and_missing_change_places():
    first = models.show(OCEAN).model
    second = {**first, "members": {name: node for name, node in first["members"].items() if name != "sst"}}
    assert [d.what for d in models.diff(first, second)] == ["missing"]
    assert [d.what for d in models.diff(second, first)] == ["added"]


V3 = {
    "zarr_format": 3, "node_type": "array", "shape": [4], "data_type": "float32", "fill_value": 0.0,
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}},
    "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
    "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}],
    "attributes": {},
}  # fmt: skip


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


@pytest.mark.parametrize(
    "change",
    [
        {"fill_value": 1}, {"fill_value": "NaN"}, {"shape": [5]}, {"dimension_names": ["x"]},
        {"chunk_key_encoding": {"name": "default", "configuration": {"separator": "."}}},
        {"codecs": V3["codecs"][:1]}, {"data_type": "float64"}, {"attributes": {"a": 1}},
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


OTHERS = ("n5/z5py/all", "zarr_v1/zarr-1.1/arrays", "zarr_v3_draft/zarrita/all")
PEOPLE = ("zarr-2.18/people/ocean", "zarr-2.18/people/cells", "zarr-2.18/people/cohort")


@pytest.mark.parametrize("name", [*PEOPLE, *OTHERS])
@pytest.mark.slow(one_in=6)
def test_an_archive_and_its_migration_differ_by_what_the_plan_announced(name, tmp_path):
    source = archive(name).path
    plan = zarrlift.plan(source, tmp_path / "new")
    outcome = zarrlift.migrate(source, tmp_path / "new", verify="none")
    # Chunks that do not decode keep an array back too; a plan does not read them.
    failed = {problem.node for problem in outcome.problems if problem.severity == "refusal"}
    shown = models.flatten(models.show(source).model)  # attributes as JSON has them
    announced = set()
    nodes = {node.path: node for node in zarrlift.inspect(source).nodes}
    for planned in plan.published:
        if planned.path in failed:
            continue
        node = nodes[planned.path]
        layout = getattr(node, "layout", None)
        attributes = shown[planned.path]["attributes"]
        before = (
            group_document(attributes) if layout is None else array_document(in_v3_words(layout), attributes)
        )
        before, after = normal(before), normal(planned.document)
        announced |= {
            (planned.path, member)
            for member in (before.keys() | after.keys()) - {"attributes"}
            if before.get(member) != after.get(member)
        }
        old, new = before.get("attributes", {}), after.get("attributes", {})
        announced |= {
            (planned.path, f"attributes/{key}")
            for key in old.keys() | new.keys()
            if key not in old or key not in new or old[key] != new[key]
        }
    announced |= {(path, None) for path in failed if nodes[path].documents}
    found = {(d.path, d.member) for d in models.diff(source, tmp_path / "new")}
    unread = {problem.node for problem in models.show(source).problems if problem.severity == "refusal"}
    assert found == {(path, member) for path, member in announced if path not in unread}
    assert found, "a migration changes something: the keys of chunks, at the least"
