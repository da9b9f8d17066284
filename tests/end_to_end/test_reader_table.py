"""The table of who reads what, held against each reader that is installed, and the command that prints it."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import zarr
from tests.support import reader_evidence
from tests.support.reader_cases import Case, same, sharded
from tests.support.readers import READERS, parametrize_readers

import zarrlift
from zarrlift.cli.parser import main
from zarrlift.core.chain.reader_table import table
from zarrlift.planning.result_readers import document_features

TABLE_READERS = ("zarrs", "zarrita", "neuroglancer", "gdal")


@cache
def archive(folder: Path) -> tuple[Path, dict[str, str]]:
    """The arrays of all features, as zarrlift writes them."""
    written, paths = reader_evidence.archive(folder)
    root, by_hand = reader_evidence.migrated(written, paths, folder)
    assert len(by_hand) == 13, "what zarrlift never writes"
    return root, paths


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("features")


@parametrize_readers(TABLE_READERS)
@pytest.mark.needs_reader("once")
def test_no_tested_cell_is_wrong(reader: str, folder: Path) -> None:
    root, paths = archive(folder)
    tried = 0
    for label, (version, read) in reader_evidence.readers().items():
        if label.partition(" ")[0] not in (reader, {"gdal": "netcdf-c", "zarrs": "xarray"}.get(reader)):
            continue
        row = table().named(f"{label.partition(' ')[0]} {version}")
        reads, refuses = reader_evidence.answers(read, root, paths)
        assert {*reads} == row.reads, f"{row}: python -m tests.support.reader_evidence"
        assert refuses.keys() == row.refuses.keys()
        tried += 1
    assert tried == {"gdal": 3, "zarrs": 2}.get(reader, 1)


def test_the_command_prints_every_reader_and_feature_within_80_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["list", "readers"]) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    assert all(str(reader) in text for reader in table().readers)
    assert "numcodecs.fixedscaleoffset" in text
    assert f"{table().cells[0]:,} of {table().cells[1]:,} cells are tested" in " ".join(text.split())


def test_the_command_shows_what_one_reader_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "readers", "gdal 3.10", "--feature", "codec bytes"]) == 0
    assert "Unsupported codec: bytes" in capsys.readouterr().out


def test_the_command_as_json_has_readers_and_features(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "readers", "gdal,vizarr", "--feature", "shards", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["result"]
    assert [reader["name"] for reader in found["readers"]] == ["gdal", "vizarr"]
    assert found["features"]["shards"] == ["shards: index at the start", "shards: index without checksum"]
    assert found["readers"][1]["built_on"] == "zarrita 0.7.5"
    assert found["readers"][0]["no"]["shards: index at the start"] == "Unsupported codec: sharding_indexed"


@pytest.mark.parametrize("words", [["gdl"], ["--feature", "nonsense"]])
def test_the_command_names_what_it_does_not_know(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["list", "readers", *words]) == 2
    assert words[-1] in capsys.readouterr().err


def test_nothing_loads_the_table_before_it_is_needed() -> None:
    code = "import zarrlift.recipe.codecs; from zarrlift.core.chain.reader_table import table; "
    code += "print(table.cache_info().misses)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "0\n"


# Results made for a reader are read by that reader, and what it cannot read is refused by name.


NUMBERS = np.arange(35).reshape(5, 7)


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
        seen = READERS[reader](tmp_path / "new.zarr", array.path)
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
    assert same(np.asarray(READERS[reader](tmp_path / "new.zarr", "").values), case)
