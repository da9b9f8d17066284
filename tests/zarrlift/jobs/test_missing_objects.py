"""No array is published, and none stays visible, without what was recorded of it."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from tests.support.bucket import Bucket
from tests.support.job_archives import tree, values

import zarrlift
from zarrlift.cli import main
from zarrlift.jobs.ledger.ledger import Job
from zarrlift.jobs.publisher import Publisher
from zarrlift.jobs.resume.published_arrays import incomplete_arrays
from zarrlift.jobs.run import Run
from zarrlift.recipe.options import Places
from zarrlift.storage.local.storage import LocalStorage
from zarrlift.transfer.worker import Worker


def _removing(monkeypatch: pytest.MonkeyPatch, destination: Path, key: str) -> None:
    """Let others remove an object when its array is about to be published."""
    publish = Run._write_documents

    def removing(run: Run, arrays: list[Any]) -> None:
        if any(key.startswith(array.plan.path + "/") for array in arrays):
            (destination / key).unlink()
        publish(run, arrays)

    monkeypatch.setattr(Run, "_write_documents", removing)


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize("key", ["g/relink/c/3/3", "g/recode/c/0", "h/rewrite/c/0/0"])
def test_an_array_is_not_published_without_a_chunk(
    source: Path, destination: Path, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = key.partition("/c/")[0]
    _removing(monkeypatch, destination, key)
    outcome = zarrlift.migrate(source, destination)
    assert not outcome.ok
    assert [(problem.node, problem.found) for problem in outcome.problems] == [(path, f"1 object ({key})")]
    assert not (destination / path / "zarr.json").exists()
    monkeypatch.undo()
    assert zarrlift.resume(destination).ok
    assert values(destination, 3) == values(source, 2)


@pytest.mark.parametrize("hidden", [True, False])
def test_what_is_removed_after_publication_is_named_by_the_same_run(
    source: Path, destination: Path, hidden: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also a single chunk, which its user may have removed: that array stays visible."""
    groups = Publisher.groups

    def removing(publisher: Publisher) -> None:
        groups(publisher)
        shutil.rmtree(destination / "g/relink/c/3") if hidden else (destination / "g/relink/c/3/3").unlink()

    monkeypatch.setattr(Publisher, "groups", removing)
    outcome = zarrlift.migrate(source, destination)
    assert not outcome.ok
    assert [problem.node for problem in outcome.problems] == ["g/relink"]
    assert (destination / "g/relink/zarr.json").exists() is not hidden
    monkeypatch.undo()
    again = zarrlift.resume(destination) if hidden else zarrlift.update(destination, force=True)
    assert again.ok
    assert values(destination, 3) == values(source, 2)


@pytest.mark.slow(one_in=2)
@pytest.mark.parametrize("content", [b"", b"cut off"])
def test_an_array_is_not_published_with_an_object_of_another_size(
    content: bytes, source: Path, bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Listings of stores have sizes."""
    publish = Run._start_checks

    def cutting(run: Run, arrays: list[Any]) -> None:
        if any(array.plan.path == "g/relink" for array in arrays):
            bucket.put("new", {"g/relink/c/3/3": content})
        publish(run, arrays)

    monkeypatch.setattr(Run, "_start_checks", cutting)
    job, options = tmp_path / "job.db", {"dest_storage_options": bucket.options}
    outcome = zarrlift.migrate(source, bucket.url("new"), job=job, verify="none", **options)
    assert [(problem.node, problem.found) for problem in outcome.problems] == [
        ("g/relink", "1 object (g/relink/c/3/3)")
    ]
    assert "g/relink/zarr.json" not in bucket.stored("new")
    monkeypatch.undo()
    assert zarrlift.resume(job, **options).ok
    assert "g/relink/zarr.json" in bucket.stored("new")


def test_the_document_of_an_array_without_chunks_is_missed_too(
    source: Path, destination: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = Publisher.groups

    def removing(publisher: Publisher) -> None:
        groups(publisher)
        (destination / "empty/zarr.json").unlink()

    monkeypatch.setattr(Publisher, "groups", removing)
    outcome = zarrlift.migrate(source, destination)
    assert [problem.node for problem in outcome.problems] == ["empty"]


def _incomplete_job(source: Path, destination: Path) -> None:
    """A run that ended in order with one array that failed, which is mended then."""
    chunk = source / "g/recode/0"
    good = chunk.read_bytes()
    chunk.write_bytes(b"garbage")
    assert not zarrlift.migrate(source, destination).ok
    chunk.write_bytes(good)


@pytest.mark.slow(one_in=5)
@pytest.mark.parametrize(
    ("complete", "verb"), [(False, "resume"), (True, "resume"), (True, "migrate"), (True, "update")]
)
def test_chunks_of_a_published_array_are_written_again(
    source: Path, destination: Path, complete: bool, verb: str
) -> None:
    if complete:
        assert zarrlift.migrate(source, destination).ok
    else:
        _incomplete_job(source, destination)
    shutil.rmtree(destination / "g/relink/c")
    verbs = {
        "resume": zarrlift.resume,
        "update": zarrlift.update,
        "migrate": partial(zarrlift.migrate, source),
    }
    assert verbs[verb](destination).ok
    assert values(destination, 3) == values(source, 2)
    assert zarrlift.resume(destination).state == "nothing to do"


@pytest.mark.parametrize("change", ["fill", "source", "document", "written"])
def test_an_array_that_may_not_be_repaired_is_named(source: Path, destination: Path, change: str) -> None:
    assert zarrlift.migrate(source, destination).ok
    array = zarr.open_array(destination / "g/relink", mode="r+")
    if change == "fill":
        array[0, 0] = array.fill_value
        (destination / "g/relink/c/0/0").unlink(missing_ok=True)
    else:
        shutil.rmtree(destination / "g/relink/c/3")
        if change == "source":
            (source / "g/relink/3.3").unlink()
        elif change == "document":
            array.attrs["x"] = 1
        else:
            array[0, 0] = 5
    before = tree(destination)
    outcome = zarrlift.resume(destination)
    assert not outcome.ok
    assert [problem.node for problem in outcome.problems] == ["g/relink"]
    assert tree(destination) == before
    if change not in ("source", "document"):
        assert zarrlift.update(destination, force=True).ok


@pytest.mark.parametrize("at", ["before", "between"])
def test_an_array_is_hidden_after_a_kill_on_the_way(
    source: Path, destination: Path, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also from the metadata of the root: a kill before the first or the second of its two documents goes."""
    assert zarrlift.migrate(source, destination, recipe=zarrlift.Recipe(consolidate=True)).ok
    shutil.rmtree(destination / "g/relink/c")
    delete = LocalStorage.delete

    def killed(storage: LocalStorage, key: str) -> None:
        if key == ("g/relink/zarr.json" if at == "before" else "zarr.json"):
            raise KeyboardInterrupt
        delete(storage, key)

    monkeypatch.setattr(LocalStorage, "delete", killed)
    with pytest.raises((KeyboardInterrupt, zarrlift.Interrupted)):
        zarrlift.resume(destination)
    monkeypatch.undo()
    run, visible = Worker.run, []

    def looking(self: Worker, *arguments: Any) -> Any:
        visible.extend(key for key in ("zarr.json", "g/relink/zarr.json") if (destination / key).exists())
        return run(self, *arguments)

    monkeypatch.setattr(Worker, "run", looking)
    assert zarrlift.resume(destination, executor="threads").ok
    assert not visible
    assert values(destination, 3) == values(source, 2)


def test_an_array_resized_by_its_user_is_named(source: Path, destination: Path) -> None:
    assert zarrlift.migrate(source, destination).ok
    array = zarr.open_array(destination / "g/relink", mode="r+")
    array.resize(tuple(size // 2 for size in array.shape))
    before = tree(destination)
    outcome = zarrlift.resume(destination)
    assert [problem.node for problem in outcome.problems] == ["g/relink"]
    assert "document" in str(outcome.problems[0].found)
    assert tree(destination) == before


@pytest.mark.parametrize("finished", [False, True])
def test_in_place_a_chunk_that_is_gone_is_named(
    source: Path, finished: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    assert zarrlift.migrate(source, in_place=True).ok
    if finished:
        assert zarrlift.verify(source).ok
        assert zarrlift.finish(source).ok
    (source / "g/relink/3.3").unlink()
    before = tree(source)
    outcome = zarrlift.resume(source)
    assert [problem.node for problem in outcome.problems] == ["g/relink"]
    assert "g/relink/3.3" in str(outcome.problems[0].found)
    assert tree(source) == before
    assert main(["status", str(source), "--check"]) == 1
    assert "g/relink" in capsys.readouterr().out


def test_shards_whose_source_is_gone_are_compared(tmp_path: Path) -> None:
    """The indexes of the source's shards say what was written; without them, each block has an object."""
    array = zarr.create_array(tmp_path / "in.zarr", shape=(64,), chunks=(4,), shards=(16,), dtype="i4")
    array[:] = np.arange(1, 65)
    result = tmp_path / "out.zarr"
    assert zarrlift.migrate(
        tmp_path / "in.zarr", result, recipe=zarrlift.Recipe(base=zarrlift.ArrayRecipe(chunks="8"))
    ).ok
    shutil.rmtree(tmp_path / "in.zarr")
    with Job.open(Path(f"{result}.zarrlift.db"), write=False) as job:
        assert not incomplete_arrays(job, Places())
        shutil.rmtree(result / "c")
        assert incomplete_arrays(job, Places())


def test_without_a_listing_nothing_is_noticed(
    source: Path, destination: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _removing(monkeypatch, destination, "g/relink/c/3/3")
    assert zarrlift.migrate(source, destination, no_list=True).ok
