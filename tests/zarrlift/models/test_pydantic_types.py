"""Models as instances of pydantic-zarr, which checks them against types of its own."""

from __future__ import annotations

from typing import Any, Union

import pytest
from pydantic import BaseModel, Field, ValidationError
from pydantic_zarr import v2, v3
from tests.support.fixtures_index import archive

from zarrlift import models
from zarrstack.core.errors import MetadataError

OCEAN = archive("zarr-2.18/people/ocean").path
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
