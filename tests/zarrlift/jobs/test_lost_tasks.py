"""What a job recorded as written is looked at before its array appears, whatever became of it since."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import obstore
import pytest
from obstore.store import MemoryStore as ObstoreMemory
from tests.support.job_archives import tree, values
from zarr.storage import ObjectStore

import zarrlift
from zarrlift.core.digest.value_digest import BlockSums
from zarrlift.jobs import disk_sync
from zarrlift.jobs.ledger.ledger import Job
from zarrlift.jobs.publisher import Publisher
from zarrlift.jobs.resume import unsynced_files
from zarrlift.jobs.run import Run
from zarrlift.transfer.counts import MoveResult
from zarrlift.verification import before_publishing
from zarrstack.core.errors import JobError

RECIPES = [{}, {"shards": "auto"}, {"chunks": "5,5"}, {"codecs": "gzip:1"}, {"drop_empty": True}]


def stopped(source: Path, destination: Any, monkeypatch: pytest.MonkeyPatch, **options: Any) -> Path:
    """A copy that was stopped when all chunks of `g/relink` and `h/rewrite` were recorded; gives its job."""
    publish = Publisher.publish

    def stop(self: Publisher, node: Any, content: Any) -> int | None:
        if node.path == "h/rewrite":
            raise KeyboardInterrupt
        return publish(self, node, content)

    only = ("h/rewrite", "empty")
    recipe = zarrlift.Recipe(base=zarrlift.ArrayRecipe(**options.pop("recipe", {})), include=only)
    with monkeypatch.context() as patched:
        patched.setattr(Publisher, "publish", stop)
        with pytest.raises(zarrlift.Interrupted) as interrupted:
            zarrlift.migrate(source, destination, recipe=recipe, **options)
    return Path(interrupted.value.job)


def chunks(destination: Path) -> list[Path]:
    return sorted(file for file in (destination / "h/rewrite/c").rglob("*") if file.is_file())


def zeroed(file: Path) -> None:
    file.write_bytes(bytes(file.stat().st_size))


@pytest.mark.parametrize(
    "recipe",
    [*RECIPES[:2], *(pytest.param(recipe, marks=pytest.mark.slow) for recipe in RECIPES[2:])],
    ids=str,
)
@pytest.mark.parametrize("damage", [Path.unlink, lambda file: file.write_bytes(b"")], ids=["gone", "empty"])
def test_recorded_chunks_that_are_gone_or_empty_are_written_again(
    recipe: dict[str, Any],
    damage: Callable[[Path], object],
    source: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    destination = tmp_path / "out.zarr"
    stopped(source, destination, monkeypatch, recipe=recipe)
    for file in chunks(destination)[::3]:
        damage(file)
    assert zarrlift.resume(destination, verify="none").ok
    assert values(destination, 3)["h/rewrite"] == values(source, 2)["h/rewrite"]


def test_in_a_store_too(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = ObstoreMemory()
    job = stopped(source, ObjectStore(store), monkeypatch, job=tmp_path / "job.db")
    obstore.delete(store, "h/rewrite/c/1/1")
    assert zarrlift.resume(job, destination=ObjectStore(store), verify="none").ok
    zarrlift.migrate(source, tmp_path / "calm.zarr")
    stored = bytes(obstore.get(store, "h/rewrite/c/1/1").bytes())
    assert stored == (tmp_path / "calm.zarr/h/rewrite/c/1/1").read_bytes()


def test_what_is_there_is_not_written_again(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    destination = tmp_path / "out.zarr"
    stopped(source, destination, monkeypatch)
    before = {file: file.stat().st_mtime_ns for file in chunks(destination)}
    assert zarrlift.resume(destination).chunks == 0
    assert {file: file.stat().st_mtime_ns for file in chunks(destination)} == before


# After a crash of the system


def rebooted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unsynced_files, "boot_id", lambda: "the next boot")


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize("recipe", RECIPES, ids=str)
def test_what_had_not_reached_the_disk_is_compared_with_the_source(
    recipe: dict[str, Any], source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loss of power leaves files of the right size that are full of zeros."""
    destination = tmp_path / "out.zarr"
    stopped(source, destination, monkeypatch, recipe=recipe)
    zeroed(chunks(destination)[0])
    rebooted(monkeypatch)
    assert zarrlift.resume(destination, verify="none").ok
    assert values(destination, 3)["h/rewrite"] == values(source, 2)["h/rewrite"]


def test_an_array_that_was_there_already_is_compared_too(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    destination = tmp_path / "out.zarr"
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


@pytest.mark.parametrize("durable", ["the same boot", "synced", "fsync"])
def test_what_is_on_the_disk_is_not_compared(
    durable: str, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    destination = tmp_path / "out.zarr"
    if durable == "synced":
        monkeypatch.setattr(disk_sync, "SECONDS", 0.0)
    job = stopped(source, destination, monkeypatch, fsync=durable == "fsync")
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


def test_of_a_task_that_is_done_again_nothing_is_known_of_before(source: Path, tmp_path: Path) -> None:
    """Neither that it is on the disk, nor the digest of its values."""
    destination = tmp_path / "out.zarr"
    assert zarrlift.migrate(source, destination, digest=True).ok
    with Job.open(tmp_path / "out.zarr.zarrlift.db") as job:
        node = next(row.id for row in job.nodes("array") if row.path == "h/rewrite")
        job.forget_tasks(node)
        job.record_task(node, 0, MoveResult(chunks=1, sums=BlockSums().to_bytes()))
        job.record_synced()
        assert job.digests.sums(node, 1) is not None
        assert node not in job.unsynced()
        job.forget_tasks(node, [0])
        job.record_task(node, 0, MoveResult(chunks=1))
        assert job.digests.sums(node, 1) is None
        assert job.unsynced()[node] == {0}


@pytest.mark.parametrize("again", ["resume", "migrate"])
def test_a_complete_job_is_not_called_complete_while_a_document_is_missing(
    again: str, source: Path, tmp_path: Path
) -> None:
    """As where the job file is an older copy, and an update that it does not know hid an array."""
    destination = tmp_path / "out.zarr"
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
