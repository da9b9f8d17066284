"""`undo` removes what the job wrote and nothing else; a document that stays keeps all of its chunks."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from tests.support.job_archives import migrated, rewritten, tree, values, write_archive
from tests.support.job_processes import Killed, dying
from zarr.errors import ZarrUserWarning

import zarrlift
from zarrlift.errors import JobError
from zarrlift.jobs.ledger.ledger import Job
from zarrlift.jobs.ownership import OwnObjects


def grow_with_a_damaged_chunk(source: Path) -> None:
    array = zarr.open_array(source, path="h/rewrite", mode="r+", zarr_format=2)
    array.resize((40, 20))
    array[30:] = 9
    rewritten(source / "h/rewrite/5.1", b"damaged")


def directories(path: Path) -> list[str]:
    return sorted(place.name for place in path.iterdir() if place.is_dir())


def test_a_failed_update_is_undone_as_a_whole(tmp_path: Path) -> None:
    source, result = write_archive(tmp_path / "source"), tmp_path / "result"
    migrated(source, result)
    before = values(result, 3)
    grow_with_a_damaged_chunk(source)
    assert not zarrlift.update(result).ok
    shown = zarr.open_array(result, path="h/rewrite", mode="r")[...]
    np.testing.assert_array_equal(shown, before["h/rewrite"])
    outcome = zarrlift.undo(result)
    assert (outcome.state, outcome.problems) == ("undone", ())
    assert directories(tmp_path) == ["source"]


def test_an_array_whose_attributes_others_changed_stays_with_its_chunks(tmp_path: Path) -> None:
    source = write_archive(tmp_path / "source")
    result = migrated(source, tmp_path / "result", recipe=zarrlift.Recipe(consolidate=False))
    zarr.open_array(result, path="h/rewrite", mode="r+").attrs["mine"] = 1
    before = tree(result)
    outcome = zarrlift.undo(result)
    (problem,) = outcome.problems
    assert (problem.kind, problem.key) == ("changed", "h/rewrite/zarr.json")
    assert problem.message == "changed after the job wrote it, so it is kept with all chunks of its array"
    assert outcome.removed == len([key for key in before if not key.startswith("h/rewrite/")])
    assert tree(result) == {key: data for key, data in before.items() if key.startswith("h/rewrite/")}
    array = zarr.open_array(result, path="h/rewrite", mode="r")
    np.testing.assert_array_equal(array[...], values(source, 2)["h/rewrite"])


def test_a_changed_root_keeps_what_its_consolidated_metadata_show(tmp_path: Path) -> None:
    source, result = write_archive(tmp_path / "source"), tmp_path / "result"
    migrated(source, result)
    root = json.loads((result / "zarr.json").read_text())
    root["attributes"]["mine"] = 1
    (result / "zarr.json").write_text(json.dumps(root))
    before = tree(result)
    (problem,) = zarrlift.undo(result).problems
    assert problem.message == (
        "changed after the job wrote it, so it is kept with the arrays in its consolidated metadata (4)"
    )
    groups = {"g/zarr.json", "h/zarr.json"}
    assert tree(result) == {key: data for key, data in before.items() if key not in groups}


def test_consolidating_a_result_does_not_make_it_the_work_of_others(tmp_path: Path) -> None:
    source = write_archive(tmp_path / "source")
    result = migrated(source, tmp_path / "result", recipe=zarrlift.Recipe(consolidate=False))
    with pytest.warns(ZarrUserWarning, match="not part in the Zarr format 3"):
        zarr.consolidate_metadata(result)
    assert zarrlift.undo(result).problems == ()
    assert directories(tmp_path) == ["source"]


def test_in_place_no_document_of_a_failed_update_stays(tmp_path: Path) -> None:
    source = write_archive(tmp_path / "source")
    assert zarrlift.migrate(source, in_place=True).ok
    file = source / "h/rewrite/.zarray"
    content = json.loads(file.read_text())
    rewritten(file, json.dumps({**content, "shape": [40, 20]}).encode())
    rewritten(source / "g/recode/.zarray", b"{")
    assert not zarrlift.update(source).ok
    outcome = zarrlift.undo(source)
    assert (outcome.state, outcome.problems) == ("undone", ())
    assert not list(source.rglob("zarr.json"))


def test_a_chunk_that_its_source_rewrote_in_place_is_known_as_shared(tmp_path: Path) -> None:
    source, result = write_archive(tmp_path / "source"), tmp_path / "result"
    migrated(source, result, link="hard")
    shared, own = source / "g/relink/3.3", result / "g/relink/c/1/1"
    rewritten(shared, (source / "g/relink/3.4").read_bytes())
    assert shared.samefile(result / "g/relink/c/3/3")
    own.unlink()
    rewritten(own, b"mine")
    (problem,) = zarrlift.undo(result).problems
    assert problem.key == "g/relink/c/1/1"
    assert shared.exists()
    assert tree(result) == {"g/relink/c/1/1": b"mine"}


def test_a_source_that_is_gone_does_not_prevent_it(tmp_path: Path) -> None:
    source, result = write_archive(tmp_path / "source"), tmp_path / "result"
    migrated(source, result, link="hard")
    shutil.rmtree(source)
    assert zarrlift.undo(result).problems == ()
    assert directories(tmp_path) == []


@pytest.mark.slow(one_in=2)
@pytest.mark.parametrize("updates", [1, 2])
def test_chunks_that_others_wrote_before_an_update_of_other_chunks_stay(updates: int, tmp_path: Path) -> None:
    source, result = write_archive(tmp_path / "source"), tmp_path / "result"
    migrated(source, result)
    mine = result / "h/rewrite/c/0/0"
    mine.write_bytes(b"mine")
    after_its_document = (result / "h/rewrite/zarr.json").stat().st_mtime_ns + 100
    os.utime(mine, ns=(after_its_document, after_its_document))
    for number in range(updates):
        rewritten(source / "h/rewrite/1.1", (source / f"h/rewrite/1.{number}").read_bytes())
        assert zarrlift.update(result).chunks == 1
    (problem,) = zarrlift.undo(result).problems
    assert problem.key == "h/rewrite/c/0/0"
    assert tree(result) == {"h/rewrite/c/0/0": b"mine"}


@pytest.mark.parametrize("chunks", [(9, 5), (7, 7)])
def test_nothing_stays_of_an_array_that_became_smaller_before_a_resume(
    chunks: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, result = write_archive(tmp_path / "source"), tmp_path / "result"
    with monkeypatch.context() as patched:
        patched.setattr(Job, "record_task", raising_for("h/rewrite"))
        with pytest.raises(Killed):
            zarrlift.migrate(source, result, workers=1)
    assert list((result / "h/rewrite/c").rglob("*"))
    shutil.rmtree(source / "h/rewrite")
    array = zarr.create_array(source / "h/rewrite", shape=(9, 5), chunks=chunks, dtype="<i4", zarr_format=2)
    array[...] = 1
    (source / ".zmetadata").unlink()
    assert zarrlift.resume(result).ok
    fresh = migrated(source, tmp_path / "fresh", recipe=zarrlift.Recipe(consolidate=False))
    assert {key for key in tree(result) if "rewrite" in key} == {
        key for key in tree(fresh) if "rewrite" in key
    }
    assert zarrlift.undo(result).problems == ()
    assert directories(tmp_path) == ["fresh", "source"]


def raising_for(path: str) -> Callable[..., None]:
    """In place of `Job.record_task`: the process is killed before it records a task of this array."""
    record = Job.record_task

    def records(job: Job, node: int, number: int, moved: Any) -> None:
        if any(row.id == node and row.path == path for row in job.nodes()):
            raise Killed
        record(job, node, number, moved)

    return records


def killed(*_: Any, **__: Any) -> Any:
    raise Killed


def interrupted_undo(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An undo that is killed after its first documents."""
    with monkeypatch.context() as patched:
        dying(patched, 2)
        with pytest.raises(Killed):
            zarrlift.undo(job)


def test_an_interrupted_undo_goes_on_where_the_result_was_moved_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, job = write_archive(tmp_path / "source"), tmp_path / "jobs/one.db"
    result = migrated(source, tmp_path / "result", job=job)
    interrupted_undo(job, monkeypatch)
    moved = result.rename(tmp_path / "moved")
    with pytest.raises(
        JobError, match=r"the output of this job was not found|undo of this job was interrupted"
    ):
        zarrlift.resume(job)
    with pytest.raises(JobError, match="Run undo again"):
        zarrlift.resume(job, destination=moved)
    assert zarrlift.undo(job).state == "undone"
    assert directories(tmp_path) == ["jobs", "source"]


@pytest.mark.parametrize("step", ["_removed", "_sweep"])
def test_an_interrupted_undo_of_a_job_that_was_moved_alone(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chunks without documents do not show whose they are; where only directories are left, it has ended."""
    source = write_archive(tmp_path / "source")
    result, job = migrated(source, tmp_path / "result"), tmp_path / "result.zarrlift.db"
    with monkeypatch.context() as patched:
        if step == "_removed":
            patched.setattr(OwnObjects, "of_node", killed)
        else:
            patched.setattr("zarrlift.jobs.undo._sweep", killed)
        with pytest.raises(Killed):
            zarrlift.undo(job)
    (tmp_path / "other").mkdir()
    moved = job.rename(tmp_path / "other" / job.name)
    if step == "_removed":
        left = tree(result)
        with pytest.raises(JobError, match=r"was not found.*put it back to where the output is"):
            zarrlift.undo(moved)
        assert tree(result) == left
        moved = moved.rename(job)
    assert zarrlift.undo(moved).state == "undone"
    assert not tree(result)


def test_an_interrupted_undo_ends_where_only_a_document_of_others_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Although the folder was moved, and nothing in it shows whose it is."""
    archive = write_archive(tmp_path / "before/archive")
    before = tree(archive)
    assert zarrlift.migrate(archive, in_place=True).ok
    theirs = archive / "h/rewrite/zarr.json"
    rewritten(
        theirs,
        theirs.read_bytes().replace(b'"attributes"', b'"theirs": {"must_understand": false}, "attributes"'),
    )
    interrupted_undo(archive, monkeypatch)
    for document in archive.rglob("zarr.json"):
        if document != theirs:
            document.unlink()
    (tmp_path / "before").rename(tmp_path / "after")
    outcome = zarrlift.undo(tmp_path / "after/archive")
    assert outcome.state == "undone"
    assert [problem.key for problem in outcome.problems] == ["h/rewrite/zarr.json"]
    after = tree(tmp_path / "after/archive")
    assert after.pop("h/rewrite/zarr.json")
    assert after == before


def test_undo_changes_no_job_whose_archive_is_elsewhere(tmp_path: Path) -> None:
    """In place: nothing was published, so that no document is missed."""
    archive = tmp_path / "archive"
    array = zarr.create_array(archive, name="a", shape=(4,), chunks=(2,), dtype="<i4", zarr_format=2)
    array[...] = 1
    (archive / "a/1").write_bytes(b"damaged")
    assert not zarrlift.migrate(archive, in_place=True, verify="full").ok
    (tmp_path / "other").mkdir()
    job = (tmp_path / "archive.zarrlift.db").rename(tmp_path / "other/archive.zarrlift.db")
    with pytest.raises(JobError, match="the output of this job was not found"):
        zarrlift.undo(job)
    with suppress(JobError):
        zarrlift.resume(job, source=archive)
    assert zarrlift.undo(job).state == "undone"


def test_undo_of_a_job_that_was_moved_alone_before_it_recorded_anything_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it has written is where the job file was."""
    source, result = write_archive(tmp_path / "source"), tmp_path / "result"
    with monkeypatch.context() as patched:
        dying(patched, 12)
        with pytest.raises(Killed):
            zarrlift.migrate(source, result)
    with Job.open(tmp_path / "result.zarrlift.db") as job:
        for row in job.nodes():
            job.forget_tasks(row.id, set(job.recorded(row.id)))
        job.commit()
    (tmp_path / "other").mkdir()
    moved = (tmp_path / "result.zarrlift.db").rename(tmp_path / "other/result.zarrlift.db")
    with pytest.raises(JobError, match="the output of this job was not found"):
        zarrlift.undo(moved)
    moved.rename(tmp_path / "result.zarrlift.db")
    assert zarrlift.undo(result).state == "undone"
    assert directories(tmp_path) == ["other", "source"]


def test_the_same_after_a_failed_update(tmp_path: Path) -> None:
    source = write_archive(tmp_path / "source")
    result = migrated(source, tmp_path / "result", recipe=zarrlift.Recipe(consolidate=False))
    grow_with_a_damaged_chunk(source)
    assert not zarrlift.update(result).ok
    zarr.open_array(result, path="h/rewrite", mode="r+").attrs["mine"] = 1
    before = zarr.open_array(result, path="h/rewrite", mode="r")[...]
    (problem,) = zarrlift.undo(result).problems
    assert problem.key == "h/rewrite/zarr.json"
    np.testing.assert_array_equal(zarr.open_array(result, path="h/rewrite", mode="r")[...], before)
    assert {key.rpartition("/c/")[0] for key in tree(result)} <= {"", "h/rewrite"}


def test_chunks_that_others_wrote_meanwhile_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, result = write_archive(tmp_path / "source"), tmp_path / "result"
    migrated(source, result)
    grow_with_a_damaged_chunk(source)
    assert not zarrlift.update(result).ok
    mine = result / "h/rewrite/c/0/0"
    rewritten(mine, b"mine")
    (problem,) = zarrlift.undo(result).problems
    assert problem.key == "h/rewrite/c/0/0"
    assert tree(result) == {"h/rewrite/c/0/0": b"mine"}
