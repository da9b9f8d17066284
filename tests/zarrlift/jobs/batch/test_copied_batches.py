"""A copied batch does not act on the original archives, and a moved one acts where it is now."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zarr
from tests.support.job_archives import tree, values

import zarrlift
from zarrlift import Batch
from zarrlift.cli import main
from zarrlift.jobs.run import Run
from zarrstack.core.errors import JobError

NAMES = ("one", "two", "three")
TWO = "two places may be meant"
CHANGING: dict[str, Callable[[Batch], Any]] = {
    "run": Batch.run,
    "resume": Batch.resume,
    "verify": Batch.verify,
    "update": Batch.update,
    "undo": Batch.undo,
    "gather": Batch.gather,
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with three archives below `old`; the working directory is its parent."""
    for name in NAMES:
        array = zarr.create_array(
            tmp_path / "a/old" / f"{name}.zarr", name="x", shape=(6,), chunks=(2,), dtype="<i4", zarr_format=2
        )
        array[:] = len(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "a"


def batch(folder: Path, **how: Any) -> Batch:
    """Its archives, migrated to `v3`."""
    return zarrlift.batch(folder / "old", to=f"{folder}/v3/{{relative}}.zarr", **how)


def batch_in_place(folder: Path) -> Batch:
    """Its archives, migrated in place and verified."""
    made = zarrlift.batch(folder / "old", in_place=True)
    assert made.verify().ok
    return made


def copied(folder: Path, name: str = "b") -> Path:
    """What `cp -a` makes beside it."""
    return Path(shutil.copytree(folder, folder.with_name(name), symlinks=True))


def moved(folder: Path, name: str = "b") -> Path:
    """What `mv` makes beside it."""
    return folder.rename(folder.with_name(name))


@pytest.mark.parametrize("call", CHANGING.values(), ids=CHANGING)
def test_a_copied_batch_changes_neither_the_originals_nor_the_copies(
    call: Callable[[Batch], Any], folder: Path
) -> None:
    assert batch(folder).outcome.ok
    other = copied(folder)
    before = tree(folder), tree(other)
    with pytest.raises(JobError, match=TWO) as told:
        call(Batch(other / "v3"))
    found = str(told.value.problem.found)
    assert f"{other}/old/one.zarr and {folder}/old/one.zarr" in found
    assert "and 5 more" in found
    assert (tree(folder), tree(other)) == before


@pytest.mark.parametrize("call", [Batch.finish, Batch.undo], ids=["finish", "undo"])
def test_a_copied_batch_in_place_deletes_no_document_of_the_originals(
    call: Callable[[Batch], Any], folder: Path
) -> None:
    batch_in_place(folder)
    other = copied(folder)
    before = tree(folder), tree(other)
    with pytest.raises(JobError, match=TWO):
        call(Batch(other / "old"))
    assert (tree(folder), tree(other)) == before


def test_the_commands_refuse_a_copied_batch(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    batch_in_place(folder)
    other = copied(folder)
    before = tree(folder)
    monkeypatch.chdir(other)
    for words in (
        ["undo", "old", "--yes"],
        ["finish", "old", "--yes"],
        ["batch", "run", "old", "--in-place"],
    ):
        assert main(words) == 1
        assert TWO in capsys.readouterr().err
    assert tree(folder) == before


def test_a_moved_batch_goes_on_where_it_is_now(folder: Path) -> None:
    assert batch(folder).outcome.ok
    now = moved(folder)
    zarr.open_array(now / "old/one.zarr", path="x", mode="r+", zarr_format=2)[:] = 7
    assert Batch(now / "v3").update().ok
    assert values(now / "v3/one.zarr", 3) == values(now / "old/one.zarr", 2)
    assert {row.source for row in Batch(now / "v3").rows} == {f"{now}/old/{name}.zarr" for name in NAMES}
    assert batch(now).outcome.state == "nothing to do"
    now = moved(now, "c")
    assert Batch(now / "v3").verify(full=True).ok
    assert Batch(now / "v3").undo().counts == {"undone": 3}
    assert not list((now / "v3").rglob("zarr.json"))
    assert not folder.exists()


def test_a_moved_batch_is_finished_and_undone_in_place(folder: Path) -> None:
    before = tree(folder / "old")
    batch_in_place(folder)
    now = moved(folder)
    assert Batch(now / "old").finish().counts == {"finished": 3}
    assert Batch(moved(now, "c") / "old").undo().counts == {"undone": 3}
    assert tree(folder.with_name("c") / "old") == before


def test_a_batch_moved_in_the_middle_writes_the_rest_beside_what_it_has_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        calls: list[None] = []
        run = Run.__call__

        def stop_at_the_second(self: Run) -> Any:
            calls.append(None)
            if len(calls) == 2:
                raise KeyboardInterrupt
            return run(self)

        patched.setattr(Run, "__call__", stop_at_the_second)
        with pytest.raises(zarrlift.Interrupted):
            batch(folder, workers=1)
    now = moved(folder)
    assert Batch(now / "v3").resume().counts == {"done": 3}
    assert all(values(now / "v3" / f"{name}.zarr", 3)["x"] == [len(name)] * 6 for name in NAMES)
    assert not folder.exists()


def test_a_copied_batch_whose_originals_are_gone_uses_its_own(folder: Path) -> None:
    assert batch(folder).outcome.ok
    other = copied(folder)
    shutil.rmtree(folder / "v3")
    shutil.rmtree(folder / "old")
    assert Batch(other / "v3").undo().counts == {"undone": 3}
    assert not list((other / "v3").rglob("zarr.json"))


def test_a_later_batch_at_the_old_place_keeps_its_results(folder: Path) -> None:
    assert batch(folder).outcome.ok
    now = moved(folder)
    shutil.copytree(now / "old", folder / "old")
    assert batch(folder).outcome.ok
    before = tree(folder)
    assert Batch(now / "v3").undo().counts == {"undone": 3}
    assert not list((now / "v3").rglob("zarr.json"))
    assert tree(folder) == before


def test_a_copy_of_the_job_file_alone_is_refused_until_it_is_the_only_one(folder: Path) -> None:
    batch(folder, job=folder / "x.db")
    other = folder.parent / "x.db"
    shutil.copy2(folder / "x.db", other)
    before = tree(folder)
    with pytest.raises(JobError, match="this is a copy of a job file"):
        Batch(other).undo()
    assert tree(folder) == before
    (folder / "x.db").unlink()
    assert Batch(other).undo().counts == {"undone": 3}


def test_the_job_of_one_archive_taken_out_of_its_batch_is_a_copy(folder: Path) -> None:
    made = batch(folder)
    before = tree(folder / "v3")
    with made.ledger(1) as job:
        assert job is not None
        assert zarrlift.verify(job).ok
        with pytest.raises(JobError, match="this is a copy of a job file"):
            zarrlift.undo(job)
    assert tree(folder / "v3") == before
    with made.ledger(1, write=True) as job:
        assert job is not None
        assert zarrlift.undo(job).problems == ()


@pytest.mark.parametrize("how", [copied, moved])
def test_parts_of_a_copied_batch_are_refused_and_those_of_a_moved_one_go_on(
    how: Callable[[Path], Path], folder: Path
) -> None:
    assert batch(folder, parts=2).run_part(0).ok
    other = how(folder)
    if how is copied:
        before = tree(folder)
        with pytest.raises(JobError, match=TWO):
            Batch(other / "v3").run_part(1)
        assert tree(folder) == before
        return
    assert Batch(other / "v3").run_part(1).ok
    assert Batch(other / "v3").gather().counts == {"done": 3}
    assert Batch(moved(other, "c") / "v3").verify().ok
    assert not folder.exists()


def test_a_batch_without_a_record_of_its_path_is_where_its_file_is(folder: Path) -> None:
    made = batch(folder)
    with made._open(write=True) as file:
        file._db.execute("DELETE FROM meta WHERE name = 'home'")
    assert made.resume().state == "nothing to do"
    with pytest.raises(JobError, match=TWO):
        Batch(copied(folder) / "v3").undo()
