"""Results made for a reader are read by that reader, and what it cannot read is refused by name."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import zarr
from tests.end_to_end.readers.base import parametrize_readers
from tests.support.reader_cases import Case, same, sharded

import zarrlift
from zarrlift.core.chain.reader_table import table
from zarrlift.planning.result_readers import document_features

READERS = ("zarr-python", "tensorstore", "zarrs", "zarrita", "neuroglancer", "gdal", "xarray")
NUMBERS = np.arange(35).reshape(5, 7)


def reader_of(name: str) -> Callable[[Path, str], Any]:
    modules = {
        "zarr-python": "zarr_python",
        "tensorstore": "tensorstore_zarr3",
        "zarrs": "zarrs_pipeline",
        "gdal": "gdal_netcdf",
        "xarray": "xarray_dataset",
    }
    read = importlib.import_module(f"tests.end_to_end.readers.{modules.get(name, 'zarrita_js')}").read
    return partial(read, reader=name) if name in ("zarrita", "neuroglancer") else read


@pytest.fixture(scope="module")
def legacy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive of Zarr v2 by zarr-python: types, codecs and orders of every kind, dimension names."""
    root = tmp_path_factory.mktemp("legacy") / "old.zarr"
    group = zarr.open_group(root, mode="w", zarr_format=2)

    def make(name: str, values: Any, **given: Any) -> None:
        array = group.create_array(name, shape=values.shape, chunks=(2, 3), dtype=values.dtype, **given)
        array[...] = values
        if name != "unnamed":
            array.attrs["_ARRAY_DIMENSIONS"] = [f"y{values.shape[0]}", f"x{values.shape[1]}"]

    for kind in ("?", "i1", "<i8", ">u2", "<f2", ">f4", "<f8", "<c16"):
        make(f"type_{kind.strip('<>?') or 'bool'}", NUMBERS.astype(kind), compressors=numcodecs.Zlib(1))
    for name, compressor in (("none", None), ("zstd", numcodecs.Zstd(2)), ("lz4", numcodecs.LZ4())):
        make(f"codec_{name}", NUMBERS.astype("<i4"), compressors=compressor)
    make("filtered", NUMBERS.astype("<i4"), filters=[numcodecs.Delta("<i4")], compressors=numcodecs.BZ2(1))
    make("checked", NUMBERS.astype("<i4"), compressors=numcodecs.CRC32())
    make("order_f", NUMBERS.astype("<i4"), order="F", compressors=numcodecs.Blosc("zlib"))
    make("unnamed", NUMBERS.astype("<i4"), compressors=None)
    make("text", np.array([["ab", "c"], ["", "d"]]), compressors=None)
    return root


def made_for(reader: str, source: Path, destination: Path) -> tuple[zarrlift.Plan, list[str]]:
    """What is planned for a reader, done without what it refuses."""
    recipe = zarrlift.ArrayRecipe(readers=reader)
    plan = zarrlift.plan(source, destination, recipe=zarrlift.Recipe(base=recipe))
    refused = [refusal.path for refusal in plan.refusals]
    zarrlift.migrate(source, destination, recipe=zarrlift.Recipe(base=recipe, exclude=tuple(refused)))
    return plan, refused


@parametrize_readers(READERS)
def test_a_result_for_a_reader_is_read_by_it(reader: str, legacy: Path, tmp_path: Path) -> None:
    plan, refused = made_for(reader, legacy, tmp_path / "new.zarr")
    version = table().named(reader)
    for array in plan.arrays:
        assert {version.answer(name) for name in document_features(array.document, array.path)} == {True}
        seen = reader_of(reader)(tmp_path / "new.zarr", array.path)
        wanted = zarr.open_array(legacy / array.path, mode="r")[...]
        assert same(np.asarray(seen.values), Case(values=np.asarray(wanted))), array.path
    assert len(plan.arrays) + len(refused) == 16
    assert ("unnamed" in refused) == (reader == "xarray")
    for refusal in plan.refusals:
        (problem,) = (problem for problem in refusal.problems if problem.severity == "refusal")
        assert problem.kind == "readers"
        assert str(version) in problem.message
        assert (problem.found or "").startswith(("data type ", "dimension names: none"))


@parametrize_readers(("zarrita", "gdal"))
def test_shards_are_changed_for_readers_that_misread_or_refuse_them(reader: str, tmp_path: Path) -> None:
    case = sharded(start=True, checksum=False)
    case.write(tmp_path / "old.zarr")
    plan, refused = made_for(reader, tmp_path / "old.zarr", tmp_path / "new.zarr")
    assert not refused
    notes = [problem.message for problem in plan.arrays[0].problems if problem.kind == "readers"]
    assert notes == [f"adapted for {table().named(reader)}"]
    assert same(np.asarray(reader_of(reader)(tmp_path / "new.zarr", "").values), case)
