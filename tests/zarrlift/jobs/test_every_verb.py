"""Each verb on a job in each kind of place works, or refuses and leaves every byte alone."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from tests.support.job_archives import tree, write_archive

import zarrlift
from zarrlift.errors import JobError, UsageError, ZarrstackError

Job: TypeAlias = tuple[Path, str]
"""The job file, and the place of the result (in place, the source)."""


def directory(folder: Path) -> Job:
    return made(folder, folder / "source", str(folder / "result"))


def in_place(folder: Path) -> Job:
    outcome = zarrlift.migrate(write_archive(folder / "source"), in_place=True)
    return Path(outcome.job), str(folder / "source")


def zipped(folder: Path) -> Job:
    shutil.make_archive(str(folder / "source.zarr"), "zip", write_archive(folder / "unpacked"))
    shutil.rmtree(folder / "unpacked")
    return made(folder, folder / "source.zarr.zip", str(folder / "result"))


def layers(folder: Path) -> Job:
    sides = {"source_through": "retry", "dest_through": "retry"}
    return made(folder, folder / "source", str(folder / "result"), **sides)


def hard_links(folder: Path) -> Job:
    return made(folder, folder / "source", str(folder / "result"), link="hard")


def icechunk(folder: Path) -> Job:
    return made(folder, folder / "source", f"icechunk://{folder}/repo")


def references(folder: Path) -> Job:
    """No job file: references are written in one run."""
    zarrlift.migrate(write_archive(folder / "source"), folder / "refs.json", virtual=True)
    return folder / "refs.json.zarrlift.db", str(folder / "refs.json")


def made(folder: Path, source: Path, result: str, **options: Any) -> Job:
    """A job that is complete."""
    if not source.exists():
        write_archive(source)
    outcome = zarrlift.migrate(source, result, job=folder / "job.zarrlift.db", **options)
    assert outcome.ok, outcome.problems
    return Path(outcome.job), result


PLACES = (directory, in_place, zipped, layers, hard_links, icechunk, references)
VERBS: dict[str, Callable[[Path], Any]] = {
    "resume": zarrlift.resume,
    "update": zarrlift.update,
    "plan_update": zarrlift.plan_update,
    "gather": zarrlift.gather,
    "a part": lambda job: zarrlift.migrate_part(job, 0),
    "verify": zarrlift.verify,
    "finish": zarrlift.finish,
    "undo": zarrlift.undo,
    "status": zarrlift.status,
    "job_report": zarrlift.job_report,
}
NO_PARTS = {"gather", "a part"}
REFUSED: dict[str, set[str]] = {
    "directory": {*NO_PARTS, "finish"},
    "in_place": {*NO_PARTS, "finish"},  # nothing has verified it
    "zipped": {*NO_PARTS, "finish"},
    "layers": {*NO_PARTS, "finish"},
    "hard_links": {*NO_PARTS, "finish"},
    "icechunk": {*NO_PARTS, "update", "plan_update"},
    "references": {*VERBS},
}
"""The verbs that a job in a place does not have; any other pair works."""


@pytest.mark.slow(one_in=9)
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_a_verb_works_or_leaves_every_byte_alone(
    place: Callable[[Path], Job], verb: str, tmp_path: Path
) -> None:
    job, _ = place(tmp_path)
    before = tree(tmp_path)
    if verb in REFUSED[place.__name__]:
        with pytest.raises((UsageError, JobError)) as told:
            VERBS[verb](job)
        assert isinstance(told.value, ZarrstackError)
        assert tree(tmp_path) == before
    else:
        outcome = VERBS[verb](job)
        assert getattr(outcome, "ok", True), outcome


@pytest.mark.parametrize("place", [directory, icechunk], ids=lambda place: place.__name__)
def test_a_job_is_divided_where_its_parts_can_write(place: Callable[[Path], Job], tmp_path: Path) -> None:
    write_archive(tmp_path / "source")
    result = str(tmp_path / "result") if place is directory else f"icechunk://{tmp_path}/repo"
    before = tree(tmp_path)
    options: dict[str, Any] = {"job": tmp_path / "job.zarrlift.db", "parts": 2}
    if place is directory:
        zarrlift.plan_parts(tmp_path / "source", result, **options)
        for part in range(2):
            zarrlift.migrate_part(options["job"], part)
        assert zarrlift.gather(options["job"]).ok
        return
    with pytest.raises(UsageError, match="cannot write to an Icechunk repository"):
        zarrlift.plan_parts(tmp_path / "source", result, **options)
    assert tree(tmp_path) == before
