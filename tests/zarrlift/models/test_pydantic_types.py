"""Models as Python types: mypy checks what is static, pydantic what depends on values."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any, Union

import pytest
from pydantic import BaseModel, Field, model_validator
from pydantic_zarr import v2, v3
from tests.support.fixtures_index import archive

from zarrlift import models
from zarrlift.models.pydantic_types import load_class
from zarrstack.core.errors import MetadataError, UsageError

OCEAN = archive("zarr-2.18/people/ocean").path


class AxisNames(BaseModel, extra="allow"):
    """What xarray asks of an array: `_ARRAY_DIMENSIONS`, and whatever else."""

    dims: list[str] = Field(alias="_ARRAY_DIMENSIONS")


class NamedArray(v2.ArraySpec[AxisNames]):
    @model_validator(mode="after")
    def one_name_for_each_axis(self):
        if len(self.attributes.dims) != len(self.shape):
            raise ValueError(f"{len(self.shape)} axes have {len(self.attributes.dims)} names")
        return self


Dataset = v2.GroupSpec[dict[str, Any], Union[v2.GroupSpec, NamedArray]]  # noqa: UP007 - spelled as in ZEP 6


@pytest.fixture
def ocean():
    return models.show(OCEAN).model


def test_an_xarray_dataset_is_what_its_model_says(ocean):
    assert models.validate(ocean, Dataset) == ()


def test_a_rule_about_values_is_checked(ocean):
    ocean["members"]["sst"]["attributes"]["_ARRAY_DIMENSIONS"] = ["time"]
    (problem,) = models.validate(ocean, Dataset)
    assert problem.node == "sst"
    assert problem.message == "3 axes have 1 names"


def test_every_violation_has_its_place(ocean):
    del ocean["members"]["sst"]["attributes"]["_ARRAY_DIMENSIONS"]
    ocean["members"]["lat"]["shape"] = ["36"]
    ocean["members"]["lon"]["colour"] = "red"
    found = {(problem.node, problem.message.partition(":")[0]) for problem in models.validate(ocean, Dataset)}
    assert found == {("sst", "attributes/_ARRAY_DIMENSIONS"), ("lat", "shape/0"), ("lon", "colour")}


def test_the_number_of_dimension_names_is_that_of_axes():
    model = models.show(OCEAN, migrated=True).model
    assert models.validate(model, v3.GroupSpec[dict[str, Any], v3.ArraySpec[dict[str, Any]]]) == ()
    model["members"]["sst"]["dimension_names"] = ["time"]
    (problem,) = models.validate(model, v3.GroupSpec[dict[str, Any], v3.ArraySpec[dict[str, Any]]])
    assert problem.node == "sst"
    assert "dimension names" in problem.message


def test_a_model_becomes_an_instance_and_back(ocean):
    instance = models.as_instance(ocean, Dataset)
    assert instance.members["sst"].attributes.dims == ["time", "lat", "lon"]
    back = models.from_instance(instance)
    assert models.diff(back, ocean) == ()


def test_an_array_without_a_separator_has_the_one_of_the_specification(ocean):
    """pydantic-zarr 0.9.2 takes "/" for what the v2 specification says is "."."""
    del ocean["members"]["sst"]["attributes"]["_ARRAY_DIMENSIONS"]
    array = {name: value for name, value in ocean["members"]["sst"].items() if name != "dimension_separator"}
    instance = models.as_instance(array, v2.ArraySpec[dict[str, Any]])
    assert instance.dimension_separator == "."
    assert "dimension_separator" not in array, "what is given stays as it is"


def test_an_instance_of_what_a_model_is_not_is_an_error(ocean):
    ocean["members"]["sst"]["shape"] = "large"
    with pytest.raises(MetadataError) as caught:
        models.as_instance(ocean, Dataset)
    assert caught.value.problem.node == "sst"


def test_any_type_that_pydantic_reads_is_a_model(ocean):
    @dataclass
    class Titled:
        attributes: dict[str, Any]
        members: dict[str, Any]
        zarr_format: int = 2

        def __post_init__(self):
            if "title" not in self.attributes:
                raise ValueError("a title is missing")

    assert models.validate(ocean, Titled) == ()
    del ocean["attributes"]["title"]
    (problem,) = models.validate(ocean, Titled)
    assert "a title is missing" in problem.message


def test_a_type_is_named_by_its_module(tmp_path, monkeypatch, ocean):
    (tmp_path / "my_conventions.py").write_text(
        "from pydantic import BaseModel\n\n\nclass Outer:\n    class Titled(BaseModel):\n"
        "        zarr_format: int\n        attributes: dict[str, object]\n"
    )
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    assert models.validate(ocean, "my_conventions:Outer.Titled") == ()
    assert sys.path == before
    sys.modules.pop("my_conventions")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_such_module:X", "No module named"),
        ("zarrlift:NoSuchClass", "NoSuchClass"),
        ("os:path.nothing", "nothing"),
    ],
)
def test_a_type_that_cannot_be_imported_is_a_usage_error(name, message):
    with pytest.raises(UsageError) as caught:
        load_class(name)
    assert message in caught.value.problem.found


def test_code_that_fails_on_import_is_a_usage_error(tmp_path, monkeypatch):
    (tmp_path / "fails_on_import.py").write_text("1 / 0\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="cannot be imported"):
        models.load("fails_on_import:X")


class Mistaken(BaseModel):
    """Whoever wrote it forgot that there are groups without a title."""

    attributes: dict[str, Any]

    @model_validator(mode="after")
    def is_titled(self):
        assert self.attributes["heading"] != ""
        return self


def test_a_mistake_in_the_code_of_a_type_is_the_users_with_its_place(ocean):
    for ask in (models.validate, models.as_instance):
        with pytest.raises(UsageError, match="own code failed") as caught:
            ask(ocean, Mistaken)
        found = caught.value.problem.found
        assert found.startswith("KeyError: 'heading', in is_titled, ")
        assert f"{__file__}:" in found
        assert caught.value.problem.key == "Mistaken"
    (row,) = models.validate_many([OCEAN], Mistaken)
    assert "own code failed" in row[1][0].message


def test_what_is_no_type_is_a_usage_error():
    with pytest.raises(UsageError, match="pydantic cannot check this type"):
        models.load("os:path")


CODE = """
from typing import Any
from pydantic import BaseModel
from pydantic_zarr.v3 import ArraySpec, GroupSpec
from zarrlift import models

class Attrs(BaseModel):
    units: str

Array = ArraySpec[Attrs]
Group = GroupSpec[dict[str, Any], ArraySpec[Attrs]]

group = models.as_instance(models.show("x").model, Group)
for name, array in (group.members or {}).items():
    units: str = array.attributes.units
    wrong: int = array.attributes.units
"""


@pytest.mark.slow
@pytest.mark.needs_reader("mypy")
def test_mypy_knows_the_types_of_members_and_attributes(tmp_path):
    (tmp_path / "code.py").write_text(CODE)
    words = [sys.executable, "-m", "mypy", "--config-file=", "--cache-dir", os.devnull,
             "--follow-imports=silent", "--ignore-missing-imports", "code.py"]  # fmt: skip
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    (line,) = (line for line in done.stdout.splitlines() if "error" in line and line.startswith("code.py"))
    assert 'expression has type "str", variable has type "int"' in line
    assert line.startswith(
        f"code.py:{CODE.splitlines().index('    wrong: int = array.attributes.units') + 1}:"
    )
