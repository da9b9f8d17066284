"""What a list of archives may be, and that every mistake in it is named before anything is changed."""

from __future__ import annotations

import itertools
import json
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

import zarrlift
from zarrlift.cli import main
from zarrlift.errors import UsageError
from zarrlift.jobs.batch.list_file import ListFile
from zarrlift.jobs.claim import ClaimHolder
from zarrlift.jobs.ledger.ledger import Job
from zarrlift.storage.local.owner_process import OwnerProcess

ROWS = [
    {"source": "old/a/v2.zarr", "destination": "new/one.zarr", "codecs": "zstd:3", "chunks": "3,4"},
    {"source": "old/b/*.n5", "destination": "new/{name}.zarr", "axes": "kept", "verify": "full"},
    {"source": "old/zip.zarr.zip", "recipe": "recipe.toml", "overwrite": True},
]
CSV = """source,destination,codecs,chunks,axes,verify,recipe,overwrite
old/a/v2.zarr,new/one.zarr,zstd:3,"3,4",,,,
old/b/*.n5,new/{name}.zarr,,,kept,full,,
old/zip.zarr.zip,,,,,,recipe.toml,true
"""
TOML = """
[[archive]]
source = "old/a/v2.zarr"
destination = "new/one.zarr"
codecs = "zstd:3"
chunks = "3,4"

[[archive]]
source = "old/b/*.n5"
destination = "new/{name}.zarr"
axes = "kept"
verify = "full"

[[archive]]
source = "old/zip.zarr.zip"
recipe = "recipe.toml"
overwrite = true
"""
MANIFESTS = {
    "list.csv": CSV,
    "list.jsonl": "\n".join(map(json.dumps, ROWS)),
    "list.toml": TOML,
}


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_manifest_gives_each_archive_its_options(old: Path, name: str) -> None:
    Path("recipe.toml").write_text('codecs = "gzip:6"\n')
    Path(name).write_text(MANIFESTS[name])
    made = zarrlift.batch(name, to="new/{number}-{name}")
    assert [Path(row.destination).name for row in made.rows] == ["one.zarr", "n5.zarr", "3-zip"]
    assert made.outcome.state == "done"
    assert made.path == Path("list.zarrlift.jsonl").absolute()
    with Job.open(Path(made.rows[0].job), write=False) as job:
        recipe = job.plan().recipe
    assert recipe.base == zarrlift.ArrayRecipe(codecs="zstd:3", chunks="3,4")
    assert made.rows[2].state == "done"


@dataclass(frozen=True)
class Bad:
    """A manifest with mistakes, and what is said of each."""

    csv: str
    said: tuple[str, ...]

    def __str__(self) -> str:
        return self.said[0]


BAD = [
    Bad("source,destination,colour\nold/a/v2.zarr,n,red", ("row 1: colour: unknown column",)),
    Bad(
        "source,destination,codec\nold/a/v2.zarr,n.zarr,zstd",
        ("row 1: codec: unknown column; did you mean 'codecs'",),
    ),
    Bad(
        "source,destination,storage_options\nold/a/v2.zarr,n,hunter2",
        ("row 1: storage_options: a batch does not",),
    ),
    Bad("source,destination\nold/a/v2.zarr,n.zarr,more", ("row 1: more values than columns",)),
    Bad("source,destination\n,n.zarr", ("row 1: a source is needed",)),
    Bad("source\nold/a/v2.zarr", ("row 1: a destination is needed",)),
    Bad(
        "source,destination,verify\nold/a/v2.zarr,n.zarr,much",
        ("row 1: verify: 'much'; expected none, sample, full",),
    ),
    Bad(
        "source,destination,overwrite\nold/a/v2.zarr,n.zarr,perhaps",
        ("row 1: overwrite: 'perhaps'; expected true",),
    ),
    Bad(
        "source,destination,chunks\nold/a/v2.zarr,n.zarr,many", ("row 1: the recipe has a problem: chunks:",)
    ),
    Bad("source,destination,recipe\nold/a/v2.zarr,n.zarr,none.toml", ("row 1: cannot read the recipe",)),
    Bad(
        "source,destination\nold/a/v2.zarr,n.zarr\nold/a/v1.zarr,n.zarr",
        ("n.zarr is the destination of row 1 too",),
    ),
    Bad(
        "source,destination\nold/a/v2.zarr,old/a/v1.zarr/x\nold/a/v1.zarr,n",
        ("row 1: the destination", "inside"),
    ),
    Bad("source,destination\nold/a/v2.zarr,old/a/v1.zarr\nold/a/v1.zarr,n", ("is the source of row 2",)),
    Bad(
        "source,destination\nold/a/v2.zarr,n\nold/a/v1.zarr,n/m",
        ("row 2: the destination", "inside that of row 1"),
    ),
    Bad("source,destination\nold/a/v2.zarr,old", ("row 1: the source", "inside", "which is a destination")),
    Bad("source,destination\nold/a/*.zarr,n/same.zarr", ("is the destination of row 1",)),
    Bad(
        "source,destination\nold/a/v2.zarr,n/{nam}.zarr", ("row 1: the template has an unknown field {nam}",)
    ),
    Bad(
        "source,destination\ns3://u:hunter2@b/x.zarr,n.zarr",
        ("row 1: a batch does not store users, passwords",),
    ),
    Bad(
        "source,destination,colour\nold/a/v2.zarr,n,red\n,m,", ("row 1: colour", "row 2: a source is needed")
    ),
    Bad("source,destination\n", ("the manifest has no rows",)),
]


@pytest.mark.parametrize("bad", BAD, ids=str)
def test_mistakes_are_named_together_and_nothing_is_changed(old: Path, bad: Bad) -> None:
    Path("list.csv").write_text(bad.csv)
    before = sorted(path for path in Path().rglob("*"))
    with pytest.raises(UsageError) as raised:
        zarrlift.batch("list.csv")
    assert all(text in str(raised.value) for text in bad.said), raised.value
    assert "hunter2" not in str(raised.value)
    assert sorted(path for path in Path().rglob("*")) == before


def test_a_source_that_does_not_exist_does_not_stop_the_others(old: Path) -> None:
    Path("list.csv").write_text("source,destination\nold/gone.zarr,g.zarr\nold/a/v1.zarr,n.zarr\n")
    made = zarrlift.batch("list.csv")
    assert [row.state for row in made.rows] == ["refused", "done"]
    assert "gone.zarr" in str(made.rows[0].problems[0])


def test_names_that_are_equal_without_their_suffix_are_named(old: Path) -> None:
    os.rename(old / "a/v1.zarr", old / "a/v2.n5")
    with pytest.raises(UsageError, match="is the destination of"):
        zarrlift.batch("old/a", to="v3/{relative}.zarr")


def test_an_archive_with_a_row_of_its_own_is_not_converted_twice(old: Path) -> None:
    Path("list.csv").write_text("source,codecs\nold/a,\nold/a/v2.zarr,gzip:3\n")
    made = zarrlift.batch("list.csv", to="v3/{name}.zarr", run=False)
    assert sorted(Path(row.source).name for row in made.rows) == ["v1.zarr", "v2.zarr"]


def test_a_place_without_archives_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there are no archives"):
        zarrlift.batch(str(tmp_path), to="v3/{relative}.zarr")


@pytest.mark.parametrize(
    ("to", "path"),
    [
        ("v3/{relative}.zarr", "v3"),
        ("batch/{relative}.zarr", "batch"),
        ("{relative}-v3.zarr", "batch"),
        ("new/v3-{name}.zarr", "new"),
    ],
)
def test_the_list_is_next_to_the_results(to: str, path: str, old: Path) -> None:
    made = zarrlift.batch("old/a", to=to, run=False)
    assert made.path == Path(f"{path}.zarrlift.jsonl").absolute()


@pytest.mark.parametrize(
    "place",
    [
        "/f/v3/a.zarr",
        "file:///f/v3/a%20b.zarr",
        "zip::/f/a.zarr.zip",
        "zip::file:///f/a.zarr.zip",
        "icechunk:///f/repository",
        "/g/a.zarr",
        "file:///g/a.zarr",
        "s3://bucket/f/a.zarr",
    ],
)
def test_places_in_the_folder_of_a_list_are_relative_to_it(place: str) -> None:
    here, there = (ListFile(Path(folder) / "l.zarrlift.jsonl") for folder in ("/f", "/h"))
    assert here._placed(here.stored(place)) == place
    assert there._placed(here.stored(place)) == place.replace("/f/", "/h/").replace("bucket/h", "bucket/f")


# Processes that run one list take archives that no other one has claimed, and leave the others to them.


TO = "v3/{relative}.zarr"
HERE = OwnerProcess.of_this_process()
RUNNING = replace(HERE, pid=1, started=Path("/proc/1/stat").read_text().rpartition(")")[2].split()[19])
ELSEWHERE = replace(HERE, host="node7", machine="another", pid=4711)


def hold(destination: str, owner: OwnerProcess) -> None:
    """Claim a destination for another process."""
    path = Path(destination)
    path.parent.mkdir(parents=True, exist_ok=True)
    holder = ClaimHolder(token="1", job="0" * 8, file=f"{path}.zarrlift.db", owner=owner, since=0.0)
    path.with_name(f"{path.name}.zarrlift.claim").write_bytes(holder.to_bytes())


@pytest.fixture
def planned(old: Path) -> zarrlift.Batch:
    """Two archives."""
    return zarrlift.batch("old/a", to=TO, run=False)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_an_archive_that_another_process_has_claimed_is_left_to_it(
    planned: zarrlift.Batch, capsys: pytest.CaptureFixture[str]
) -> None:
    hold(planned.rows[0].destination, RUNNING)
    outcome = planned.run()
    assert outcome.counts == {"done": 1, "pending": 1}
    assert [row.running for row in outcome.rows] == [True, False]
    assert (outcome.ran, outcome.left, outcome.state, outcome.ok) == (1, 1, "incomplete", True)
    assert not planned.status().ok
    assert main(["batch", "run", str(planned.path)]) == 0
    assert "left to other processes, which have claimed them: 1 archive" in capsys.readouterr().out
    assert main(["status", "v3", "--check"]) == 1


def test_a_claim_of_another_machine_is_a_failure_unless_a_scheduler_reports_the_dead(
    planned: zarrlift.Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold(planned.rows[0].destination, ELSEWHERE)
    outcome = planned.run()
    assert outcome.counts == {"done": 1, "failed": 1}
    assert "--take-over" in str(outcome.rows[0].problems[0])
    monkeypatch.setenv("LSB_JOBID", "17")
    outcome = planned.run()
    assert outcome.ok
    assert (outcome.ran, outcome.rows[0].running) == (0, True)
    assert planned.run(take_over=True).state == "done"


def test_an_archive_that_another_process_has_done_meanwhile_is_not_done_again(
    planned: zarrlift.Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    from zarrlift.jobs.batch import run_batch

    once = run_batch.BatchRun._archive

    def late(self: run_batch.BatchRun, row: zarrlift.BatchRow, options: run_batch.RunOptions):
        if row.number == 1:
            assert zarrlift.migrate(row.source, row.destination).state == "done"
        return once(self, row, options)

    monkeypatch.setattr(run_batch.BatchRun, "_archive", late)
    outcome = planned.run(workers=1)
    assert (outcome.ran, outcome.state) == (1, "done")


def test_an_archive_whose_job_another_process_has_open_is_left_to_it(
    planned: zarrlift.Batch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A process gives its claim back first, and closes the job next."""
    row = planned.rows[0]
    zarrlift.migrate(row.source, row.destination)
    with Job.open(Path(row.job)) as job:
        job.note(state="incomplete")
    with Job.open(Path(row.job)):
        assert main(["batch", "run", str(planned.path)]) == 0
    told = capsys.readouterr()
    assert "left to other processes, which have claimed them: 1 archive" in told.out
    assert "another process" not in told.out + told.err
    assert planned.run().state == "done"


@pytest.mark.parametrize("look", range(3))  # then it has the claim
def test_a_job_that_another_process_removes_to_begin_again_is_no_failure(
    planned: zarrlift.Batch, monkeypatch: pytest.MonkeyPatch, look: int
) -> None:
    planned.run()
    planned.undo()
    path = Path(planned.rows[0].job)
    open_job, looks = Job.open, itertools.count()

    def removed(asked: Path, **how: bool) -> Job:
        if asked == path and next(looks) == look:
            path.unlink()
        return open_job(asked, **how)

    monkeypatch.setattr(Job, "open", removed)
    outcome = planned.run()
    assert not [problem for row in outcome.rows for problem in row.problems]
    assert planned.run().counts == {"done": 2}
    assert next(looks) > look
