"""The log of events and the file of metrics: what they say, for programs that others have written."""

from __future__ import annotations

import json
import logging
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.support.bucket import serving
from tests.support.job_archives import tree, write_archive

import zarrlift
from zarrlift.jobs import log_messages
from zarrlift.jobs.metrics_file import MetricsFile
from zarrlift.jobs.observed import observed
from zarrlift.recipe.options import Watching
from zarrlift.transfer.events import ArrayDone, Ended, Planned, TaskDone, Waiting
from zarrstack.core.errors import Problem, UsageError


def events(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def figures(path: Path) -> dict[tuple[str, ...], float]:
    """Name and labels, without the destination's, -> value; as Prometheus' own client reads the file."""
    found: dict[tuple[str, ...], float] = {}
    for family in text_string_to_metric_families(path.read_text()):
        assert family.name.startswith("zarrlift_")
        assert family.documentation
        for sample in family.samples:
            labels = [value for name, value in sorted(sample.labels.items()) if name != "destination"]
            found[(sample.name.removeprefix("zarrlift_"), *labels)] = sample.value
    return found


def test_a_run_is_observed(source: Path, tmp_path: Path) -> None:
    log, metrics = tmp_path / "run.jsonl", tmp_path / "run.prom"
    outcome = zarrlift.migrate(source, tmp_path / "out.zarr", log=log, metrics=metrics)
    told = events(log)
    assert [line["event"] for line in told] == ["start", "plan", *["array"] * outcome.arrays_done, "end"]
    assert {line["node"] for line in told if line["event"] == "array"} == {
        array.path for array in zarrlift.plan(source).arrays
    }
    assert all(line["time"].endswith("Z") and line["process"] == os.getpid() for line in told)
    found = figures(metrics)
    assert (found["running",], found["success",]) == (0, 1)
    for name, total in {
        "chunks_total": outcome.chunks,
        "read_bytes_total": outcome.bytes_in,
        "written_bytes_total": outcome.bytes_out,
    }.items():
        assert sum(value for key, value in found.items() if key[0] == name) == total
    assert found["arrays", "done"] == found["arrays", "planned"] == outcome.arrays_done
    assert found["planned_bytes",] == outcome.bytes_in
    assert stat.S_IMODE(metrics.stat().st_mode) == 0o644
    assert {path.name for path in tmp_path.iterdir() if path.name.startswith("run.")} == {
        "run.jsonl",
        "run.prom",
    }


def test_failures_are_told_with_their_problems(source: Path, tmp_path: Path) -> None:
    next(source.glob("**/0.0")).write_bytes(b"")
    log, metrics = tmp_path / "run.jsonl", tmp_path / "run.prom"
    assert not zarrlift.migrate(source, tmp_path / "out.zarr", log=log, metrics=metrics).ok
    failed = [line for line in events(log) if line["event"] == "failure"]
    assert failed
    assert all(line["problem"]["node"] == line["node"] for line in failed)
    found = figures(metrics)
    assert (found["success",], found["arrays", "failed"]) == (0, 1)
    assert sum(value for key, value in found.items() if key[0] == "failures_total") >= 1
    assert zarrlift.resume(tmp_path / "out.zarr", log=log).state == "incomplete"
    assert [line["event"] for line in events(log)].count("start") == 2, "appended"


def test_an_error_that_ends_a_run_is_in_both(source: Path, tmp_path: Path) -> None:
    log, metrics = tmp_path / "run.jsonl", tmp_path / "run.prom"
    (tmp_path / "out.zarr").mkdir()
    (tmp_path / "out.zarr" / "file").touch()
    with pytest.raises(UsageError):
        zarrlift.migrate(source, tmp_path / "out.zarr", log=log, metrics=metrics)
    last = events(log)[-1]
    assert (last["event"], last["level"], last["problem"]["kind"]) == ("error", "error", "usage")
    assert (figures(metrics)["running",], figures(metrics)["success",]) == (0, 0)


def test_repeated_requests_are_counted(tmp_path: Path) -> None:
    archive = tree(write_archive(tmp_path / "source.zarr"))
    with serving() as bucket:
        bucket.put("in", archive)
        refused = {f"/bucket/in/{key}": 503 for key in archive if key.endswith("/0.0")}
        expected = len(refused)
        bucket.instead = lambda request: refused.pop(request.path, None)
        log, metrics = tmp_path / "run.jsonl", tmp_path / "run.prom"
        place = f"http://127.0.0.1:{bucket.port}/bucket/in"  # its client repeats nothing itself
        outcome = zarrlift.migrate(place, tmp_path / "out.zarr", log=log, metrics=metrics)
    assert outcome.ok
    assert not refused
    assert outcome.retries == expected > 0
    told = [line for line in events(log) if line["event"] == "retry"]
    assert outcome.retries == len(told) == figures(metrics)["retries_total",]
    assert zarrlift.status(tmp_path / "out.zarr").retries == outcome.retries


HOSTILE = 'a "quoted"\\ name\nwith # lines\x1b[31m and \udcff'


def test_hostile_names_are_text(tmp_path: Path) -> None:
    path = tmp_path / "run.prom"
    metrics = MetricsFile(path, None, name=HOSTILE)
    metrics(ArrayDone(path="a", problems=(Problem(kind=HOSTILE, message="x"),)))
    metrics.end(ok=False)
    text = path.read_text()
    assert figures(path)["failures_total", HOSTILE.replace("\udcff", "\\udcff")] == 1
    names = {
        sample.labels["destination"]
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert names == {HOSTILE.replace("\udcff", "\\udcff")}
    log = tmp_path / "run.jsonl"
    with observed(None, "x", HOSTILE, Watching(log=log)):
        log_messages.array_done(HOSTILE)
    assert [line.get("node") for line in events(log)] == [None, HOSTILE]
    assert log.read_bytes().isascii()


def test_figures_are_written_at_intervals_and_for_several_runs(tmp_path: Path) -> None:
    now, path = [1000.0], tmp_path / "run.prom"
    metrics = MetricsFile(path, None, name="all", clock=lambda: now[0])
    for _ in range(2):  # runs that share it
        metrics(Planned(bytes=1000, chunks=10, arrays=1))
    metrics(TaskDone(route="relink", chunks=5, bytes_in=500, bytes_out=400, retries=2))
    assert "zarrlift_chunks_total" not in path.read_text(), "not yet"
    now[0] += 20
    metrics(Waiting(bytes=100, seconds_left=70.5))
    found = figures(path)
    assert found["read_bytes_total", "relink"] == 500
    assert found["planned_bytes",] == 2000
    assert found["read_bytes_per_second",] == 30
    assert found["time_left_seconds",] == 70.5
    assert found["retries_total",] == 2
    assert found["running",] == 1
    for state in ("done", "refused", "done", "done"):
        metrics(Ended(archive=state))
    metrics.end(ok=True)
    assert figures(path)["archives", "refused"] == 1


def test_records_tell_their_archive(tmp_path: Path) -> None:
    log = tmp_path / "run.jsonl"
    with observed(None, "many", "out", Watching(log=log)):
        token = log_messages.archive.set("a/b.zarr")
        log_messages.array_done("node")
        log_messages.archive.reset(token)
        log_messages.array_done("node")
    assert [line.get("archive") for line in events(log)] == [None, "a/b.zarr", None]


WRITES = """
import sys
from zarrlift.jobs import log_messages
from zarrlift.recipe.options import Watching
from zarrlift.jobs.observed import observed
with observed(None, "in", sys.argv[2], Watching(log=sys.argv[1])):
    for number in range(500):
        log_messages.array_done(f"{sys.argv[2]}/{number}" + "x" * 2000)
"""


@pytest.mark.slow
def test_processes_may_share_a_log(tmp_path: Path) -> None:
    log = tmp_path / "run.jsonl"
    running = [subprocess.Popen([sys.executable, "-c", WRITES, log, name]) for name in "abc"]
    assert [process.wait(timeout=120) for process in running] == [0, 0, 0]
    nodes = [line["node"] for line in events(log) if line["event"] == "array"]
    for name in "abc":
        own = [node for node in nodes if node.startswith(name)]
        assert own == [f"{name}/{number}" + "x" * 2000 for number in range(500)]


@pytest.mark.parametrize("option", ["log", "metrics"])
def test_a_file_that_cannot_be_written_is_told_before_anything_is_done(
    option: str, source: Path, tmp_path: Path
) -> None:
    given: Any = {option: tmp_path / "nowhere" / "file"}
    with pytest.raises(UsageError, match="cannot be written"):
        zarrlift.migrate(source, tmp_path / "out.zarr", **given)
    assert not (tmp_path / "out.zarr").exists()


def test_a_file_that_becomes_unwritable_fails_nothing(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "watched"
    folder.mkdir()
    with observed(None, "in", "out", Watching(log=folder / "log", metrics=folder / "figures")) as run:
        (folder / "figures").unlink()
        folder.rename(tmp_path / "moved")

        def full(*_: object) -> int:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("zarrlift.jobs.log_messages.os.write", full)
        log_messages.array_done("a")
        log_messages.array_done("b")
        assert run.progress is not None
    told = capsys.readouterr().err
    assert told.count("cannot write the log") == told.count("cannot write the metrics") == 1


def test_levels_of_loggers_are_restored(tmp_path: Path) -> None:
    before = log_messages.log.level, log_messages.progress_log.level, list(log_messages.log.handlers)
    with observed(None, "in", "out", Watching(log=tmp_path / "log")):
        assert log_messages.log.isEnabledFor(logging.INFO)
    assert before == (
        log_messages.log.level,
        log_messages.progress_log.level,
        list(log_messages.log.handlers),
    )
