"""A batch that was copied or moved acts where it is now, and never on the original archives."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zarr
from tests.support.job_archives import results, tree, values
from tests.support.job_processes import stopping

import zarrlift
from zarrlift import Batch
from zarrlift.jobs.run import Run

NAMES = ("one", "two", "three")
ELSEWHERE = "the job file was moved or copied, so it is only read"
CHANGING: dict[str, Callable[[Batch], Any]] = {
    "verify": Batch.verify,
    "update": Batch.update,
    "undo": Batch.undo,
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


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize("call", CHANGING.values(), ids=CHANGING)
def test_a_copied_batch_acts_on_the_copies_and_never_on_the_originals(
    call: Callable[[Batch], Any], folder: Path
) -> None:
    assert batch(folder).outcome.ok
    other = copied(folder)
    zarr.open_array(folder / "old/one.zarr", path="x", mode="r+", zarr_format=2)[:] = 7  # not what is copied
    before = tree(folder)
    there = Batch(other / "v3.zarrlift.jsonl")
    call(there)
    assert there.outcome.ok
    if call is Batch.undo:
        assert not list((other / "v3").rglob("zarr.json"))
    else:
        assert Batch(other / "v3.zarrlift.jsonl").verify(full=True).ok
    assert tree(folder) == before
    assert Batch(folder / "v3.zarrlift.jsonl").update().ok  # the original goes on too
    assert values(folder / "v3/one.zarr", 3) == values(folder / "old/one.zarr", 2)


def test_a_copied_batch_in_place_deletes_no_document_of_the_originals(folder: Path) -> None:
    original = tree(folder / "old")
    batch_in_place(folder)
    other = copied(folder)
    before = tree(folder)
    there = Batch(other / "old.zarrlift.jsonl")
    assert there.finish().counts == {"finished": 3}
    assert not (other / "old/one.zarr/.zgroup").exists()
    assert there.undo().counts == {"undone": 3}
    assert results(other / "old") == original
    assert tree(folder) == before


def test_the_source_that_the_list_names_is_that_of_an_update(folder: Path) -> None:
    """A job alone would read the one that has not changed."""
    assert batch(folder).outcome.ok
    other = copied(folder)
    zarr.open_array(other / "old/one.zarr", path="x", mode="r+", zarr_format=2)[:] = 7
    before = tree(folder)
    assert Batch(other / "v3.zarrlift.jsonl").update().ok
    assert values(other / "v3/one.zarr", 3)["x"] == [7] * 6
    assert tree(folder) == before


def test_a_moved_batch_goes_on_where_it_is_now(folder: Path) -> None:
    assert batch(folder).outcome.ok
    now = moved(folder)
    zarr.open_array(now / "old/one.zarr", path="x", mode="r+", zarr_format=2)[:] = 7
    assert Batch(now / "v3.zarrlift.jsonl").update().ok
    assert values(now / "v3/one.zarr", 3) == values(now / "old/one.zarr", 2)
    assert {row.source for row in Batch(now / "v3.zarrlift.jsonl").rows} == {
        str(now / f"old/{name}.zarr") for name in NAMES
    }
    assert batch(now).outcome.state == "nothing to do"
    now = moved(now, "c")
    assert Batch(now / "v3.zarrlift.jsonl").verify(full=True).ok
    assert Batch(now / "v3.zarrlift.jsonl").undo().counts == {"undone": 3}
    assert not list((now / "v3").rglob("zarr.json"))
    assert not folder.exists()


def test_a_copy_of_the_list_alone_has_nothing_to_act_on(folder: Path) -> None:
    batch(folder, list_file=folder / "x.zarrlift.jsonl")
    other = Path(shutil.copy2(folder / "x.zarrlift.jsonl", folder.parent / "x.zarrlift.jsonl"))
    before = tree(folder)
    assert Batch(other).undo().state == "nothing to do"
    assert Batch(other).run().counts == {"refused": 3}
    assert tree(folder) == before


@pytest.mark.slow(one_in=2)
@pytest.mark.parametrize("slash", ["", "/"])
def test_a_copied_list_of_results_in_a_store_takes_no_job_from_the_original(slash: str, folder: Path) -> None:
    place = f"memory://{folder.parent.name}{bool(slash)}"
    made = zarrlift.batch(
        folder / "old", to=f"{place}/{{relative}}.zarr{slash}", list_file=folder / "s.zarrlift.jsonl"
    )
    assert made.outcome.ok
    assert {Path(row.job).parent for row in made.rows} == {folder}
    there = Batch(copied(folder) / "s.zarrlift.jsonl")
    assert not there.undo().ok
    assert all(ELSEWHERE in str(row.problems) for row in there.outcome.rows)
    assert made.verify(full=True).ok
    assert made.undo().state == "undone"


def test_a_list_of_places_elsewhere_means_those(folder: Path) -> None:
    made = zarrlift.batch(
        folder / "old",
        to=f"{folder}/v3/{{relative}}.zarr",
        list_file=folder.parent / "lists/x.zarrlift.jsonl",
    )
    now = Path(shutil.move(made.path.parent, folder.parent / "others")) / made.path.name
    assert Batch(now).verify().ok
    assert Batch(now).undo().counts == {"undone": 3}
    assert results(folder / "v3") == {}


@pytest.mark.slow(one_in=2)
@pytest.mark.parametrize("how", [copied, moved])
def test_an_interrupted_batch_that_was_copied_or_moved_goes_on(
    how: Callable[[Path], Path], folder: Path
) -> None:
    with stopping(Run, "__call__"), pytest.raises(zarrlift.Interrupted):
        batch(folder, workers=1)
    assert Batch(folder / "v3.zarrlift.jsonl").status().counts == {"incomplete": 1, "pending": 2}
    other = how(folder)
    before = tree(folder) if how is copied else None
    outcome = Batch(other / "v3.zarrlift.jsonl").resume()
    assert outcome.counts == {"done": 3}
    assert all(values(other / "v3" / f"{name}.zarr", 3)["x"] == [len(name)] * 6 for name in NAMES)
    assert (tree(folder) == before) if how is copied else not folder.exists()
