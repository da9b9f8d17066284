"""What the status says of a job, from its ledger alone."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from dataclasses import replace
from operator import itemgetter
from pathlib import Path

import numpy as np
import pytest
import zarr
from tests.support.job_archives import write_archive
from tests.support.unpacking import unpacked
from tests.support.v2_trees import GROUP, array, tree

import zarrlift
from zarrlift.cli import main
from zarrlift.jobs.ledger.last_run import last_run, level_before
from zarrlift.jobs.ledger.ledger import Job
from zarrlift.jobs.ledger.schema import node_rows, plans_of
from zarrlift.jobs.status import Status
from zarrlift.planning.plans import ArrayPlan
from zarrlift.report import outcome as report_outcome
from zarrlift.transfer.events import Event, TaskDone
from zarrstack.system.this import system


def test_the_status_tells_each_array_and_needs_neither_source_nor_result(tmp_path):
    write_archive(tmp_path / "a.zarr")
    zarrlift.migrate(tmp_path / "a.zarr", tmp_path / "b.zarr")
    stored = {
        name: sum(
            file.stat().st_size for file in (tmp_path / "b.zarr" / name / "c").rglob("*") if file.is_file()
        )
        for name in ("g/relink", "g/recode", "h/rewrite")
    }
    for name in ("a.zarr", "b.zarr"):
        shutil.rmtree(tmp_path / name)
    status = zarrlift.status(tmp_path / "b.zarr")
    assert (status.state, status.arrays_done, status.groups_done, status.checked) == ("done", 4, 3, "sample")
    for row in status.arrays:
        assert row.bytes_after == stored.get(row.path, 0)
    assert status.versions["zarrlift"] == zarrlift.__version__
    assert status.seconds > 0
    json.dumps(status.to_json(), allow_nan=False)


def test_failures_and_refusals_come_first_with_advice(tmp_path):
    write_archive(tmp_path / "a.zarr")
    (tmp_path / "a.zarr/g/recode/3").write_bytes(b"damaged")
    (tmp_path / "a.zarr/empty/.zarray").write_text("{")
    zarrlift.migrate(tmp_path / "a.zarr", tmp_path / "b.zarr")
    status = zarrlift.status(tmp_path / "b.zarr")
    states = {array.path: array.state for array in status.arrays}
    assert states == {"empty": "refused", "g/recode": "failed", "g/relink": "done", "h/rewrite": "done"}
    assert {problem.node for problem in status.refusals} == {"empty", "g/recode"}
    assert status.problems[: len(status.refusals)] == status.refusals
    assert status.totals.bytes_after == sum(a.bytes_after for a in status.arrays if a.state == "done")


@pytest.mark.slow(one_in=2)
@pytest.mark.parametrize("codecs", [None, "zstd:3"])
def test_after_an_update_the_figures_are_those_of_the_whole(codecs, tmp_path, capsys):
    source, destination = tmp_path / "old.zarr", tmp_path / "new.zarr"
    root = zarr.open_group(source, mode="w", zarr_format=2)
    grown, other = (
        root.create_array(name, shape=(20, 50), chunks=(1, 50), dtype="i4", compressors=None)
        for name in ("grown", "other")
    )
    grown[...] = other[...] = np.arange(1000).reshape(20, 50)
    recipe = zarrlift.Recipe(base=zarrlift.ArrayRecipe(codecs=codecs)) if codecs else None
    zarrlift.migrate(source, destination, recipe=recipe)
    assert zarrlift.status(destination).last_update is None
    grown.resize((24, 50))
    grown[18:] = 7
    assert zarrlift.update(destination).arrays_done == 2
    update = zarrlift.status(destination).last_update
    assert (update.arrays, update.objects_done, update.bytes_done) == (1, 6, 6 * 200)
    grown.attrs["unit"] = "m"
    outcome = zarrlift.update(destination)
    assert outcome.arrays_done == 2
    status = zarrlift.status(destination)
    assert outcome.whole == status.totals
    assert (status.last_update.arrays, status.last_update.objects_done) == (1, 0)
    assert [(array.objects_before, array.objects_after, array.bytes_before) for array in status.arrays] == [
        (24, 24, 24 * 200),
        (20, 20, 20 * 200),
    ]
    stored = [file.stat().st_size for file in (destination / "grown/c").rglob("*") if file.is_file()]
    assert (status.arrays[0].objects_after, status.arrays[0].bytes_after) == (len(stored), sum(stored))
    assert main(["status", str(destination)]) == 0
    text = capsys.readouterr().out
    assert "  result    44 -> 44 objects, " in text
    assert "  update    1 array, metadata only\n" in text


@pytest.mark.slow(one_in=2)
@pytest.mark.parametrize("drop_empty", [False, True])
def test_the_objects_of_a_result_are_those_that_are_there_after_an_update_too(drop_empty, tmp_path):
    source, destination = tmp_path / "old.zarr", tmp_path / "new.zarr"
    array = zarr.create_array(source, shape=(40, 6), chunks=(2, 3), dtype="i4", zarr_format=2)
    array[...] = np.arange(240).reshape(40, 6)
    array[:20] = 0  # stored, although it is the fill value
    base = zarrlift.ArrayRecipe(chunks=(4, 3), codecs="zstd:3", drop_empty=drop_empty)
    outcome = zarrlift.migrate(source, destination, recipe=zarrlift.Recipe(base=base))
    for _ in range(2):
        stored = [file.stat().st_size for file in (destination / "c").rglob("*") if file.is_file()]
        totals = zarrlift.status(destination).totals
        assert (totals.objects_after, totals.bytes_after) == (len(stored), sum(stored))
        assert outcome.whole == totals
        array[18:30, :2] = 9
        outcome = zarrlift.update(destination)


def test_the_figures_of_a_source_that_cannot_be_listed_are_what_was_read(tmp_path):
    class Unlisted(zarr.storage.LocalStore):
        supports_listing = False

    array = zarr.create_array(tmp_path / "old.zarr", shape=(40,), chunks=(4,), dtype="i4", zarr_format=2)
    array[:20] = 7
    outcome = zarrlift.migrate(Unlisted(tmp_path / "old.zarr", read_only=True), tmp_path / "new.zarr")
    whole = outcome.whole
    stored = sum(file.stat().st_size for file in (tmp_path / "old.zarr").glob("[0-9]*"))
    assert (whole.objects_before, whole.objects_after) == (5, 5)
    assert (whole.bytes_before, whole.bytes_after) == (stored, stored)


def test_what_a_run_says_is_what_the_status_says_with_the_time_of_all_runs(result, capsys):
    """The first run was killed, the second one goes on."""
    outcome = zarrlift.resume(result)
    assert outcome.runs == 2
    assert outcome.whole == zarrlift.status(result).totals
    assert outcome.seconds < outcome.seconds_in_all
    assert outcome.seconds_in_all == pytest.approx(zarrlift.status(result).seconds, abs=1)
    assert main(["status", str(result)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    said = report_outcome.headline(outcome)
    (amounts,) = re.findall(r"groups; (.+ objects, .+ -> .+) in [^;]+; this run: ", said)
    assert f"result {amounts} time" in shown


def test_the_json_of_the_command_is_the_status(tmp_path, capsys):
    write_archive(tmp_path / "a.zarr")
    (tmp_path / "a.zarr/empty/.zarray").write_text("{")
    zarrlift.migrate(tmp_path / "a.zarr", tmp_path / "b.zarr", overwrite=True)
    assert main(["status", str(tmp_path / "b.zarr"), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)["result"]
    assert document == json.loads(json.dumps(zarrlift.status(tmp_path / "b.zarr").to_json()))
    assert document["requested"] == {"--overwrite": "yes"}
    assert document["totals"]["objects_before"] == sum(
        array["objects_before"] for array in document["arrays"] if array["state"] == "done"
    )
    refused = [problem["node"] for problem in document["problems"] if problem["severity"] == "refusal"]
    assert refused == ["empty"]


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize("level", ["none", "sample", "full"])
def test_a_resumed_job_verifies_at_the_level_of_its_first_run(level, tmp_path):
    write_archive(tmp_path / "a.zarr")
    chunk = tmp_path / "a.zarr/g/recode/3"
    content = chunk.read_bytes()
    chunk.write_bytes(b"damaged")
    assert not zarrlift.migrate(tmp_path / "a.zarr", tmp_path / "b.zarr", verify=level).ok
    chunk.write_bytes(content)
    with Job.open(tmp_path / "b.zarr.zarrlift.db") as job:
        assert level_before(job) == level
    assert zarrlift.resume(tmp_path / "b.zarr").ok
    assert zarrlift.status(tmp_path / "b.zarr").checked == level


# What a job keeps of each node says the same as the node, whatever is shared between them.


def alike(root: Path) -> Path:
    """Arrays that share a layout, attributes, both or neither; a group, and a node that is refused."""
    flat, other = array(), array(shape=[8, 6])
    units, more = {"units": "m"}, {"units": "m", "\u00e4\ud800": [1.0, None]}
    tree(
        root,
        {
            ".zgroup": GROUP,
            ".zattrs": units,
            "bad/.zarray": array(dtype="<x9"),
            **{f"a{n}/.zarray": other if n == 4 else flat for n in range(6)},
            **{f"a{n}/.zattrs": more if n == 3 else units for n in range(1, 5)},
        },
    )
    return root


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize("name", ["zarr_v2/zarr-2.18/dtypes.zarr", "n5/java-3.5.1/multiscale.n5", None])
def test_rows_of_a_job_hold_each_node_and_the_order_of_its_document(name, tmp_path):
    source = alike(tmp_path / "a.zarr") if name is None else unpacked(name)
    nodes = zarrlift.plan(source, tmp_path / "out.zarr").nodes
    assert nodes
    rows = list(node_rows(nodes))
    shared = [common for _, common in rows if common is not None]
    plans = plans_of(shared, ((kind, text) for (_, kind, text, *_), _ in rows))
    for node, made, ((path, kind, _, state, *_), _) in zip(nodes, plans, rows, strict=True):
        assert (path, made.to_json()) == (node.path, json.loads(json.dumps(node.to_json())))
        assert (state == "refused") == (kind == "refusal")
        if isinstance(node, ArrayPlan):
            assert list(made.document.items()) == list(json.loads(json.dumps(node.document)).items())


def test_what_arrays_have_in_common_is_stored_once(tmp_path):
    """Five arrays of one layout, and one of another; attributes belong to each."""
    plan = zarrlift.plan(alike(tmp_path / "a.zarr"), tmp_path / "out.zarr")
    assert len(plan.arrays) == 6
    common = [text for _, text in map(itemgetter(1), filter(itemgetter(1), node_rows(plan.nodes)))]
    assert len(common) == 2
    assert "units" not in "".join(common)


# What `status` says of a job that runs, was stopped, was killed, or runs where it cannot be seen.


KILLED = """
import os, signal, sys
import zarrlift
from zarrlift.transfer.events import TaskDone
def kills(event):
    if isinstance(event, TaskDone):
        os.kill(os.getpid(), signal.SIGKILL)
zarrlift.migrate(*sys.argv[1:], progress=kills)
"""


class Asks:
    """Asks for the status from within the run, when a task has ended and is recorded."""

    def __init__(self, target: Path) -> None:
        self.target = target
        self.told: list[Status] = []

    def __call__(self, event: Event) -> None:
        if isinstance(event, TaskDone):
            self.told.append(zarrlift.status(self.target))


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an archive and with what a killed migration of it has left."""
    folder = tmp_path_factory.mktemp("killed")
    words = [write_archive(folder / "source.zarr"), folder / "out.zarr"]
    done = subprocess.run([sys.executable, "-c", KILLED, *words], check=False, timeout=120)
    assert done.returncode == -signal.SIGKILL
    return folder


@pytest.fixture
def result(killed: Path, tmp_path: Path) -> Path:
    """Where a migration of the archive was killed."""
    shutil.copytree(killed, tmp_path, dirs_exist_ok=True)
    return tmp_path / "out.zarr"


def rewritten(place: Path, **facts: str | None) -> Path:
    """The job file, with other notes about its last run."""
    file = place.with_name(place.name + ".zarrlift.db")
    db = sqlite3.connect(file)
    for name, value in facts.items():
        db.execute("DELETE FROM meta WHERE name = ?", (name,))
        if value is not None:
            db.execute("INSERT INTO meta VALUES (?, ?)", (name, value))
    db.commit()
    db.close()
    return file


@pytest.mark.parametrize("window", [60.0, 0.0])
def test_a_job_that_runs_says_where_and_how_fast(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window: float
) -> None:
    monkeypatch.setattr("zarrlift.jobs.progress._WINDOW", window)
    monkeypatch.setattr("zarrlift.jobs.branch.NoBranch.seconds", 0)
    asks = Asks(tmp_path / "out.zarr")
    assert zarrlift.migrate(source, tmp_path / "out.zarr", workers=1, progress=asks).ok
    first, *_, last = asks.told
    assert (first.activity, first.process, first.host) == ("running", os.getpid(), system.host())
    assert first.began is not None
    assert (first.bytes_done, first.rate, first.seconds_left) == (0, None, None), "nothing is recorded yet"
    assert 0 < last.bytes_done < last.bytes_total
    assert last.rate is not None
    assert last.seconds_left is not None
    assert last.seconds_left > 0
    after = zarrlift.status(tmp_path / "out.zarr")
    assert (after.state, after.activity, after.rate) == ("done", None, None)
    assert after.bytes_done == after.bytes_total


def test_a_run_that_was_killed_is_stale(result: Path) -> None:
    status = zarrlift.status(result)
    assert (status.state, status.activity) == ("incomplete", "stale")
    assert zarrlift.resume(result).ok
    assert zarrlift.status(result).activity is None


@pytest.mark.slow
def test_a_run_on_another_host_is_known_by_its_lock_alone(result: Path) -> None:
    with Job.open(result.with_name("out.zarr.zarrlift.db"), write=False) as job:
        run = last_run(job)
    assert run is not None
    file = rewritten(result, run=replace(run, owner=replace(run.owner, host="elsewhere")).to_text())
    status = zarrlift.status(result)
    assert (status.activity, status.host) == ("unknown", "elsewhere")
    with file.open("r+b") as held:
        system.lock_beside_sqlite(held.fileno())
        assert zarrlift.status(result).activity == "running"


@pytest.mark.parametrize("run", [None, "{}", '{"owner": {}}', "no JSON"])
@pytest.mark.slow(one_in=3)
def test_a_job_whose_runs_are_not_known_is_stopped_unless_it_is_locked(run: str | None, result: Path) -> None:
    file = rewritten(result, run=run)
    assert zarrlift.status(result).activity == "stopped"
    with Job.open(file):
        assert zarrlift.status(result).activity == "running"
