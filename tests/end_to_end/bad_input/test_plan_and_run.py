"""What a plan lets through, the run does, or it fails on the values of chunks alone."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
import zarr
from tests.support.chances import try_each
from tests.support.damaged_archives import copied, tree, write_archive, write_array
from tests.support.fixtures_index import FORMATS, archives, bad_cases
from tests.support.optional_archives import optional, tiff

import zarrlift
import zarrlift.jobs.refusals
from zarrlift import ArrayRecipe, Recipe
from zarrlift.core.problems import any_refusal
from zarrlift.jobs.ledger import schema
from zarrstack.core.errors import Problem, UsageError, ZarrstackError

_FIXTURES = [one for form in FORMATS for one in (*archives(form), *bad_cases(form))]
PLACES: dict[str, Callable[[], Path]] = {
    **{f"{type(one).__name__} {one}": partial(attrgetter("path"), one) for one in _FIXTURES},
    **{path.name: partial(Path, path) for folder in (optional(), tiff()) for path in folder.glob("*.zarr")},
}
WAYS: dict[str, dict[str, Any]] = {
    "copy": {},
    "in place": {"in_place": True},
    "recode": {"recipe": Recipe(base=ArrayRecipe(codecs="zstd:3"))},
    "shards": {"recipe": Recipe(base=ArrayRecipe(shards="auto"))},
}
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


@pytest.mark.slow(one_in=50)
@pytest.mark.parametrize("name", PLACES)
def test_a_run_does_what_its_plan_says(name: str, tmp_path: Path) -> None:
    source = PLACES[name]()

    def check(way: str) -> None:
        options = WAYS[way]
        ends = source, tmp_path / f"{way}.zarr"
        if way == "in place":
            copy = shutil.copy if source.is_file() else copied
            ends = (Path(copy(source, tmp_path / source.name)),)
        planned, as_a_whole = refusals(zarrlift.plan, *ends, **options)
        refused, nothing_done = refusals(zarrlift.migrate, *ends, **options)
        assert nothing_done == as_a_whole
        foreseen = {(problem.node, problem.key, problem.message) for problem in planned}
        found = {(problem.node, problem.key, problem.message): problem for problem in refused}
        assert foreseen <= found.keys()
        unforeseen = [problem for what, problem in found.items() if what not in foreseen]
        assert not [problem for problem in unforeseen if problem.kind not in VALUES]

    try_each(WAYS, check)


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
