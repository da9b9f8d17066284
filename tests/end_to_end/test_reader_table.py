"""The table of who reads what, held against each reader that is installed, and the command that prints it."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from tests.end_to_end.readers.base import parametrize_readers
from tests.support import reader_evidence

from zarrlift.cli.parser import main
from zarrlift.core.chain.reader_table import table

READERS = ("zarrs", "zarrita", "neuroglancer", "gdal")


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


@parametrize_readers(READERS)
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
