"""A job whose source or destination was moved goes on where they are now, or says that they are not there."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import zarr
from tests.support.job_archives import tree, values, write_archive
from zarr.storage import MemoryStore

import zarrlift
from zarrlift.cli import main
from zarrlift.errors import JobError
from zarrlift.jobs.run import Run
from zarrstack.core.errors import UsageError

SUFFIX = ".zarrlift.db"


@pytest.fixture
def stopped(source: Path, tmp_path: Path) -> Path:
    """A copy of which one array is refused, the others are there."""
    (source / "g/relink/0.0").rename(tmp_path / "chunk")
    (source / "g/relink/0.0").write_bytes(b"garbage")
    destination = tmp_path / "out.zarr"
    assert not zarrlift.migrate(source, destination).ok
    (source / "g/relink/0.0").unlink()
    (tmp_path / "chunk").rename(source / "g/relink/0.0")
    return destination


def move(place: Path, *, job: bool = True) -> Path:
    """Rename a directory, with the job file beside it; gives where it is now."""
    there = place.with_name("moved") / place.name
    there.parent.mkdir(exist_ok=True)
    place.rename(there)
    if job:
        place.with_name(place.name + SUFFIX).rename(there.with_name(there.name + SUFFIX))
    return there


def renamed(place: Path) -> Path:
    """Give a directory another name, and the job file beside it too: relative to it, nothing is there."""
    there = place.rename(place.with_name("renamed.zarr"))
    place.with_name(place.name + SUFFIX).rename(there.with_name(there.name + SUFFIX))
    return there


def test_a_renamed_job_is_not_undone_where_nothing_of_it_is(stopped: Path) -> None:
    there = renamed(stopped)
    before = tree(there)
    for command in (zarrlift.undo, zarrlift.resume, zarrlift.finish):
        with pytest.raises(JobError, match="the job belongs to another location") as told:
            command(there)
        assert (told.value.problem.found, told.value.problem.expected) == (str(stopped), str(there))
        assert told.value.problem.advice is not None
        assert f"resume {there}{SUFFIX} --destination {there}" in told.value.problem.advice
    with pytest.raises(JobError, match="the output of this job was not found"):
        zarrlift.undo(f"{there}{SUFFIX}")
    assert tree(there) == before


@pytest.mark.parametrize("by", ["resume", "migrate", "the command"])
def test_a_moved_job_goes_on_where_its_places_are_now(
    by: str, source: Path, stopped: Path, tmp_path: Path
) -> None:
    new_source, there = move(source, job=False), move(stopped)
    if by == "resume":
        outcome = zarrlift.resume(f"{there}{SUFFIX}", source=new_source, destination=there)
        assert outcome.ok, outcome.problems
        assert outcome.arrays_done == outcome.arrays_total
    elif by == "migrate":
        assert zarrlift.migrate(new_source, there).ok
    else:
        words = ["resume", str(there), "--source", str(new_source), "--destination", str(there), "--quiet"]
        assert main(words) == 0
    assert values(there, 3) == values(new_source, 2)
    status = zarrlift.status(there)
    assert (status.source, status.destination) == (str(new_source), str(there))
    assert zarrlift.migrate(new_source, there).state == "nothing to do"
    assert zarrlift.undo(there).problems == ()
    assert not there.exists()


def test_a_copy_with_times_of_its_own_is_undone_too(stopped: Path, tmp_path: Path) -> None:
    there = tmp_path / "copied.zarr"
    shutil.copytree(stopped, there, copy_function=shutil.copyfile)
    assert zarrlift.resume(stopped, destination=there).ok
    assert zarrlift.undo(there).problems == ()
    assert not there.exists()
    assert stopped.exists()


def test_what_the_job_did_not_write_is_not_taken_for_its_destination(
    source: Path, stopped: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.zarr"
    assert zarrlift.migrate(source / "g", other).ok
    for wrong in (other, tmp_path / "none.zarr"):
        with pytest.raises(JobError, match="this is not the job's output"):
            zarrlift.resume(stopped, destination=wrong)
    assert zarrlift.status(stopped).destination == str(stopped)
    assert not (tmp_path / "none.zarr").exists()


def test_a_copy_that_was_cut_short_is_not_taken_for_the_destination(source: Path, tmp_path: Path) -> None:
    """Arrays that are done are not looked at again: a missing chunk would read as fill values."""
    destination, there = tmp_path / "out.zarr", tmp_path / "copied.zarr"
    assert zarrlift.migrate(source, destination).ok
    shutil.copytree(destination, there)
    chunk = next((there / "g/relink/c").rglob("0"))
    chunk.rename(tmp_path / "chunk")
    with pytest.raises(JobError, match="some output of the job is missing"):
        zarrlift.resume(destination, destination=there)
    (tmp_path / "chunk").rename(chunk)
    assert zarrlift.resume(destination, destination=there).state == "nothing to do"


@pytest.mark.parametrize("there", ["chunks", "nothing"])
def test_before_an_array_is_published_its_chunks_tell(
    there: str, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    destination = tmp_path / "out.zarr"
    shutil.rmtree(source / "empty")
    with monkeypatch.context() as patched:
        patched.setattr(Run, "_publish", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(zarrlift.Interrupted):
            zarrlift.migrate(source, destination)
    moved = move(destination)
    if there == "chunks":
        assert zarrlift.resume(f"{moved}{SUFFIX}", destination=moved).ok
        assert values(moved, 3) == values(source, 2)
    else:
        shutil.rmtree(moved)
        with pytest.raises(JobError, match=r"this is not the job's output.*no chunk"):
            zarrlift.resume(f"{moved}{SUFFIX}", destination=moved)


def test_another_source_is_another_job_also_where_the_first_one_is_gone(source: Path, tmp_path: Path) -> None:
    """Archives of every day have the same documents: a finished job would have nothing to do."""
    tomorrow = tmp_path / "tomorrow.zarr"
    shutil.copytree(source, tomorrow)
    chunk = tomorrow / "g/relink/0.0"
    chunk.write_bytes(chunk.read_bytes())
    destination = tmp_path / "out.zarr"
    assert zarrlift.migrate(source, destination).ok
    shutil.rmtree(source)
    with pytest.raises(JobError, match="belongs to a different job"):
        zarrlift.migrate(tomorrow, destination)


def test_a_renamed_archive_goes_on_in_place(source: Path) -> None:
    before = tree(source)
    assert zarrlift.migrate(source, in_place=True).ok
    there = renamed(source)
    with pytest.raises(JobError, match="the job belongs to another location") as told:
        zarrlift.finish(there)
    assert f"--source {there}" in str(told.value.problem.advice)
    with pytest.raises(UsageError, match="a migration in place has no destination"):
        zarrlift.resume(f"{there}{SUFFIX}", destination=there)
    assert zarrlift.resume(there, source=there).state == "nothing to do"
    assert zarrlift.verify(there).ok
    assert zarrlift.finish(there).state == "finished"
    assert zarrlift.undo(there).restored > 0
    assert tree(there) == before


def test_a_store_without_a_url_is_recognised_by_what_the_job_published(source: Path, tmp_path: Path) -> None:
    """In another process it has another name."""
    store = MemoryStore()
    assert zarrlift.migrate(source, store, job=tmp_path / "job.db").ok
    again = MemoryStore(dict(store._store_dict))
    assert zarrlift.resume(tmp_path / "job.db", destination=again).state == "nothing to do"
    with pytest.raises(JobError, match="this is not the job's output"):
        zarrlift.resume(tmp_path / "job.db", destination=MemoryStore())


def test_a_result_in_which_a_user_changed_a_document_may_be_moved(tmp_path: Path) -> None:
    source = write_archive(tmp_path / "source")
    assert zarrlift.migrate(source, tmp_path / "result").ok
    zarr.open_array(tmp_path / "result", path="h/rewrite", mode="r+").attrs["mine"] = 1
    (tmp_path / "other").mkdir()
    for name in ("result", "result.zarrlift.db"):
        (tmp_path / name).rename(tmp_path / "other" / name)
    moved = tmp_path / "other/result"
    assert zarrlift.update(moved).state == "nothing to do"
    assert zarr.open_array(moved, path="h/rewrite", mode="r").attrs["mine"] == 1
    (problem,) = zarrlift.undo(moved).problems
    assert problem.key == "h/rewrite/zarr.json"


def test_an_earlier_copy_of_a_result_is_not_the_result(tmp_path: Path) -> None:
    source, result = write_archive(tmp_path / "source"), tmp_path / "result"
    assert zarrlift.migrate(source, result).ok
    earlier = Path(shutil.copytree(result, tmp_path / "earlier"))
    zarr.open_array(source, path="h/rewrite", mode="r+", zarr_format=2).attrs["new"] = 1
    assert zarrlift.update(result).ok
    shutil.rmtree(result)
    with pytest.raises(JobError, match="not the job's output"):
        zarrlift.resume(f"{result}.zarrlift.db", destination=earlier)
