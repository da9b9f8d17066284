"""Every damaged N5 archive of the fixtures: one clear error, all else migrated, nothing wrong visible."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.support.damaged_archives import assert_told, copied, migrate, read, run
from tests.support.fixtures_index import GOOD, BadCase, bad_cases

CASES = bad_cases("n5")
ALSO_AT = {"attributes_dimensions_none": "bad/0", "attributes_data_type_unknown": "bad/0/0"}
"""What contradicts the document, where both are plausible."""
AXES = ("reversed", "kept")


@pytest.mark.slow(one_in=19)
@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_copy_keeps_back_what_is_damaged_and_nothing_else(case: BadCase, axes: str, tmp_path: Path) -> None:
    destination = tmp_path / "out.zarr"
    ran = migrate(case.path, destination, "--axes", axes)
    if case.name == "nothing":
        assert ran.code == 2
        assert len(ran.problems) == 1
        assert not destination.exists()
        return
    good = GOOD if axes == "reversed" else GOOD.T
    assert read(destination / "good").tolist() == good.tolist()
    assert ran.code == (1 if ran.refusals else 0)
    for node in case.damaged:
        document = destination / node / "zarr.json"
        if not document.is_file():
            assert_told(ran, node, {*case.keys, ALSO_AT.get(case.name, "")})
        elif node:
            assert case.readable
            assert json.loads(document.read_text())["node_type"] == "array"
            assert np.array_equal(read(destination / node), good)


def test_every_bad_block_of_an_array_is_named(tmp_path: Path) -> None:
    source = copied(next(case for case in CASES if case.name == "block_mode_3").path, tmp_path / "source.n5")
    (source / "bad/0/0").write_bytes(b"\0\0")
    ran = migrate(source, tmp_path / "out.zarr")
    assert [(problem["node"], problem["key"]) for problem in ran.refusals] == [
        ("bad", "bad/0/0"),
        ("bad", "bad/0/1"),
    ]
    assert "shorter than its header" in ran.refusals[0]["message"]
    assert "unknown mode" in ran.refusals[1]["message"]


def test_resume_finishes_once_the_damage_is_mended(tmp_path: Path) -> None:
    source = copied(
        next(case for case in CASES if case.name == "gzip_truncated").path, tmp_path / "source.n5"
    )
    destination = tmp_path / "out.zarr"
    assert migrate(source, destination, "--axes", "kept").code == 1
    shutil.rmtree(source / "bad")
    shutil.copytree(source / "good", source / "bad")
    assert run("resume", destination).code == 0
    assert np.array_equal(read(destination / "bad"), GOOD.T), "a job keeps the order of axes it began with"
    assert (destination / "zarr.json").is_file()
