"""The applications themselves open what was migrated, equal to what they read from the source."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import xarray
from tests.support.fixtures_index import archive
from tests.support.readers import ENVIRONMENTS

import zarrlift
from zarrlift.recipe.recipe import ArrayRecipe, Recipe

READ = ENVIRONMENTS / "applications" / "read.py"
TEXT_ENCODINGS = {"_FillValue", "missing_value"}
"""On v2 xarray says of text that it was masked by one of these, on v3 by the other."""
OF_THE_FORMAT = {"compressors", "filters", "serializer", "shards", "fill_value"}
"""Encodings whose objects are zarr-python's, of one format or the other."""


pytestmark = [
    pytest.mark.filterwarnings("ignore:.*has multiple fill values"),  # before and after: climate's `late`
    pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:Numcodecs codecs are not in the Zarr version 3 specification"),
    # xarray says so where consolidated metadata is not where it looks for it.
    pytest.mark.filterwarnings("error:Failed to open Zarr store with consolidated metadata"),
]


def migrate(source: Path, result: Path, *, in_place: bool, recipe: Recipe | None = None) -> Path:
    """Migrate a fixture, or a copy of it where that lies."""
    if in_place:
        shutil.copytree(source, result)
        outcome = zarrlift.migrate(result, in_place=True, recipe=recipe)
    else:
        outcome = zarrlift.migrate(source, result, recipe=recipe)
    assert outcome.state == "done", outcome.problems
    return result


@pytest.fixture(params=["new place", "in place"])
def migrated(request, tmp_path):
    """A function that migrates a fixture; gives (source, result)."""

    def both(name: str) -> tuple[Path, Path]:
        source = archive(name).path
        return source, migrate(source, tmp_path / source.name, in_place=request.param == "in place")

    return both


def assert_same_encodings(before: xarray.Dataset, after: xarray.Dataset) -> None:
    """Chunks, data types, packing, units and masks that xarray would write again."""
    for name, variable in before.variables.items():
        kept = OF_THE_FORMAT | (TEXT_ENCODINGS if variable.dtype.kind in "OUT" else set())
        old, new = (
            {key: value for key, value in one.encoding.items() if key not in kept}
            for one in (variable, after[name].variable)
        )
        assert old.keys() == new.keys(), name
        for key in old:
            assert old[key] == new[key] or (np.isnan(old[key]) and np.isnan(new[key])), (name, key)


@pytest.mark.parametrize("inside", ["vcf", "geo"])
def test_xarray_opens_the_same_variants_and_rasters(inside: str, tmp_path) -> None:
    source = archive("applications/field").path / inside
    zarrlift.migrate(source, tmp_path / "new")
    with (
        xarray.open_zarr(source, chunks=None, zarr_format=2) as before,
        xarray.open_zarr(tmp_path / "new", chunks=None, zarr_format=3, consolidated=False) as after,
    ):
        xarray.testing.assert_identical(before.load(), after.load())
        assert_same_encodings(before, after)


@pytest.mark.slow(one_in=5)
@pytest.mark.parametrize(
    "name", ["applications/climate", "zarr-2.18/people/ocean", "zarr-2.18/people/cohort"]
)
def test_xarray_opens_the_same_dataset(name: str, migrated) -> None:
    source, result = migrated(name)
    with (
        xarray.open_zarr(source, chunks=None, zarr_format=2) as before,
        xarray.open_zarr(result, chunks=None, zarr_format=3) as after,
    ):
        xarray.testing.assert_identical(before.load(), after.load())
        assert_same_encodings(before, after)


def test_xarray_opens_the_same_raw_values(migrated) -> None:
    """Without decoding too: what is masked differs in its attribute alone."""
    source, result = migrated("applications/climate")
    options = {"chunks": None, "mask_and_scale": False, "decode_times": False}
    with (
        xarray.open_zarr(source, zarr_format=2, **options) as before,
        xarray.open_zarr(result, zarr_format=3, **options) as after,
    ):
        for name in before.variables:
            assert before[name].variable.equals(after[name].variable), name


def test_xarray_opens_the_same_tree(migrated) -> None:
    source, result = migrated("applications/weather")
    options = {"engine": "zarr", "chunks": None}
    with (
        xarray.open_datatree(source, zarr_format=2, **options) as before,
        xarray.open_datatree(result, zarr_format=3, **options) as after,
    ):
        xarray.testing.assert_identical(before.load(), after.load())


def test_xarray_writes_its_masks_the_same_way(tmp_path) -> None:
    """The attribute that stands for a mask is the one that xarray itself writes on v3."""
    source = archive("applications/climate").path
    zarrlift.migrate(source, tmp_path / "ours")
    with xarray.open_zarr(source, chunks=None, zarr_format=2) as before:
        for name in ("heat", "count", "bright", "took", "seen"):
            one = before[[name]].reset_coords(drop=True).load()
            for variable in one.variables.values():
                for key in ("compressors", "filters"):
                    variable.encoding.pop(key, None)
            one.to_zarr(tmp_path / "theirs" / name, zarr_format=3, consolidated=False)
            with (
                xarray.open_zarr(tmp_path / "ours", chunks=None, decode_cf=False) as ours,
                xarray.open_zarr(
                    tmp_path / "theirs" / name, chunks=None, decode_cf=False, consolidated=False
                ) as theirs,
            ):
                mine, other = ours[name].attrs["_FillValue"], theirs[name].attrs["_FillValue"]
                assert mine == other or (np.isnan(mine) and np.isnan(other)), name


OTHERS = [
    (what, name, in_place)
    for what, name in (
        ("anndata", "applications/anndata"),
        ("anndata", "applications/field/anndata_0_7"),
        ("mudata", "applications/field/mudata"),
        ("vcf", "applications/field/vcf"),
        ("geo", "applications/field/geo"),
        ("spatialdata", "applications/spatialdata"),
        ("ome", "applications/plate"),
        ("ome", "applications/series"),
        ("ome", "applications/ome_older"),
        ("ome", "zarr-2.18/people/cells"),
        ("newest", "applications/plate"),
        ("newest", "applications/series"),
    )
    for in_place in (False, True)
]


@pytest.fixture(scope="module")
def answers(tmp_path_factory) -> list[int | str]:
    """For each of `OTHERS` how much was compared, or what went wrong; the applications are loaded once."""
    root, work = tmp_path_factory.mktemp("others"), []
    for number, (what, name, in_place) in enumerate(OTHERS):
        fixture, _, inside = name.partition("field/")
        source = archive(fixture + "field").path / inside if inside else archive(name).path
        result = root / str(number) / source.name
        recipe = Recipe(base=ArrayRecipe(ome="0.6")) if what == "newest" else None
        made = migrate(source, result, in_place=in_place, recipe=recipe)
        work.append([what, str(source), str(made)])
    python = Path(os.environ["ZARRLIFT_APPLICATIONS"]) / "bin" / "python"
    done = subprocess.run([python, READ], input=json.dumps(work), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert len(found) == len(OTHERS)
    return found


@pytest.mark.needs_reader("applications")
@pytest.mark.parametrize(
    "number",
    range(len(OTHERS)),
    ids=[f"{what}, {name}{', in place' * place}" for what, name, place in OTHERS],
)
def test_others_open_the_same(number: int, answers: list[int | str]) -> None:
    assert isinstance(answers[number], int), answers[number]
    assert answers[number] > 0
