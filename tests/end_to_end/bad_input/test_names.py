"""Names of files that are not UTF-8, which Linux keeps: their nodes are refused, and the others migrated."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.support.damaged_archives import assert_good, migrate, run, write_archive, write_array

import zarrlift
from zarrlift.core.problems import JoinedProblems
from zarrstack.core.errors import Problem, UsageError

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


# What an archive says is shown cut short, and what is not its own is not shown at all.


NUMBERS = list(range(100_000))
LONG: dict[str, dict[str, Any]] = {
    "a fill value of numbers": {"fill_value": NUMBERS},
    "a fill value of text": {"fill_value": "x" * 100_000},
    "a data type of many fields": {"dtype": [[f"f{i}", "<i4"] for i in range(5000)], "fill_value": None},
    "a codec's name": {"compressor": {"id": "x" * 100_000}},
    "a shape of texts": {"shape": ["x" * 100_000]},
}


@pytest.fixture
def with_long_text(tmp_path: Path) -> Path:
    """`good` alone."""
    return write_archive(tmp_path / "source.zarr")


@pytest.mark.parametrize("members", LONG.values(), ids=LONG)
@pytest.mark.slow(one_in=5)
def test_every_text_is_cut(with_long_text: Path, tmp_path: Path, members: dict[str, Any]) -> None:
    write_array(with_long_text / "bad", {}, **members)
    destination = tmp_path / "out.zarr"
    for words in (
        ["inspect", with_long_text],
        ["migrate", "--dry-run", with_long_text, destination],
        ["migrate", with_long_text, destination],
    ):
        ran = run(*words)
        assert len(ran.out + ran.err) < 8000, words[0]
    assert len(run("status", destination).out) < 8000
    assert_good(destination)


def test_a_problem_holds_no_long_text() -> None:
    text = "x" * 100_000
    problem = Problem(kind="metadata", message=text, found=text, expected=text, advice=text, node=text)
    assert len(problem.to_json()["found"]) < 1100
    assert len(str(problem)) < 6000
    assert problem.node == text, "which names the node"


def test_a_list_of_problems_names_each_of_them_and_shows_none_at_length() -> None:
    problems = [Problem(kind="usage", message=f"problem {n}", found="x" * 100_000) for n in range(30)]
    message = JoinedProblems.of([*problems, "y" * 100_000], before="several: ")
    said = str(UsageError(message).at(key="recipe.toml"))
    assert all(f"problem {n};" in said for n in range(30))
    assert len(said) < 31 * 1100


@pytest.mark.parametrize("name", [".zattrs", ".zgroup", ".zarray"])
def test_a_directory_in_the_place_of_a_document_is_no_absence(
    with_long_text: Path, tmp_path: Path, name: str
) -> None:
    write_array(with_long_text / "bad", {"0": bytes(16)})
    (with_long_text / "bad" / name).unlink(missing_ok=True)
    (with_long_text / "bad" / name).mkdir()
    ran = migrate(with_long_text, tmp_path / "out.zarr")
    told = [(p["node"], p["key"], p["found"]) for p in ran.refusals if p["kind"] == "storage"]
    assert (ran.code, told) == (1, [("bad", f"bad/{name}", "a directory")])
    assert_good(tmp_path / "out.zarr")


def test_consolidated_metadata_that_lies_elsewhere_is_not_read(with_long_text: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text('{"password": "hunter2"}')
    (with_long_text / ".zmetadata").symlink_to(secret)
    ran = run("inspect", with_long_text)
    assert "hunter2" not in ran.out
    assert "a link points outside the archive" in ran.out
    assert "hunter2" in run("inspect", with_long_text, "--follow-links").out
    assert migrate(with_long_text, tmp_path / "out.zarr").code == 0
    assert_good(tmp_path / "out.zarr")
