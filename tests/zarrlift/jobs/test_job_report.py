"""What a report says of a job, from its ledger alone."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing

import pytest
from tests.support.job_archives import write_archive

import zarrlift
from zarrlift.cli import main
from zarrlift.jobs.ledger.last_run import level_before
from zarrlift.jobs.ledger.ledger import Job
from zarrlift.jobs.ledger.throughput import Throughput, throughput
from zarrlift.transfer.counts import MoveResult


def test_a_report_tells_each_array_and_needs_neither_source_nor_result(tmp_path):
    write_archive(tmp_path / "a.zarr")
    zarrlift.migrate(tmp_path / "a.zarr", tmp_path / "b.zarr", digest=True)
    stored = {
        name: sum(
            file.stat().st_size for file in (tmp_path / "b.zarr" / name / "c").rglob("*") if file.is_file()
        )
        for name in ("g/relink", "g/recode", "h/rewrite")
    }
    digests = zarrlift.digest(tmp_path / "b.zarr").arrays
    for name in ("a.zarr", "b.zarr"):
        shutil.rmtree(tmp_path / name)
    report = zarrlift.job_report(tmp_path / "b.zarr")
    assert (report.state, report.arrays_done, report.groups_done, report.checked) == ("done", 4, 3, "sample")
    for array in report.arrays:
        assert array.bytes_after == stored.get(array.path, 0)
        assert array.digest == digests[array.path].text
    assert report.throughput[-1].bytes_in == report.total("bytes_read")
    assert report.versions["zarrlift"] == zarrlift.__version__
    assert report.seconds > 0
    json.dumps(report.to_json(), allow_nan=False)


def test_failures_and_refusals_come_first_with_advice(tmp_path):
    write_archive(tmp_path / "a.zarr")
    (tmp_path / "a.zarr/g/recode/3").write_bytes(b"damaged")
    (tmp_path / "a.zarr/empty/.zarray").write_text("{")
    zarrlift.migrate(tmp_path / "a.zarr", tmp_path / "b.zarr")
    report = zarrlift.job_report(tmp_path / "b.zarr")
    states = {array.path: array.state for array in report.arrays}
    assert states == {"empty": "refused", "g/recode": "failed", "g/relink": "done", "h/rewrite": "done"}
    assert {problem.node for problem in report.refusals} == {"empty", "g/recode"}
    assert report.problems[: len(report.refusals)] == report.refusals
    assert report.total("bytes_after") == sum(a.bytes_after for a in report.arrays if a.state == "done")


def test_the_json_of_status_loses_nothing_of_the_report(tmp_path, capsys):
    write_archive(tmp_path / "a.zarr")
    (tmp_path / "a.zarr/empty/.zarray").write_text("{")
    zarrlift.migrate(tmp_path / "a.zarr", tmp_path / "b.zarr", digest=True)
    assert main(["status", str(tmp_path / "b.zarr"), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)["result"]
    report = json.loads(json.dumps(zarrlift.job_report(tmp_path / "b.zarr").to_json()))
    assert {name: document[name] for name in report} == report
    assert document["requested"] == {"--digest": "yes"}
    refused = [problem["node"] for problem in document["problems"] if problem["severity"] == "refusal"]
    assert refused == ["empty"]
    assert document.keys() - report.keys() >= {"options", "nodes", "rate"}


def test_a_job_of_a_version_without_these_records_has_a_report(tmp_path):
    write_archive(tmp_path / "a.zarr")
    zarrlift.migrate(tmp_path / "a.zarr", tmp_path / "b.zarr")
    new = ("run", "checked", "throughput")
    with closing(sqlite3.connect(tmp_path / "b.zarr.zarrlift.db", isolation_level=None)) as db:
        db.executemany("DELETE FROM meta WHERE name = ?", [(name,) for name in new])
    report = zarrlift.job_report(tmp_path / "b.zarr")
    assert (report.checked, report.versions, report.throughput) == (None, {}, ())
    assert report.arrays_done == 4


def test_the_time_line_goes_on_without_a_gap_and_is_bounded(tmp_path):
    write_archive(tmp_path / "a.zarr")
    zarrlift.migrate(tmp_path / "a.zarr", tmp_path / "b.zarr")
    with Job.open(tmp_path / "b.zarr.zarrlift.db") as job:
        job.note(throughput=None)
        now = 1000.0
        line = Throughput(job, clock=lambda: now)
        for second in range(1, 1001):
            now += 1
            line.note(MoveResult(bytes_in=10 * second, bytes_out=5 * second), last=second == 1000)
        points = throughput(job)
        assert len(points) <= 201
        assert points[-1] == (1000.0, 10_000, 5_000)
        assert list(points) == sorted(points)
        now += 1_000_000  # until it is resumed
        line = Throughput(job, clock=lambda: now)
        now += 5
        line.note(MoveResult(bytes_in=1, bytes_out=1), last=True)
        assert throughput(job)[-1] == (1005.0, 10_001, 5_001)


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
    assert zarrlift.job_report(tmp_path / "b.zarr").checked == level
