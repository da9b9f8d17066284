"""What a run writes for those who watch it: the log of events, and a page that is refreshed."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from numcodecs import Zlib
from tests.support.bucket import serving as serving_bucket
from tests.support.job_archives import tree, write_archive

import zarrlift
from zarrlift.cli import main
from zarrlift.cli.status_command import with_page
from zarrlift.errors import UsageError
from zarrlift.jobs import log_messages
from zarrlift.jobs.progress_display import observed
from zarrlift.recipe.options import Watching


def events(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_run_is_observed(source: Path, tmp_path: Path) -> None:
    log = tmp_path / "run.jsonl"
    outcome = zarrlift.migrate(source, tmp_path / "out.zarr", log=log)
    told = events(log)
    assert [line["event"] for line in told] == ["start", "plan", *["array"] * outcome.arrays_done, "end"]
    assert {line["node"] for line in told if line["event"] == "array"} == {
        array.path for array in zarrlift.plan(source).arrays
    }
    assert all(line["time"].endswith("Z") and line["process"] == os.getpid() for line in told)
    assert {path.name for path in tmp_path.iterdir() if path.name.startswith("run.")} == {"run.jsonl"}


def test_failures_are_told_with_their_problems(source: Path, tmp_path: Path) -> None:
    next(source.glob("**/0.0")).write_bytes(b"")
    log = tmp_path / "run.jsonl"
    assert not zarrlift.migrate(source, tmp_path / "out.zarr", log=log).ok
    failed = [line for line in events(log) if line["event"] == "failure"]
    assert failed
    assert all(line["problem"]["node"] == line["node"] for line in failed)
    assert zarrlift.resume(tmp_path / "out.zarr", log=log).state == "incomplete"
    assert [line["event"] for line in events(log)].count("start") == 2, "appended"


def test_an_error_that_ends_a_run_is_in_the_log(source: Path, tmp_path: Path) -> None:
    log = tmp_path / "run.jsonl"
    (tmp_path / "out.zarr").mkdir()
    (tmp_path / "out.zarr" / "file").touch()
    with pytest.raises(UsageError):
        zarrlift.migrate(source, tmp_path / "out.zarr", log=log)
    last = events(log)[-1]
    assert (last["event"], last["level"], last["problem"]["kind"]) == ("error", "error", "usage")


def test_repeated_requests_are_counted(tmp_path: Path) -> None:
    archive = tree(write_archive(tmp_path / "source.zarr"))
    with serving_bucket() as bucket:
        bucket.put("in", archive)
        refused = {f"/bucket/in/{key}": 503 for key in archive if key.endswith("/0.0")}
        expected = len(refused)
        bucket.instead = lambda request: refused.pop(request.path, None)
        log = tmp_path / "run.jsonl"
        place = f"http://127.0.0.1:{bucket.port}/bucket/in"  # its client repeats nothing itself
        outcome = zarrlift.migrate(place, tmp_path / "out.zarr", log=log)
    assert outcome.ok
    assert not refused
    assert outcome.retries == expected > 0
    told = [line for line in events(log) if line["event"] == "retry"]
    assert outcome.retries == len(told)
    assert zarrlift.status(tmp_path / "out.zarr").retries == outcome.retries


HOSTILE = 'a "quoted"\\ name\nwith # lines\x1b[31m and \udcff'


def test_hostile_names_are_text(tmp_path: Path) -> None:
    log = tmp_path / "run.jsonl"
    with observed(None, "x", HOSTILE, Watching(log=log)):
        log_messages.array_done(HOSTILE)
    assert [line.get("node") for line in events(log)] == [None, HOSTILE]
    assert log.read_bytes().isascii()


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
from zarrlift.jobs.progress_display import observed
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


def test_a_log_that_cannot_be_written_is_refused_before_anything_is_done(
    source: Path, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="cannot be written"):
        zarrlift.migrate(source, tmp_path / "out.zarr", log=tmp_path / "nowhere" / "file")
    assert not (tmp_path / "out.zarr").exists()


def test_a_file_that_becomes_unwritable_fails_nothing(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "watched"
    folder.mkdir()
    with observed(None, "in", "out", Watching(log=folder / "log")):
        folder.rename(tmp_path / "moved")

        def full(*_: object) -> int:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("zarrlift.jobs.log_messages.os.write", full)
        log_messages.array_done("a")
        log_messages.array_done("b")
    told = capsys.readouterr().err
    assert told.count("cannot write the log") == 1


def test_levels_of_loggers_are_restored(tmp_path: Path) -> None:
    before = log_messages.log.level, log_messages.progress_log.level, list(log_messages.log.handlers)
    with observed(None, "in", "out", Watching(log=tmp_path / "log")):
        assert log_messages.log.isEnabledFor(logging.INFO)
    assert before == (
        log_messages.log.level,
        log_messages.progress_log.level,
        list(log_messages.log.handlers),
    )


def archive(folder: Path, *, damaged: bool = False) -> str:
    array = zarr.create_array(
        folder, shape=(20,), chunks=(2,), dtype="<i4", zarr_format=2, compressors=Zlib(level=1)
    )
    array[:] = np.arange(20)
    if damaged:
        (folder / "7").write_bytes(b"not zlib")
    return str(folder)


def test_a_page_is_refreshed_while_it_is_watched(tmp_path, capsys):
    clock = iter([0.0, 0.0, 5.0, 20.0, 20.0, 30.0])
    pages: list[int] = []
    numbers = iter(range(4))
    ask = with_page(lambda: next(numbers), pages.append, clock=lambda: next(clock))
    assert [ask() for _ in range(4)] == [0, 1, 2, 3]
    assert pages == [0, 2]
    old, new, page = archive(tmp_path / "old"), str(tmp_path / "new"), tmp_path / "page.html"
    assert main(["migrate", old, new, "-q"]) == 0
    assert main(["status", new, "--watch", "--html", str(page)]) == 0
    assert "new" in page.read_text()
