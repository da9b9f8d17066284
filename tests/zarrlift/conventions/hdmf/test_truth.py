"""What hdmf-zarr 0.14 reads of a migrated file is what the hdmf-zarr that wrote it reads of the source."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.environments import ENVIRONMENTS
from tests.support.hdmf_files import CASES, expected, files, fixture

import zarrlift

SCRIPT = ENVIRONMENTS / "hdmf-zarr" / "read.py"
pytestmark = pytest.mark.needs_reader("hdmf-zarr")


def ask(*arguments: object) -> Any:
    """The answer of hdmf-zarr 0.14."""
    python = Path(os.environ["ZARRLIFT_HDMF_ZARR"]) / "bin" / "python"
    environment = {**os.environ, "NUMCODECS_ALLOW_UNSAFE_PICKLE_DECODE": "1"}
    if sys.pycache_prefix is None:  # then nothing is to appear beside the fixtures' own modules
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
    done = subprocess.run(
        [python, SCRIPT, *map(str, arguments)],
        capture_output=True, text=True, check=False, timeout=600, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str, str], Any]:
    """What 0.14 reads of every fixture, migrated; hdmf-zarr is loaded once for all."""
    place = tmp_path_factory.mktemp("hdmf")
    results = {}
    for version, name in CASES:
        source = fixture(version, name)
        for file in files(version, name):
            result = place / "new" / version / name / file
            outcome = zarrlift.migrate(source / file, result)
            assert outcome.ok, outcome.problems
            results[version, name, file] = str(result)
    read = ask(*results.values())
    return {key: read[path] for key, path in results.items()}


EVERY = [
    pytest.param(version, name, file, id=f"{version}-{file}")
    for version, name in CASES
    for file in files(version, name)
]


@pytest.mark.parametrize(("version", "name", "file"), EVERY)
def test_every_group_dataset_attribute_link_and_reference_is_equal(
    version: str, name: str, file: str, answers: dict[tuple[str, str, str], Any]
) -> None:
    assert answers[version, name, file]["builders"] == expected(version, name)[file]["builders"]


@pytest.mark.parametrize(
    ("version", "name", "file"), [one for one in EVERY if str(one.id).endswith(".nwb.zarr")]
)
def test_every_object_field_and_table_row_is_equal(
    version: str, name: str, file: str, answers: dict[tuple[str, str, str], Any]
) -> None:
    objects = answers[version, name, file]["objects"]
    assert len(objects) > 1
    assert objects == expected(version, name)[file]["objects"]


def test_hdmf_zarrs_own_conversion_says_the_same_where_it_succeeds(tmp_path: Path) -> None:
    """It fails on files with references to time series, and reads and writes every chunk."""
    source = fixture("0.13", "json") / "json.nwb.zarr"
    assert ask("--convert", source, tmp_path / "theirs.nwb.zarr") is None
    assert zarrlift.migrate(source, tmp_path / "ours.nwb.zarr").ok
    read = ask(tmp_path / "theirs.nwb.zarr", tmp_path / "ours.nwb.zarr")
    theirs, ours = (read[str(tmp_path / name)] for name in ("theirs.nwb.zarr", "ours.nwb.zarr"))
    assert ours["objects"] == theirs["objects"]
    assert ours["builders"].keys() == theirs["builders"].keys()


def test_hdmf_zarrs_own_conversion_fails_on_a_whole_session(tmp_path: Path) -> None:
    """Why there is another one: should this ever succeed, compare with it above."""
    source = fixture("0.13", "session") / "session.nwb.zarr"
    assert "Found bad link" in ask("--convert", source, tmp_path / "theirs.nwb.zarr")
