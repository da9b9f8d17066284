"""What a plan lets through, the run does, or it fails on the values of chunks alone.

`test_fixtures.py` and `test_damaged_archives.py` compare the two for every archive of the fixtures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
import zarr
from tests.support.damaged_archives import write_archive, write_array
from tests.support.job_archives import tree

import zarrlift
import zarrlift.jobs.refusals
from zarrlift import Recipe
from zarrlift.core.problems import any_refusal
from zarrlift.jobs.ledger import schema
from zarrstack.core.errors import Problem, UsageError, ZarrstackError

VALUES = {"chunk", "cast", "objects"}
"""Kinds of problems that only the values of chunks show."""


def refusals(act: Callable[..., Any], *ends: Path, **options: Any) -> tuple[list[Problem], bool]:
    """What is refused, and whether that is the request as a whole."""
    try:
        result = act(*ends, **options)
    except ZarrstackError as error:
        return [error.problem], True
    problems = result.all_problems() if isinstance(result, zarrlift.Plan) else result.problems
    return [problem for problem in problems if any_refusal([problem])], False


def assert_foreseen(planned: Iterable[Problem], refused: Iterable[Mapping[str, Any]]) -> None:
    """A run refuses what its plan does (as JSON), and more only for what the values of chunks show."""

    def told(problem: Mapping[str, Any]) -> tuple[Any, ...]:
        return problem.get("node"), problem.get("key"), problem["message"]

    foreseen = {told(problem.to_json()) for problem in planned if any_refusal([problem])}
    found = {told(problem): problem["kind"] for problem in refused}
    assert foreseen <= found.keys()
    assert {kind for what, kind in found.items() if what not in foreseen} <= VALUES


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """An archive with one array."""
    return write_array(write_archive(tmp_path / "old.zarr") / "a", {"0": bytes(16)}).parent


def closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Feign directories that take no file, since root may write everywhere."""
    for module in (zarrlift.jobs.refusals, schema):
        monkeypatch.setattr(module, "may_create_in", lambda path: "closed" not in Path(path).name)


def filled(destination: Path) -> None:
    (destination / "file").write_text("of others")


def of_another_job(destination: Path) -> None:
    other = write_archive(destination.with_name("other.zarr"))
    zarrlift.migrate(other, destination / "new.zarr")


@pytest.mark.parametrize(
    ("name", "prepare", "options"),
    [
        ("", filled, {}),
        ("new.zarr", of_another_job, {}),
        ("new.zarr", None, {"link": "hard", "recipe": Recipe(include=("nothing",))}),
        ("file/new.zarr", filled, {}),
        ("closed/new.zarr", None, {}),
        ("closed/new.zarr", None, {"job": "job.db"}),
        ("open/new.zarr", None, {"job": "closed/job.db"}),
    ],
    ids=["filled", "another job", "nothing", "below a file", "closed", "closed for data", "closed for a job"],
)
def test_a_plan_refuses_a_destination_as_a_run_does(
    name: str,
    prepare: Callable[[Path], None] | None,
    options: dict[str, Any],
    source: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    destination = tmp_path / "place"
    for path in (destination, destination / "closed", tmp_path / "closed"):
        path.mkdir()
    if prepare is not None:
        prepare(destination)
    closed(monkeypatch)
    before = tree(tmp_path)
    planned, _ = refusals(zarrlift.plan, source, destination / name, **options)
    assert planned
    assert tree(tmp_path) == before
    assert refusals(zarrlift.migrate, source, destination / name, **options) == (planned, True)


def test_a_plan_of_a_job_that_is_continued_does_not_refuse_what_the_job_wrote(
    source: Path, tmp_path: Path
) -> None:
    new, job = tmp_path / "new.zarr", tmp_path / "mine.db"
    assert zarrlift.migrate(source, new, job=job).state == "done"
    assert zarrlift.plan(source, new, job=job).arrays
    assert zarrlift.migrate(source, new, job=job).state == "nothing to do"
    with pytest.raises(UsageError, match="the destination exists"):
        zarrlift.plan(source, new)
    zarrlift.undo(job)
    assert zarrlift.plan(source, new, job=job).arrays
    assert zarrlift.migrate(source, new, job=job).state == "done"


def test_a_plan_refuses_names_that_the_destination_cannot_hold(tmp_path: Path) -> None:
    store = zarr.storage.MemoryStore()
    zarr.create_array(store, name="n" * 300, shape=(4,), dtype="i4", zarr_format=2)
    for act in (zarrlift.plan, zarrlift.migrate):
        with pytest.raises(UsageError, match="cannot hold the names of 1 node"):
            act(store, tmp_path / "new.zarr")
    assert list(tmp_path.iterdir()) == []
