"""Names of files that are not UTF-8, which Linux keeps: their nodes are refused, and the others migrated."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.support.damaged_archives import assert_good, migrate, run, write_archive, write_array

import zarrlift

NAME = os.fsdecode(b"caf\xe9")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """`good`; an array and a group with an array in it whose names are no text; a file and a stray chunk."""
    path = write_archive(tmp_path / "source.zarr")
    write_array(path / NAME, {"0": bytes(16)})
    write_array(path / f"g{NAME}" / "inner", {"0": bytes(16)})
    (path / f"g{NAME}/.zgroup").write_text('{"zarr_format": 2}')
    (path / NAME.upper()).write_bytes(b"file")
    (path / "good" / NAME).write_bytes(b"stray")
    return path


def test_a_name_that_is_not_utf8_keeps_back_its_node_alone(source: Path, tmp_path: Path) -> None:
    destination = tmp_path / "out.zarr"
    ran = migrate(source, destination, "--verbose")
    told = {problem["node"]: problem["kind"] for problem in ran.refusals}
    assert (ran.code, told) == (1, dict.fromkeys([NAME, f"g{NAME}", f"g{NAME}/inner"], "name"))
    assert_good(destination)
    assert "done: /good" in ran.err
    nodes = {
        node["path"]: node["state"]
        for node in json.loads(run("status", destination, "--json").out)["result"]["nodes"]
    }
    assert nodes == {"": "done", "good": "done", **dict.fromkeys(told, "refused")}
    for command in (["inspect"], ["migrate", "--dry-run"]):
        assert r"caf\udce9" in run(*command, source).out
    assert run("resume", destination).code == 1
    assert run("undo", "--yes", "--yes", destination).code == 0
    assert not destination.exists()


def test_the_places_themselves_may_have_such_names(source: Path, tmp_path: Path) -> None:
    renamed = source.rename(tmp_path / NAME)
    destination = tmp_path / f"{NAME}.out"
    outcome = zarrlift.migrate(renamed, destination, recipe=zarrlift.Recipe(exclude=("*caf*",)))
    assert outcome.ok, outcome.problems
    assert_good(destination)
    assert zarrlift.status(destination).state == "done"
    assert zarrlift.verify(destination).ok
