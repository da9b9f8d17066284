"""Each verb on a job in each kind of place works, or refuses and leaves every byte alone."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, get_args

import pytest
from tests.support.bucket import Bucket
from tests.support.job_archives import tree, write_archive

import zarrlift
from zarrlift.errors import JobError, UsageError
from zarrlift.jobs.opened_job import SUPPORT, Kind, Verb


@dataclass(frozen=True, kw_only=True)
class Made:
    """A job that is complete."""

    job: Path
    source: Path | str
    result: str
    kind: Kind
    verified: bool = False
    opening: dict[str, Any] = field(default_factory=dict)
    """What opens both places."""
    sides: dict[str, Any] = field(default_factory=dict)
    """What else the job was made with."""


def migrated(folder: Path, source: Path | str, result: str, kind: Kind, **sides: Any) -> Made:
    opening = {name: sides.pop(name) for name in [*sides] if name.endswith("storage_options")}
    job = folder / "job.zarrlift.db"
    outcome = zarrlift.migrate(source, result, job=job, **opening, **sides)
    assert outcome.ok, outcome.problems
    return Made(job=job, source=source, result=result, kind=kind, opening=opening, sides=sides)


def directory(folder: Path, bucket: Bucket) -> Made:
    return migrated(folder, write_archive(folder / "source"), str(folder / "result"), "directory")


def in_place(folder: Path, bucket: Bucket) -> Made:
    source = write_archive(folder / "source")
    outcome = zarrlift.migrate(source, in_place=True)
    assert zarrlift.verify(source).ok
    return Made(job=Path(outcome.job), source=source, result=str(source), kind="in place", verified=True)


def zipped(folder: Path, bucket: Bucket) -> Made:
    shutil.make_archive(str(folder / "source.zarr"), "zip", write_archive(folder / "unpacked"))
    shutil.rmtree(folder / "unpacked")
    return migrated(folder, folder / "source.zarr.zip", str(folder / "result"), "directory")


def layers(folder: Path, bucket: Bucket) -> Made:
    sides = {"source_through": "retry", "dest_through": "retry"}
    return migrated(folder, write_archive(folder / "source"), str(folder / "result"), "directory", **sides)


def hard_links(folder: Path, bucket: Bucket) -> Made:
    source = write_archive(folder / "source")
    return migrated(folder, source, str(folder / "result"), "directory", link="hard")


def in_a_bucket(folder: Path, bucket: Bucket) -> Made:
    """Source and result are in S3, with layers over both."""
    source = bucket.put("source", tree(write_archive(folder / "source")))
    opening = {"storage_options": bucket.options, "dest_storage_options": bucket.options}
    sides = {"source_through": "retry", "dest_through": "retry"}
    return migrated(folder, source, "s3://bucket/result", "store", **opening, **sides)


def in_place_in_a_bucket(folder: Path, bucket: Bucket) -> Made:
    source = bucket.put("source", tree(write_archive(folder / "source")))
    opening, job = {"storage_options": bucket.options}, folder / "job.zarrlift.db"
    zarrlift.migrate(source, in_place=True, job=job, **opening)
    assert zarrlift.verify(job, **opening).ok
    return Made(job=job, source=source, result=source, kind="in place", verified=True, opening=opening)


def icechunk(folder: Path, bucket: Bucket) -> Made:
    return migrated(folder, write_archive(folder / "source"), f"icechunk://{folder}/repo", "icechunk")


def again(made: Made) -> Any:
    if made.kind == "in place":
        return zarrlift.migrate(made.source, in_place=True, job=made.job, **made.opening)
    return zarrlift.migrate(made.source, made.result, job=made.job, **made.opening, **made.sides)


def finish(made: Made) -> Any:
    if made.kind != "in place":
        assert zarrlift.verify(made.job, **made.opening).ok
    opening = {name: value for name, value in made.opening.items() if name == "storage_options"}
    return zarrlift.finish(made.job, **opening)


PLACES = (
    directory,
    in_place,
    zipped,
    layers,
    hard_links,
    in_a_bucket,
    in_place_in_a_bucket,
    icechunk,
)
VERBS: Final[dict[str, tuple[Verb | None, Callable[[Made], Any]]]] = {
    "status": (None, lambda made: zarrlift.status(made.job)),
    "verify": (None, lambda made: zarrlift.verify(made.job, **made.opening)),
    "resume": ("resume", lambda made: zarrlift.resume(made.job, **made.opening)),
    "migrate again": (None, again),
    "plan_update": ("update", lambda made: zarrlift.plan_update(made.job, **made.opening)),
    "update": ("update", lambda made: zarrlift.update(made.job, **made.opening)),
    "finish": ("finish", finish),
    "undo": ("undo", lambda made: zarrlift.undo(made.job, **made.opening)),
}
"""By name: the verb of the table, and a call. Those without one only read the job, or find it themselves."""


def refusal(made: Made, name: str) -> str | None:
    """What a verb says that is refused; None if it works."""
    verb, _ = VERBS[name]
    refused = None if verb is None else SUPPORT.get((made.kind, verb))
    return None if refused is None else refused.message


def every_byte(folder: Path, bucket: Bucket) -> tuple[dict[str, bytes], dict[str, bytes]]:
    return tree(folder), dict(bucket.server.objects(""))


@pytest.mark.slow(one_in=5)
@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_a_verb_works_or_leaves_every_byte_alone(
    place: Callable[[Path, Bucket], Made], tmp_path: Path, bucket: Bucket
) -> None:
    bucket.server.clear()
    made = place(tmp_path / "one", bucket)
    for verb, (_, call) in VERBS.items():
        if verb == "undo":  # of a job that is not finished
            bucket.server.clear()
            made = place(tmp_path / "two", bucket)
        before, message = every_byte(tmp_path, bucket), refusal(made, verb)
        if message is None:
            outcome = call(made)
            assert getattr(outcome, "ok", True), (verb, outcome)
            continue
        with pytest.raises((UsageError, JobError), match=message):
            call(made)
        assert every_byte(tmp_path, bucket) == before, verb


def test_the_table_has_only_pairs_that_are_walked() -> None:
    walked = {verb for verb, _ in VERBS.values() if verb is not None}
    assert walked == {*get_args(Verb)}
    assert {kind for kind, _ in SUPPORT} <= {*get_args(Kind)}
