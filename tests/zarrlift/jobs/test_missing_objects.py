"""No array is published, and none stays visible, without what was recorded of it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from tests.support.job_archives import tree, values

import zarrlift
from zarrlift.cli import main
from zarrlift.jobs.run import Run


def _removing(monkeypatch: pytest.MonkeyPatch, destination: Path, key: str) -> None:
    """Let others remove an object when its array is about to be published."""
    publish = Run._publish

    def removing(run: Run, arrays: list[Any]) -> None:
        if any(key.startswith(array.plan.path + "/") for array in arrays):
            (destination / key).unlink()
        publish(run, arrays)

    monkeypatch.setattr(Run, "_publish", removing)


@pytest.mark.parametrize("key", ["g/relink/c/3/3", "g/recode/c/0", "h/rewrite/c/0/0"])
@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_an_array_is_not_published_without_a_chunk(
    source: Path, destination: Path, key: str, executor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = key.partition("/c/")[0]
    _removing(monkeypatch, destination, key)
    outcome = zarrlift.migrate(source, destination, executor=executor)
    assert not outcome.ok
    assert [(problem.node, problem.found) for problem in outcome.problems] == [(path, f"1 object ({key})")]
    assert not (destination / path / "zarr.json").exists()
    monkeypatch.undo()
    assert zarrlift.resume(destination).ok
    assert values(destination, 3) == values(source, 2)


def test_without_a_listing_nothing_is_noticed(
    source: Path, destination: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _removing(monkeypatch, destination, "g/relink/c/3/3")
    assert zarrlift.migrate(source, destination, no_list=True).ok


@pytest.mark.parametrize("recipe", [{"chunks": "16"}, {"chunks": "16", "shards": "3"}, {"shards": "2x"}])
def test_blocks_that_omit_fill_values_are_not_missing(
    recipe: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, destination = tmp_path / "fills.zarr", tmp_path / "out.zarr"
    array = zarr.create_array(path / "a", shape=(96,), chunks=(8,), dtype="i4", fill_value=0, zarr_format=2,
                              config={"write_empty_chunks": True})  # fmt: skip
    array[:40] = np.arange(40)
    array[40:80] = 0
    zarr.create_group(path, zarr_format=2, overwrite=False)
    options = zarrlift.Recipe(base=zarrlift.ArrayRecipe(drop_empty=True, **recipe))
    assert zarrlift.migrate(path, destination, recipe=options).ok
    assert (zarr.open_array(destination / "a")[:] == array[:]).all()
    shutil.rmtree(destination)
    _removing(monkeypatch, destination, "a/c/0")
    (tmp_path / "out.zarr.zarrlift.db").unlink(missing_ok=True)
    for file in tmp_path.glob(".*zarrlift*"):
        file.unlink()
    assert not zarrlift.migrate(path, destination, recipe=options).ok


def _incomplete_job(source: Path, destination: Path) -> None:
    """A run that ended in order with one array that failed, which is mended then."""
    chunk = source / "g/recode/0"
    good = chunk.read_bytes()
    chunk.write_bytes(b"garbage")
    assert not zarrlift.migrate(source, destination).ok
    chunk.write_bytes(good)


@pytest.mark.parametrize("complete", [False, True])
@pytest.mark.parametrize("verb", ["resume", "migrate", "update"])
def test_chunks_of_a_published_array_are_written_again(
    source: Path, destination: Path, complete: bool, verb: str
) -> None:
    if complete:
        assert zarrlift.migrate(source, destination).ok
    else:
        _incomplete_job(source, destination)
    shutil.rmtree(destination / "g/relink/c")
    if verb == "update" and not complete:
        assert zarrlift.resume(destination).ok
    elif verb == "update":
        assert zarrlift.update(destination).ok
    else:
        assert (
            zarrlift.resume(destination) if verb == "resume" else zarrlift.migrate(source, destination)
        ).ok
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


def test_status_checks_what_is_published(
    source: Path, destination: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert zarrlift.migrate(source, destination).ok
    assert main(["status", str(destination), "--check"]) == 0
    shutil.rmtree(destination / "g/relink/c")
    assert main(["status", str(destination), "--check"]) == 1
    assert "g/relink" in capsys.readouterr().out
    shutil.rmtree(source)
    assert main(["status", str(destination), "--check"]) == 1
