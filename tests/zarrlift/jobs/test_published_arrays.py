"""Published arrays that lack objects are repaired or named, whatever made them and wherever they are."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import icechunk
import numpy as np
import pytest
import zarr
from tests.support.bucket import Bucket
from tests.support.job_archives import tree, values, write_archive

import zarrlift
from zarrlift import ArrayRecipe, Recipe
from zarrlift.cli import main
from zarrlift.jobs.source_check import inventory_path
from zarrlift.planning import planner
from zarrlift.planning.blocks import BASE, available_cores
from zarrlift.planning.boxes import Candidates

icechunk.set_logs_filter("error")


def _rows(path: Path) -> Path:
    array = zarr.create_array(
        path / "a", shape=(300, 200), chunks=(1, 200), dtype=">i4", compressors=None, zarr_format=2
    )
    array[:250] = np.arange(50_000).reshape(250, 200) % 999 + 1
    (path / ".zgroup").write_text('{"zarr_format": 2}')
    return path


def _with_fill_values(path: Path) -> Path:
    array = zarr.create_array(
        path / "a", shape=(96,), chunks=(8,), dtype="i4", fill_value=0, zarr_format=2,
        config={"write_empty_chunks": True},
    )  # fmt: skip
    array[:40] = np.arange(1, 41)
    array[40:] = 0
    (path / ".zgroup").write_text('{"zarr_format": 2}')
    return path


def _shards(path: Path) -> Path:
    zarr.create_group(path)
    array = zarr.create_array(path / "a", shape=(64,), chunks=(4,), shards=(16,), dtype="i4")
    array[:48] = np.arange(1, 49)
    return path


RESULTS: dict[str, tuple[Callable[[Path], Path], dict[str, Any]]] = {
    "two passes": (_rows, {"chunks": "-1,2", "shards": "none"}),
    "fill values omitted": (_with_fill_values, {"drop_empty": True}),
    "fill values omitted from other chunks": (_with_fill_values, {"drop_empty": True, "chunks": "16"}),
    "fill values omitted from shards": (_with_fill_values, {"drop_empty": True, "shards": "2x"}),
    "shards taken apart": (_shards, {"shards": "none"}),
    "other shards": (_shards, {"chunks": "8", "shards": "4x"}),
}


@pytest.fixture
def tight(monkeypatch: pytest.MonkeyPatch) -> None:
    """So little memory that rows become columns in two passes."""
    choose = Candidates.choose
    monkeypatch.setattr(
        *(Candidates, "choose"),
        lambda self, room, workers, *, whole=False: choose(self, 5_000, workers, whole=whole),
    )
    monkeypatch.setattr(planner, "memory_budget", lambda _: BASE + 8 * available_cores() * 5_000)


@pytest.mark.slow(one_in=11)
@pytest.mark.usefixtures("tight")
@pytest.mark.parametrize("name", RESULTS)
def test_what_is_gone_is_named_or_written_again_whatever_wrote_it(name: str, tmp_path: Path) -> None:
    """A single object may have been removed on purpose; all chunks may not."""
    write, recipe = RESULTS[name]
    source, result = write(tmp_path / "old.zarr"), tmp_path / "new.zarr"
    wanted = Recipe(base=ArrayRecipe(**recipe))
    (plan,) = zarrlift.plan(source, result, recipe=wanted).arrays
    assert (plan.between is not None) is (name == "two passes")
    assert zarrlift.migrate(source, result, recipe=wanted).ok
    whole = tree(result)
    assert zarrlift.resume(result).ok
    assert main(["status", str(result), "--check"]) == 0
    (result / min(key for key in whole if key.startswith("a/c/"))).unlink()
    before = tree(result)
    outcome = zarrlift.resume(result)
    assert not outcome.ok
    assert [problem.node for problem in outcome.problems] == ["a"]
    assert tree(result) == before
    shutil.rmtree(result / "a/c")
    assert main(["status", str(result), "--check"]) == 1
    outcome = zarrlift.resume(result)
    assert (outcome.ok, outcome.state) == (True, "done")
    assert tree(result) == whole


def test_a_bucket(source: Path, bucket: Bucket, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job, options = tmp_path / "job.db", {"dest_storage_options": bucket.options}
    url = bucket.url("new")
    assert zarrlift.migrate(source, url, job=job, **options).ok
    whole = bucket.stored("new")
    for key in bucket.stored("new/g/relink/c/3"):
        bucket.server.remove(f"new/g/relink/c/3/{key}")
    for call in (zarrlift.resume, zarrlift.update):
        outcome = call(job, **options)
        assert [problem.node for problem in outcome.problems] == ["g/relink"]
        assert not outcome.ok
    storage = f"dst:{json.dumps(bucket.options)}"
    assert main(["status", str(job), "--check", "--storage-options", storage]) == 1
    assert "g/relink" in capsys.readouterr().out
    assert zarrlift.update(job, force=True, **options).ok
    assert bucket.stored("new") == whole


def test_icechunk(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"icechunk://{tmp_path}/repo"
    assert zarrlift.migrate(source, url).ok
    session = icechunk.Repository.open(
        icechunk.local_filesystem_storage(str(tmp_path / "repo"))
    ).writable_session("main")

    async def remove() -> None:
        keys = [key async for key in session.store.list_prefix("g/relink/") if "/c/3/" in key]
        for key in keys:
            await session.store.delete(key)

    asyncio.run(remove())
    session.commit("by others")
    outcome = zarrlift.resume(url)
    assert [problem.node for problem in outcome.problems] == ["g/relink"]
    assert "undo" in str(outcome.problems[0].advice)
    assert not outcome.ok
    assert main(["status", url, "--check"]) == 1
    assert "g/relink" in capsys.readouterr().out


@pytest.mark.slow(one_in=5)
@pytest.mark.parametrize("words", [("resume",), ("update",), ("update", "--force"), ("status", "--check")])
def test_the_source_is_gone(
    words: tuple[str, ...], source: Path, destination: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command still names what the result lacks."""
    assert zarrlift.migrate(source, destination).ok
    shutil.rmtree(destination / "g/relink/c")
    shutil.rmtree(source)
    before = tree(destination)
    assert main([words[0], str(destination), *words[1:]]) == 1
    output = capsys.readouterr()
    assert "/g/relink" in output.out + output.err
    assert tree(destination) == before


@pytest.mark.parametrize("changed", [False, True])
def test_the_stored_listing_is_gone(changed: bool, bucket: Bucket, tmp_path: Path) -> None:
    """An unchanged source is listed again; of a changed one, the number of objects of each task is known."""
    bucket.put("old", tree(write_archive(tmp_path / "old.zarr")))
    job, result = tmp_path / "job.db", tmp_path / "new.zarr"
    options = {"storage_options": bucket.options}
    assert zarrlift.migrate(bucket.url("old"), result, job=job, **options).ok
    inventory_path(job).unlink()
    if changed:
        bucket.put("old", {"g/relink/0.0": b"changed"})
    shutil.rmtree(result / "g/relink/c/3")
    outcome = zarrlift.resume(job, **options)
    assert outcome.ok is not changed
    if changed:
        assert [problem.node for problem in outcome.problems] == ["g/relink"]
    else:
        assert values(result, 3) == values(tmp_path / "old.zarr", 2)


def test_shards_are_counted_without_a_listing(bucket: Bucket, tmp_path: Path) -> None:
    bucket.put("old", tree(write_archive(tmp_path / "old.zarr")))
    job, result = tmp_path / "job.db", tmp_path / "new.zarr"
    recipe = Recipe(base=ArrayRecipe(shards="2x"))
    options = {"storage_options": bucket.options}
    assert zarrlift.migrate(bucket.url("old"), result, job=job, recipe=recipe, **options).ok
    inventory_path(job).unlink()
    bucket.put("old", {"g/relink/0.0": b"changed"})
    assert zarrlift.resume(job, **options).ok
    (result / "g/relink/c/0/0").unlink()
    outcome = zarrlift.resume(job, **options)
    assert [problem.node for problem in outcome.problems] == ["g/relink"]
    assert not outcome.ok


def test_arrays_that_cannot_be_checked_are_named(bucket: Bucket, tmp_path: Path) -> None:
    """An update has recorded only what it has written."""
    bucket.put("old", tree(write_archive(tmp_path / "old.zarr")))
    job, result = tmp_path / "job.db", tmp_path / "new.zarr"
    options = {"storage_options": bucket.options}
    assert zarrlift.migrate(bucket.url("old"), result, job=job, **options).ok
    bucket.put("old", {"h/rewrite/0.0": bucket.stored("old")["h/rewrite/0.1"]})
    assert zarrlift.update(job, **options).ok
    inventory_path(job).unlink()
    bucket.put("old", {"h/rewrite/0.0": bucket.stored("old")["h/rewrite/1.1"]})
    outcome = zarrlift.resume(job, **options)
    (problem,) = outcome.problems
    assert "could not be checked" in problem.message
    assert (problem.severity, problem.found) == ("warning", "1 array (/h/rewrite)")


def test_a_shard_is_missed_beside_others_that_are_mostly_empty(tmp_path: Path) -> None:
    """Their inner chunks are omitted, as those of a shard that is not written at all."""
    array = zarr.create_array(
        tmp_path / "old.zarr/a", shape=(64,), chunks=(2,), dtype="i4", zarr_format=2,
        config={"write_empty_chunks": True},
    )  # fmt: skip
    array[:] = 0
    array[::16] = 1
    (tmp_path / "old.zarr/.zgroup").write_text('{"zarr_format": 2}')
    result = tmp_path / "new.zarr"
    recipe = Recipe(base=ArrayRecipe(chunks="4", shards="4x", drop_empty=True))
    assert zarrlift.migrate(tmp_path / "old.zarr", result, recipe=recipe).ok
    (result / "a/c/1").unlink()
    outcome = zarrlift.resume(result)
    assert [(problem.node, str(problem.found)[:18]) for problem in outcome.problems] == [
        ("a", "1 object (a/c/1) m")
    ]


def test_finish_warns_of_chunks_that_are_gone(source: Path) -> None:
    """They may have been deleted by the user of the archive."""
    assert zarrlift.migrate(source, in_place=True).ok
    assert zarrlift.verify(source).ok
    (source / "g/relink/3.3").unlink()
    outcome = zarrlift.finish(source)
    assert outcome.state == "finished"
    assert [(problem.node, problem.severity) for problem in outcome.problems] == [("g/relink", "warning")]


def test_a_root_that_others_changed_stays_as_it_is(source: Path, destination: Path) -> None:
    assert zarrlift.migrate(source, destination, recipe=Recipe(consolidate=True)).ok
    shutil.rmtree(destination / "g/relink/c/3")
    root = destination / "zarr.json"
    root.write_text(json.dumps({**json.loads(root.read_text()), "attributes": {"by a user": 1}}))
    changed, before = root.read_bytes(), tree(destination)
    assert [problem.node for problem in zarrlift.resume(destination).problems] == ["g/relink"]
    assert tree(destination) == before
    assert zarrlift.update(destination, force=True).ok
    assert root.read_bytes() == changed
    assert values(destination, 3) == values(source, 2)
    assert zarrlift.update(destination).state == "nothing to do"
