"""What a command that was stopped leaves for the next one: nothing half-done is taken for whole."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import obstore
import pytest
import zarr
from obstore.store import MemoryStore as ObstoreMemory
from tests.support.fixtures_index import archive
from tests.support.job_archives import tree, values
from tests.support.job_processes import stopping
from zarr.storage import ObjectStore

import zarrlift
from zarrlift.errors import JobError
from zarrlift.jobs import archive_run, publisher, run
from zarrlift.jobs.ledger.ledger import Job
from zarrlift.jobs.publisher import Publisher
from zarrlift.jobs.resume import lost_tasks
from zarrlift.jobs.run import Run
from zarrlift.jobs.update import objects
from zarrlift.storage.local import writer as writing
from zarrlift.storage.local.own_names import LAYERED
from zarrlift.storage.local.storage import LocalStorage
from zarrlift.transfer.counts import MoveResult
from zarrlift.verification import before_publishing
from zarrstack.core.errors import UsageError
from zarrstack.system.this import system

pytestmark = pytest.mark.needs_reader("once")


def interrupted(source: Path, destination: Path) -> dict[str, bytes]:
    """A copy of which chunks are written and recorded, and no array is there yet."""
    shutil.rmtree(source / "empty")  # it would be there before all others
    (source / ".zmetadata").unlink()
    with stopping(Run, "_write_documents"), pytest.raises(zarrlift.Interrupted):
        zarrlift.migrate(source, destination)
    return tree(destination)


@pytest.mark.slow(one_in=2)
@pytest.mark.parametrize("deleted", [0, 20])
def test_after_an_undo_that_was_stopped_nothing_is_written_but_undone(
    deleted: int, source: Path, destination: Path
) -> None:
    """Chunks that are recorded as written may be gone; a resume would publish their array without them."""
    interrupted(source, destination)
    with stopping(LocalStorage, "delete", after=deleted), pytest.raises(KeyboardInterrupt):
        zarrlift.undo(destination)
    for go_on in (lambda: zarrlift.resume(destination), lambda: zarrlift.migrate(source, destination)):
        with pytest.raises(JobError, match="undo of this job was interrupted") as told:
            go_on()
        assert "undo" in str(told.value.problem.advice)
    assert not list(destination.rglob("zarr.json"))
    assert zarrlift.undo(destination).problems == ()
    assert not destination.exists()
    assert zarrlift.migrate(source, destination).ok
    assert values(destination, 3) == values(source, 2)


# --overwrite


@pytest.fixture
def earlier(source: Path, destination: Path) -> Path:
    """The result of the very same migration, which another one is to replace."""
    assert zarrlift.migrate(source, destination).ok
    return destination


def test_undo_of_a_job_that_was_stopped_before_the_old_tree_stepped_aside(
    source: Path, earlier: Path
) -> None:
    """What is there looks like the job's own work, byte for byte, and is not."""
    before = tree(earlier)
    with stopping(archive_run, "set_aside"), pytest.raises(KeyboardInterrupt):
        zarrlift.migrate(source, earlier, overwrite=True)
    outcome = zarrlift.undo(earlier)
    assert outcome.removed == 0
    assert tree(earlier) == before


@pytest.mark.slow(one_in=2)
@pytest.mark.parametrize("removed", [0, 1])
def test_an_old_tree_whose_removal_was_stopped_does_not_come_back(
    removed: int, source: Path, earlier: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without some of its chunks it would read as fill values."""
    with monkeypatch.context() as patched:
        rmtree = system.remove_tree

        def stop(place: str, *, ignore_errors: bool = False, dir_fd: int | None = None) -> None:
            if "-gone-" not in place:  # the job's own directory
                return rmtree(place, ignore_errors=ignore_errors, dir_fd=dir_fd)
            tree = earlier.with_name(place)
            for file in [path for path in tree.rglob("c/*/*") if path.is_file()][:removed]:
                file.unlink()
            raise KeyboardInterrupt

        patched.setattr(system, "remove_tree", stop)
        with pytest.raises(KeyboardInterrupt):
            zarrlift.migrate(source, earlier, overwrite=True)
    assert values(earlier, 3) == values(source, 2)
    zarrlift.undo(earlier)
    assert not earlier.exists()
    assert {path.name for path in earlier.parent.iterdir()} == {"source.zarr", "out.zarr.zarrlift.db"}


def test_a_resume_ends_a_removal_that_was_stopped(source: Path, earlier: Path) -> None:
    with stopping(run, "remove_previous_tree"), pytest.raises(KeyboardInterrupt):
        zarrlift.migrate(source, earlier, overwrite=True)
    assert zarrlift.resume(earlier).state == "nothing to do"
    assert {path.name for path in earlier.parent.iterdir()} == {
        "source.zarr",
        "out.zarr",
        "out.zarr.zarrlift.db",
    }


def test_a_job_that_keeps_an_old_tree_does_not_make_room(
    source: Path, tmp_path: Path, destination: Path
) -> None:
    """Without its job nobody would bring the old tree back, nor remove it."""
    destination.mkdir()
    (destination / "old").write_text("old")
    chunk = source / "g/relink/0.0"
    good = chunk.read_bytes()
    chunk.write_bytes(b"garbage")
    assert not zarrlift.migrate(source, destination, overwrite=True).ok
    other = zarrlift.Recipe(base=zarrlift.ArrayRecipe(endian="little"))
    with pytest.raises(JobError, match="keeps the old tree") as told:
        zarrlift.migrate(source, destination, overwrite=True, recipe=other)
    assert ".zarrlift-old-" in str(told.value.problem.found)
    chunk.write_bytes(good)
    assert zarrlift.resume(destination).ok
    assert zarrlift.migrate(source, destination, overwrite=True, recipe=other).ok
    assert values(destination, 3) == values(source, 2)
    assert not list(tmp_path.glob("*.zarrlift-old-*"))


# Consolidated metadata


@pytest.fixture
def repaired(source: Path, destination: Path) -> Path:
    """A result with one array more than before, stopped right before its root document says so."""
    chunk = source / "g/relink/0.0"
    good = chunk.read_bytes()
    chunk.write_bytes(b"garbage")
    assert not zarrlift.migrate(source, destination).ok
    chunk.write_bytes(good)
    with stopping(Publisher, "_publish_group"), pytest.raises(zarrlift.Interrupted):
        zarrlift.resume(destination)
    assert "g/relink" not in consolidated(destination)
    return destination


def consolidated(path: Path) -> set[str]:
    document = json.loads((path / "zarr.json").read_bytes())
    return set(document["consolidated_metadata"]["metadata"])


def test_a_resume_writes_the_root_document_that_a_stopped_run_did_not(repaired: Path) -> None:
    outcome = zarrlift.resume(repaired)
    assert outcome.ok, outcome.problems
    assert "g/relink" in consolidated(repaired)


def test_undo_knows_the_root_document_that_a_stopped_run_did_not_replace(repaired: Path) -> None:
    assert zarrlift.undo(repaired).problems == ()
    assert not repaired.exists()


# In place


def test_overwrite_means_nothing_in_place_and_loses_no_document(source: Path) -> None:
    before = tree(source)
    zarrlift.migrate(source, in_place=True)
    assert zarrlift.verify(source).ok
    assert zarrlift.finish(source).state == "finished"
    with pytest.raises(UsageError, match="overwrite"):
        zarrlift.migrate(source, in_place=True, overwrite=True)
    zarrlift.undo(source)
    assert tree(source) == before


@pytest.mark.slow(one_in=2)
@pytest.mark.parametrize("restored", [2, 0])
def test_an_undo_that_was_stopped_leaves_no_file_of_its_own(restored: int, source: Path) -> None:
    before = tree(source)
    zarrlift.migrate(source, in_place=True)
    assert zarrlift.verify(source).ok
    zarrlift.finish(source)
    with stopping(writing.os, "replace", after=restored), pytest.raises(KeyboardInterrupt):
        zarrlift.undo(source)
    assert not list(source.rglob("*.partial")), "what is not whole lies in the job's own directory"
    zarrlift.undo(source)
    assert tree(source) == before
    assert not list(source.glob(".zarrlift*"))


# What a job keeps to itself


def test_the_directory_of_a_killed_run_is_no_node(tmp_path: Path) -> None:
    """In N5 every directory is a group, and a resume does not go on where there is another one."""
    place = tmp_path / "place.n5"
    shutil.copytree(archive("n5/java-3.5.1/tree").path, place)
    before = [node.path for node in zarrlift.inspect(place).nodes]
    own = place / ".zarrlift-0123abcd"
    own.mkdir()
    (own / "zarr.json").write_text("half of a docu")
    assert [node.path for node in zarrlift.inspect(place).nodes] == before


@pytest.fixture
def half_layered(source: Path, destination: Path) -> Path:
    """What a kill leaves of a copy through a layer: half an object."""
    chunk = source / "g/relink/0.0"
    good = chunk.read_bytes()
    chunk.write_bytes(b"bad")
    assert not zarrlift.migrate(source, destination, dest_through="retry").ok
    chunk.write_bytes(good)
    (destination / LAYERED).mkdir()
    (destination / LAYERED / "0123abcd").write_bytes(b"ha")
    return destination


def test_a_resume_removes_what_was_half_written_through_layers(half_layered: Path) -> None:
    assert zarrlift.resume(half_layered).ok
    assert not (half_layered / LAYERED).exists()


def test_an_undo_removes_what_was_half_written_through_layers(half_layered: Path) -> None:
    assert zarrlift.undo(half_layered).problems == ()
    assert not half_layered.exists()


@pytest.mark.parametrize("content", [b"", bytes(512)], ids=["begun", "done with"])
def test_a_journal_that_a_killed_commit_left_goes(
    content: bytes, source: Path, tmp_path: Path, destination: Path
) -> None:
    """SQLite keeps one that it does not need until it writes, and a job that is done writes nothing."""
    assert zarrlift.migrate(source, destination).ok
    journal = tmp_path / "out.zarr.zarrlift.db-journal"
    journal.write_bytes(content)
    assert zarrlift.resume(destination).state == "nothing to do"
    assert not journal.exists()
    assert zarrlift.status(destination).state == "done"


# What is written and not right


def test_a_resume_writes_anew_what_was_found_wrong(source: Path, destination: Path) -> None:
    """A disk that lost a chunk, say: what is recorded as written is not asked about twice."""
    with pytest.MonkeyPatch.context() as patched:
        verify = Run._start_comparison

        def damage(self: Run, arrays: list[Any]) -> object:
            for file in destination.glob("g/relink/c/*/*"):
                file.unlink()
            return verify(self, arrays)

        patched.setattr(Run, "_start_comparison", damage)
        outcome = zarrlift.migrate(source, destination, verify="full")
    assert {problem.node for problem in outcome.problems} == {"g/relink"}
    assert zarrlift.resume(destination, verify="full").ok
    assert values(destination, 3) == values(source, 2)


# What a job recorded as written is looked at before its array appears, whatever became of it since.


RECIPES = [{}, {"shards": "auto"}, {"chunks": "5,5"}, {"codecs": "gzip:1"}, {"drop_empty": True}]


def stopped(source: Path, destination: Any, **options: Any) -> Path:
    """A copy that was stopped when all chunks of `g/relink` and `h/rewrite` were recorded; gives its job."""
    only = ("h/rewrite", "empty")
    recipe = zarrlift.Recipe(base=zarrlift.ArrayRecipe(**options.pop("recipe", {})), include=only)
    at_rewrite = stopping(Publisher, "publish", when=lambda _, node, *__: node.path == "h/rewrite")
    with at_rewrite, pytest.raises(zarrlift.Interrupted) as interrupted:
        zarrlift.migrate(source, destination, recipe=recipe, **options)
    return Path(interrupted.value.job)


def chunks(destination: Path) -> list[Path]:
    return sorted(file for file in (destination / "h/rewrite/c").rglob("*") if file.is_file())


def zeroed(file: Path) -> None:
    facts = file.stat()
    file.write_bytes(bytes(facts.st_size))
    os.utime(file, ns=(facts.st_atime_ns, facts.st_mtime_ns))


@pytest.mark.slow(one_in=7)
@pytest.mark.parametrize("recipe", RECIPES, ids=str)
@pytest.mark.parametrize("damage", [Path.unlink, lambda file: file.write_bytes(b"")], ids=["gone", "empty"])
def test_recorded_chunks_that_are_gone_or_empty_are_written_again(
    recipe: dict[str, Any],
    damage: Callable[[Path], object],
    source: Path,
    destination: Path,
) -> None:
    stopped(source, destination, recipe=recipe)
    for file in chunks(destination)[::3]:
        damage(file)
    assert zarrlift.resume(destination, verify="none").ok
    assert values(destination, 3)["h/rewrite"] == values(source, 2)["h/rewrite"]


def test_in_a_store_too(source: Path, tmp_path: Path) -> None:
    store = ObstoreMemory()
    job = stopped(source, ObjectStore(store), job=tmp_path / "job.db")
    obstore.delete(store, "h/rewrite/c/1/1")
    assert zarrlift.resume(job, destination=ObjectStore(store), verify="none").ok
    zarrlift.migrate(source, tmp_path / "calm.zarr")
    stored = bytes(obstore.get(store, "h/rewrite/c/1/1").bytes())
    assert stored == (tmp_path / "calm.zarr/h/rewrite/c/1/1").read_bytes()


def test_what_is_there_is_not_written_again(source: Path, destination: Path) -> None:
    stopped(source, destination)
    before = {file: file.stat().st_mtime_ns for file in chunks(destination)}
    assert zarrlift.resume(destination).chunks == 0
    assert {file: file.stat().st_mtime_ns for file in chunks(destination)} == before


# After a crash of the system


def rebooted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lost_tasks, "system", SimpleNamespace(boot=lambda: "the next boot"))


@pytest.mark.parametrize("recipe", RECIPES, ids=str)
def test_what_had_not_reached_the_disk_is_compared_with_the_source(
    recipe: dict[str, Any], source: Path, destination: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loss of power leaves files of the right size that are full of zeros."""
    stopped(source, destination, recipe=recipe)
    zeroed(chunks(destination)[0])
    rebooted(monkeypatch)
    assert zarrlift.resume(destination, verify="none").ok
    assert values(destination, 3)["h/rewrite"] == values(source, 2)["h/rewrite"]


def test_an_array_that_was_there_already_is_compared_too(
    source: Path, destination: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = (source / "g/recode/0").read_bytes()
    (source / "g/recode/0").write_bytes(b"bad")
    assert not zarrlift.migrate(source, destination).ok
    assert (destination / "h/rewrite/zarr.json").exists()
    zeroed(chunks(destination)[0])
    (destination / "empty/zarr.json").write_bytes(b"")
    rebooted(monkeypatch)
    (source / "g/recode/0").write_bytes(good)
    run = Run.__call__
    seen = []

    def look(self: Run) -> Any:
        seen.append(sorted(path.parent.name for path in destination.glob("*/*/zarr.json")))
        return run(self)

    monkeypatch.setattr(Run, "__call__", look)
    assert zarrlift.resume(destination).ok
    assert seen == [["relink"]], "an array with a wrong chunk is not to be seen"
    assert values(destination, 3) == values(source, 2)


@pytest.mark.parametrize(("verb", "lost"), [(zarrlift.resume, "a chunk"), (zarrlift.update, "a document")])
def test_what_a_complete_job_may_have_lost_is_compared_once(
    verb: Any, lost: str, source: Path, destination: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zarrlift.migrate(source, destination)
    if lost == "a chunk":
        zeroed(chunks(destination)[0])
    else:
        (destination / "h/rewrite/zarr.json").write_bytes(b"")
    rebooted(monkeypatch)
    assert verb(destination).state == "done"
    assert values(destination, 3) == values(source, 2)
    monkeypatch.undo()
    assert verb(destination).state == "nothing to do"


def test_a_changed_source_cannot_show_what_was_lost_until_an_update(
    source: Path, destination: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zarrlift.migrate(source, destination)
    zeroed(destination / "h/rewrite/c/0/1")
    (source / "h/rewrite/0.0").write_bytes((source / "h/rewrite/1.1").read_bytes())
    with monkeypatch.context() as patch:
        rebooted(patch)
        assert {problem.kind for problem in zarrlift.resume(destination).problems} == {"source-changed"}
    assert zarrlift.update(destination).ok
    assert values(destination, 3) == values(source, 2)


def test_work_of_a_run_without_fsync_is_flushed_before_it_counts_as_flushed(
    source: Path, destination: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped(source, destination)
    flushed: list[LocalStorage] = []
    monkeypatch.setattr(publisher, "sync", flushed.append)
    assert zarrlift.resume(destination, fsync=True).ok
    assert [Path(storage.root) for storage in flushed] == [destination]


def test_an_update_flushes_its_deletions_before_it_counts_as_complete(
    source: Path, destination: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """btrfs brought a deleted chunk back, which nothing looked for any more."""
    zarrlift.migrate(source, destination)
    (source / "g/recode/3").unlink()
    flushed: list[bool] = []

    def sync(_: object) -> None:
        flushed.append((destination / "g/recode/c/3").exists())

    monkeypatch.setattr(objects, "sync", sync)
    assert zarrlift.update(destination).ok
    assert flushed == [False]


def test_an_update_with_fsync_flushes_what_hides_and_narrows(
    source: Path, destination: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chunks are replaced next, and what readers of the earlier documents would see in them is wrong."""
    zarrlift.migrate(source, destination)
    array = zarr.open_array(source, path="h/rewrite", mode="r+", zarr_format=2)
    array.resize((array.shape[0] - 1, *array.shape[1:]))
    flushed: list[int] = []
    published: list[str] = []
    really, replace = os.fsync, os.replace

    def fsync(descriptor: int) -> None:
        flushed.append(os.fstat(descriptor).st_ino)
        really(descriptor)

    def publish(temporary: str, target: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        if target == "zarr.json":
            assert os.stat(temporary, dir_fd=src_dir_fd).st_ino in flushed, target
            directory = os.fstat(dst_dir_fd).st_ino
            published.extend(path for path in ("", "h/rewrite") if is_at(destination / path, directory))
        replace(temporary, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    def is_at(path: Path, inode: int) -> bool:
        return path.stat().st_ino == inode

    monkeypatch.setattr(writing.os, "fsync", fsync)
    monkeypatch.setattr(writing.os, "replace", publish)
    assert zarrlift.update(destination, fsync=True).ok
    assert published[:2] == ["", "h/rewrite"]
    assert values(destination, 3) == values(source, 2)


def test_an_update_keeps_what_it_can_no_longer_compare(
    source: Path, destination: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A result outlives its source: not to be compared with it is no reason to take an array down."""
    zarrlift.migrate(source, destination)
    kept = values(destination, 3)["h/rewrite"]
    shutil.rmtree(source / "h")
    (source / ".zmetadata").unlink()
    (source / "g/relink/0.0").write_bytes((source / "g/relink/1.1").read_bytes())
    rebooted(monkeypatch)
    assert zarrlift.update(destination).ok
    assert values(destination, 3)["h/rewrite"] == kept


@pytest.mark.parametrize("durable", ["the same boot", "synced", "fsync"])
def test_what_is_on_the_disk_is_not_compared(
    durable: str, source: Path, destination: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if durable == "synced":
        monkeypatch.setattr(publisher, "SECONDS", 0.0)
    job = stopped(source, destination, fsync=durable == "fsync")
    if durable != "the same boot":
        rebooted(monkeypatch)
        with Job.open(job) as opened:
            assert opened.unsynced() == {}
    compared: list[object] = []
    both_sides = before_publishing.both_sides

    def noted(*arguments: object, sampled: bool = False) -> object:
        if not sampled:
            compared.append(arguments)
        return both_sides(*arguments, sampled=sampled)

    monkeypatch.setattr(before_publishing, "both_sides", noted)
    assert zarrlift.resume(destination).ok
    assert compared == []


def test_of_a_task_that_is_done_again_nothing_is_known_of_before(
    source: Path, tmp_path: Path, destination: Path
) -> None:
    """Not that it is on the disk either."""
    assert zarrlift.migrate(source, destination).ok
    with Job.open(tmp_path / "out.zarr.zarrlift.db") as job:
        node = next(row.id for row in job.nodes("array") if row.path == "h/rewrite")
        job.forget_tasks(node)
        job.record_task(node, 0, MoveResult(chunks=1))
        job.record_synced()
        assert node not in job.unsynced()
        job.forget_tasks(node, [0])
        job.record_task(node, 0, MoveResult(chunks=1))
        assert job.unsynced()[node] == {0}


@pytest.mark.parametrize("again", ["resume", "migrate"])
def test_a_complete_job_is_not_called_complete_while_a_document_is_missing(
    again: str, source: Path, destination: Path
) -> None:
    """As where the job file is an older copy, and an update that it does not know hid an array."""
    assert zarrlift.migrate(source, destination).ok
    document = destination / "h/rewrite/zarr.json"
    content = document.read_bytes()
    document.unlink()
    before = tree(destination)
    with pytest.raises(JobError, match="what this job wrote is gone") as told:
        zarrlift.resume(destination) if again == "resume" else zarrlift.migrate(source, destination)
    assert (told.value.problem.key, str(told.value.problem.found)[:4]) == ("h/rewrite/zarr.json", "1 of")
    assert tree(destination) == before
    document.write_bytes(content)
    assert zarrlift.resume(destination).state == "nothing to do"
