"""A resume takes over changes of what was not copied yet, with a warning that the job keeps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.bucket import serving
from tests.support.job_archives import tree, values
from tests.zarrlift.jobs.test_source_check import Kind, a_directory, fsspec_local, rewritten

import zarrlift
from zarrlift.cli import main
from zarrlift.jobs.ledger.ledger import Job
from zarrlift.transfer.counts import MoveResult

NEXT = "h/rewrite/0.1"
"""A chunk that the archive does not have at first."""
EARLIER = 14
"""The number of chunks without it."""


@pytest.fixture(params=[a_directory, fsspec_local], ids=lambda made: made.__name__)
def kind(request: pytest.FixtureRequest, source: Path, tmp_path: Path) -> Kind:
    (source / ".zmetadata").unlink()
    (source / NEXT).unlink()
    made: Kind = request.param(source, tmp_path)
    return made


@pytest.fixture
def stopped(kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy that was stopped when one array was recorded, and nothing of the others."""
    stop_after_one_task(monkeypatch)
    with pytest.raises(zarrlift.Interrupted):
        zarrlift.migrate(kind.place, tmp_path / "out.zarr", workers=1, **kind.options)
    monkeypatch.undo()
    return tmp_path / "out.zarr"


def stop_after_one_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one worker, that of the first array."""
    record = Job.record_task
    recorded: list[int] = []

    def stop(self: Job, node: int, number: int, moved: MoveResult) -> None:
        if recorded:
            raise KeyboardInterrupt
        record(self, node, number, moved)
        recorded.append(node)

    monkeypatch.setattr(Job, "record_task", stop)


def remove(kind: Kind) -> None:
    """Delete one object."""
    (kind.local / "h/rewrite/1.1").unlink()


def add(kind: Kind) -> None:
    kind.put(NEXT, (kind.local / "h/rewrite/1.1").read_bytes())


def shorten(kind: Kind) -> None:
    """Give the array fewer rows and columns; the chunks outside remain."""
    data = json.loads((kind.local / "h/rewrite/.zarray").read_bytes())
    kind.put("h/rewrite/.zarray", json.dumps({**data, "shape": [21, 14]}).encode())


DOCUMENTS = "documents (h/rewrite/.zarray)"
CHANGES = [
    (rewritten, "14 chunks: 1 rewritten (h/rewrite/1.1)"),
    (remove, "13 chunks: 1 deleted (h/rewrite/1.1)"),
    (add, "15 chunks: 1 added (h/rewrite/0.1)"),
    (
        shorten,
        "5 chunks: 9 deleted (h/rewrite/0.2, h/rewrite/1.2, h/rewrite/2.2, ...); " + DOCUMENTS,
    ),
]


def warned(problems: Any) -> list[tuple[str | None, str | None]]:
    return [
        (problem.node, problem.found)
        for problem in problems
        if (problem.kind, problem.severity) == ("source-changed", "warning")
    ]


@pytest.mark.parametrize(("change", "found"), CHANGES, ids=lambda case: getattr(case, "__name__", ""))
@pytest.mark.parametrize("again", ["resume", "migrate"])
@pytest.mark.slow(one_in=7)  # so that each change is among those that are left
def test_a_change_of_an_array_that_was_not_copied_yet_is_taken_over_with_a_warning(
    again: str, change: Any, found: str, kind: Kind, stopped: Path
) -> None:
    change(kind)
    if again == "resume":
        outcome = zarrlift.resume(stopped, source=kind.place)
    else:
        outcome = zarrlift.migrate(kind.place, stopped)
    assert outcome.ok, outcome.problems
    assert values(stopped, 3) == values(kind.local, 2)
    assert warned(outcome.problems) == [("h/rewrite", found)]
    (warning,) = outcome.problems
    assert warning.expected == f"{EARLIER} chunks"
    assert "different times" in str(warning.advice)
    for kept in (
        zarrlift.status(stopped),
        zarrlift.job_report(stopped),
        zarrlift.resume(stopped, source=kind.place),
    ):
        assert warning in kept.problems
        assert warning.to_json() in kept.to_json()["problems"]


def test_the_warning_is_printed(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.zarr"
    stop_after_one_task(monkeypatch)
    assert main(["migrate", str(source), str(out), "--workers", "1", "--quiet"]) == 130
    monkeypatch.undo()
    rewritten(Kind(source))
    for words, code in (
        (("resume", str(out)), 0),
        (("status", str(out)), 0),
        (("status", "--check", "--verbose", str(out)), 0),
    ):
        capsys.readouterr()
        assert main(list(words)) == code
        text = " ".join(capsys.readouterr().out.split())
        assert "1 rewritten (h/rewrite/1.1)" in text, words
        assert "of different times" in text, words


def test_changes_of_several_resumes_are_all_kept(
    kind: Kind, stopped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(kind)
    with monkeypatch.context() as patched:
        stop_after_one_task(patched)
        with pytest.raises(zarrlift.Interrupted):
            zarrlift.resume(stopped, source=kind.place, workers=1)
    assert len(warned(zarrlift.status(stopped).problems)) == 1
    rewritten(kind)
    kind.put("h/.zattrs", b'{"new": 1}')
    outcome = zarrlift.resume(stopped, source=kind.place)
    assert outcome.ok
    assert {node for node, _ in warned(outcome.problems)} == {"h", "h/rewrite"}
    assert warned(zarrlift.job_report(stopped).problems) == warned(outcome.problems)


def test_a_source_that_did_not_change_gets_no_warning(kind: Kind, stopped: Path) -> None:
    outcome = zarrlift.resume(stopped, source=kind.place)
    assert (outcome.ok, outcome.problems, zarrlift.status(stopped).problems) == (True, (), ())


def test_an_array_with_recorded_work_still_fails(kind: Kind, stopped: Path) -> None:
    assert [node.path for node in zarrlift.status(stopped).nodes if node.tasks_done] == ["g/recode"]
    rewritten(kind, "g/recode/0")
    outcome = zarrlift.resume(stopped, source=kind.place)
    assert not outcome.ok
    assert {(problem.node, problem.severity) for problem in outcome.problems} == {("g/recode", "refusal")}
    assert not (stopped / "g/recode/zarr.json").exists()


def test_so_it_is_after_parts(source: Path, tmp_path: Path) -> None:
    job, out = tmp_path / "parts.zarrlift.db", tmp_path / "out.zarr"
    (source / ".zmetadata").unlink()
    zarrlift.plan_parts(source, out, job=job, parts=8)
    assert zarrlift.migrate_part(job, 0).ok
    (source / "h/rewrite/1.1").unlink()
    outcome = zarrlift.resume(job)
    assert outcome.ok, outcome.problems
    assert warned(outcome.problems) == [("h/rewrite", "14 chunks: 1 deleted (h/rewrite/1.1)")]
    assert warned(zarrlift.status(job).problems) == warned(outcome.problems)
    assert values(out, 3) == values(source, 2)


def test_a_listing_that_is_stored_beside_the_job_has_the_keys(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With it, the first resume notices the change when the array was copied, and the next takes it over."""
    (source / ".zmetadata").unlink()
    with serving() as bucket:
        url = bucket.put("in", tree(source))
        stop_after_one_task(monkeypatch)
        with pytest.raises(zarrlift.Interrupted):
            zarrlift.migrate(url, tmp_path / "out.zarr", workers=1, storage_options=bucket.options)
        monkeypatch.undo()
        bucket.server.remove("in/h/rewrite/1.1")
        outcome = zarrlift.resume(tmp_path / "out.zarr", storage_options=bucket.options)
        assert not outcome.ok
        outcome = zarrlift.resume(tmp_path / "out.zarr", storage_options=bucket.options)
    assert outcome.ok, outcome.problems
    assert warned(outcome.problems) == [("h/rewrite", "14 chunks: 1 deleted (h/rewrite/1.1)")]


def test_a_chunk_that_was_repaired_after_a_failure_is_named_too(source: Path, tmp_path: Path) -> None:
    good = (source / "g/relink/3.3").read_bytes()
    (source / "g/relink/3.3").write_bytes(good[:-5])
    assert not zarrlift.migrate(source, tmp_path / "out.zarr").ok
    (source / "g/relink/3.3").write_bytes(good)
    outcome = zarrlift.resume(tmp_path / "out.zarr")
    assert outcome.ok
    assert warned(outcome.problems) == [("g/relink", "64 chunks: 1 rewritten (g/relink/3.3)")]
