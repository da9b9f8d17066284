"""What an archive says is shown cut short, and what is not its own is not shown at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.damaged_archives import assert_good, migrate, run, write_archive, write_array

from zarrstack.core.errors import JoinedProblems, Problem, UsageError

NUMBERS = list(range(100_000))
LONG: dict[str, dict[str, Any]] = {
    "a fill value of numbers": {"fill_value": NUMBERS},
    "a fill value of text": {"fill_value": "x" * 100_000},
    "a data type of many fields": {"dtype": [[f"f{i}", "<i4"] for i in range(5000)], "fill_value": None},
    "a codec's name": {"compressor": {"id": "x" * 100_000}},
    "a shape of texts": {"shape": ["x" * 100_000]},
}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """`good` alone."""
    return write_archive(tmp_path / "source.zarr")


@pytest.mark.parametrize("members", LONG.values(), ids=LONG)
@pytest.mark.slow(one_in=5)
def test_every_text_is_cut(source: Path, tmp_path: Path, members: dict[str, Any]) -> None:
    write_array(source / "bad", {}, **members)
    destination = tmp_path / "out.zarr"
    for words in (
        ["inspect", source],
        ["migrate", "--dry-run", source, destination],
        ["migrate", source, destination],
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
    source: Path, tmp_path: Path, name: str
) -> None:
    write_array(source / "bad", {"0": bytes(16)})
    (source / "bad" / name).unlink(missing_ok=True)
    (source / "bad" / name).mkdir()
    ran = migrate(source, tmp_path / "out.zarr")
    told = [(p["node"], p["key"], p["found"]) for p in ran.refusals if p["kind"] == "storage"]
    assert (ran.code, told) == (1, [("bad", f"bad/{name}", "a directory")])
    assert_good(tmp_path / "out.zarr")


def test_consolidated_metadata_that_lies_elsewhere_is_not_read(source: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text('{"password": "hunter2"}')
    (source / ".zmetadata").symlink_to(secret)
    ran = run("inspect", source)
    assert "hunter2" not in ran.out
    assert "a link points outside the archive" in ran.out
    assert "hunter2" in run("inspect", source, "--follow-links").out
    assert migrate(source, tmp_path / "out.zarr").code == 0
    assert_good(tmp_path / "out.zarr")
