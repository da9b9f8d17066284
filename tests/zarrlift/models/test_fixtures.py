"""The model of every fixture: shown, made again, shown again; accepted by the schemas that should."""

from __future__ import annotations

import json
from functools import cache

import pytest
from tests.support.fixtures_index import FORMATS, archives

from zarrlift import models
from zarrlift.formats.tree.documents import parse_object
from zarrlift.models.hierarchy import MAX_JSON_LEVELS
from zarrlift.models.text import lines
from zarrlift.models.zom import finite

ARCHIVES = [archive for format_ in FORMATS for archive in archives(format_)]
V2 = [archive for archive in ARCHIVES if archive.path.as_posix().count("zarr_v2")]


def shown(archive):
    return _shown(archive.path)


@cache
def _shown(path):
    return models.show(path)


@cache
def of_format(number):
    return models.load(models.schema(zarr_format=number))


@pytest.mark.slow(one_in=11)
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


@pytest.mark.slow(one_in=5)
@pytest.mark.needs_reader("once")
@pytest.mark.parametrize("archive", ARCHIVES, ids=str)
def test_the_text_of_a_model_is_strict_json_and_reads_back(archive, tmp_path):
    model = shown(archive).model
    text = "\n".join(lines(model))
    assert json.loads(text, parse_constant=pytest.fail) == model
    file = tmp_path / "model.json"
    file.write_text(text)
    read = models.show(file)
    assert read.model == model
    assert read.problems == (), "what we write needs no leniency"


@pytest.mark.parametrize("archive", ARCHIVES, ids=str)
def test_the_schema_of_the_format_accepts_what_the_specification_does(archive):
    model = shown(archive).model
    violations = of_format(model["zarr_format"]).violations(model)
    if archive.name == "zarr-2.18/deviations":
        # What the specification requires, and old writers left out or wrote otherwise.
        assert {(problem.node, problem.message) for problem in violations} == {
            ("no_compressor", '"compressor" is a required property'),
            ("no_fill_value", '"fill_value" is a required property'),
            ("no_filters", '"filters" is a required property'),
            ("no_order", '"order" is a required property'),
        }
    elif archive.name in ("netcdf-4.9.0/nczarr", "netcdf-4.9.3-development/dimensions"):
        # Members of its own in every group; later versions keep them among the attributes.
        assert {problem.node for problem in violations} == set(archive.groups)
        assert all("'_nczarr_group'" in problem.message.lower() for problem in violations)
    else:
        assert violations == ()


@pytest.mark.parametrize("archive", V2, ids=str)
def test_v2_is_shown_as_it_is(archive):
    if archive.kind == "zip":
        return
    flat = models.flatten(shown(archive).model)
    for path, node in flat.items():
        document = archive.path / path / (".zarray" if "shape" in node else ".zgroup")
        if document.exists():  # groups may be implicit
            stored = parse_object(document.read_bytes(), str(document), most_levels=MAX_JSON_LEVELS)
            assert {name: node[name] for name in stored} == finite(stored)
        assert isinstance(node["attributes"], dict)


@pytest.mark.slow(one_in=25)
@pytest.mark.needs_reader("once")
@pytest.mark.parametrize("archive", ARCHIVES, ids=str)
def test_what_migration_makes_of_it_is_a_model_of_v3(archive):
    made = models.show(shown(archive), migrated=True)
    assert of_format(3).violations(made.model) == ()
    again = models.show(made.model, migrated=True)
    assert models.diff(made, again) == (), "what is v3 and portable stays as it is"
