"""What other programs are told: the log of events, the file of metrics, and the notice when a run ends."""

from __future__ import annotations

import json
import logging
import os
import shlex
import stat
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from numcodecs import Zlib
from prometheus_client.parser import text_string_to_metric_families
from tests.support.bucket import serving as serving_bucket
from tests.support.job_archives import tree, write_archive
from tests.support.web_servers import serving

import zarrlift
from zarrlift.cli import main
from zarrlift.cli.status_command import with_page
from zarrlift.errors import UsageError
from zarrlift.jobs import log_messages, notify
from zarrlift.jobs.metrics_file import MetricsFile
from zarrlift.jobs.observed import observed
from zarrlift.recipe.options import Watching
from zarrlift.storage.redact import secrets_of
from zarrlift.transfer.events import ArrayDone, Ended, Planned, TaskDone, Waiting
from zarrstack.core.errors import Problem


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
    with serving_bucket() as bucket:
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


# What is told when a run ends: the document of `--json`, without secrets, at no cost for the run.

SECRET = "T0KEN-in-a-path"


class Hook(BaseHTTPRequestHandler):
    """Keeps what it gets, and answers with a status."""

    got: list[tuple[dict[str, str], object]]
    status = 204
    released: threading.Event | None = None

    def log_message(self, *_):
        """Say nothing."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.got.append((dict(self.headers), json.loads(body)))
        if self.released is not None:
            self.released.wait()
        self.send_response(self.status)
        self.send_header("Location", f"/elsewhere/{SECRET}")
        self.end_headers()


@pytest.fixture
def hook():
    """A class of handlers of its own, and its URL."""

    class Own(Hook):
        got = []

    with serving(Own) as url:
        yield Own, f"{url}/{SECRET}?also={SECRET}"


def archive(folder: Path, *, damaged: bool = False) -> str:
    array = zarr.create_array(
        folder, shape=(20,), chunks=(2,), dtype="<i4", zarr_format=2, compressors=Zlib(level=1)
    )
    array[:] = np.arange(20)
    if damaged:
        (folder / "7").write_bytes(b"not zlib")
    return str(folder)


def printed(capsys) -> dict:
    out, err = capsys.readouterr()
    assert "notification" not in err
    return json.loads(out)


@pytest.mark.parametrize("damaged", [False, True], ids=["done", "failed"])
def test_a_webhook_gets_what_json_prints(damaged, hook, tmp_path, capsys):
    own, url = hook
    old, new = archive(tmp_path / "old", damaged=damaged), str(tmp_path / "new")
    words = ["migrate", old, new, "--codecs", "zstd:1", "--json", "--notify", url]
    assert main(words) == int(damaged)
    [(headers, told)] = own.got
    assert told == printed(capsys)
    assert told["result"]["state"] == ("incomplete" if damaged else "done")
    assert headers["Content-Type"] == "application/json"
    assert main(["resume", new, "--json", "--notify", url]) == int(damaged)
    assert own.got[1][1] == printed(capsys)


def test_an_error_is_told(hook, tmp_path, capsys):
    own, url = hook
    old, new = archive(tmp_path / "old"), archive(tmp_path / "new")
    assert main(["migrate", old, new, "--json", "--notify", url]) == 2
    assert own.got[0][1] == printed(capsys)
    assert own.got[0][1]["error"]["kind"] == "usage"


def test_the_end_of_a_list_is_told(hook, tmp_path, capsys):
    own, url = hook
    archive(tmp_path / "in" / "a"), archive(tmp_path / "in" / "b", damaged=True)
    to = str(tmp_path / "out/{relative}")
    words = ["batch", "run", str(tmp_path / "in/*"), "--to", to, "--codecs", "zstd:1", "--json"]
    assert main([*words, "--notify", url]) == 1
    [(_, told)] = own.got
    assert told == printed(capsys)
    assert told["result"]["counts"] == {"done": 1, "failed": 1}


def test_an_interruption_is_told(hook, tmp_path):
    own, url = hook

    def stop(event: object) -> None:
        if isinstance(event, TaskDone):
            raise KeyboardInterrupt

    old, new = archive(tmp_path / "old"), tmp_path / "new"
    with pytest.raises(zarrlift.Interrupted) as stopped:
        zarrlift.migrate(old, new, notify=url, progress=stop)
    [(_, told)] = own.got
    assert told["exit_code"] == 130
    assert told["error"]["advice"] == f"Continue with: zarrlift resume {stopped.value.job}"


def test_a_command_gets_it_on_its_standard_input(tmp_path):
    got = tmp_path / "got.json"
    code = "import sys; open(sys.argv[1], 'wb').write(sys.stdin.buffer.read())"
    command = shlex.join([sys.executable, "-c", code, str(got)])
    outcome = zarrlift.migrate(archive(tmp_path / "old"), tmp_path / "new", notify=command)
    assert json.loads(got.read_text())["result"] == json.loads(json.dumps(outcome.to_json()))


@pytest.mark.parametrize("status", [302, 404, 500])
def test_a_webhook_that_refuses_fails_nothing(status, hook, tmp_path, capsys):
    own, url = hook
    own.status = status
    assert zarrlift.migrate(archive(tmp_path / "old"), tmp_path / "new", notify=url).ok
    _, err = capsys.readouterr()
    place = url.rpartition("/")[0]
    assert f"the notification was not taken by {place}: it answers with status {status}\n" in err
    assert err.count("\n") == 1
    assert SECRET not in err
    assert len(own.got) == 1


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (f"http://127.0.0.1:9/{SECRET}", "refused"),
        (f"http://nobody.invalid/{SECRET}", "http://nobody.invalid: "),
        (shlex.join([sys.executable, "-c", "import sys; sys.exit(3)", SECRET]), "exit code 3"),
    ],
)
def test_what_cannot_be_reached_fails_nothing(target, words, tmp_path, capsys):
    assert zarrlift.migrate(archive(tmp_path / "old"), tmp_path / "new", notify=target).ok
    _, err = capsys.readouterr()
    assert err.count("\n") == 1
    assert words in err
    assert SECRET not in err


def test_what_does_not_answer_is_not_waited_for(hook, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(notify, "_SECONDS", 0.2)
    own, url = hook
    own.released = threading.Event()
    never = shlex.join([sys.executable, "-c", "import signal; signal.pause()"])
    try:
        for number, target in enumerate((url, never)):
            new = tmp_path / f"new{number}"
            assert zarrlift.migrate(archive(tmp_path / f"old{number}"), new, notify=target).ok
            assert "no answer in 0 s" in capsys.readouterr().err
    finally:
        own.released.set()


@pytest.mark.parametrize(
    "target",
    [
        f"ftp://host/{SECRET}",
        f"https:///{SECRET}",
        f"http://host:x/{SECRET}",
        "no-such-command now",
        "'open",
        " ",
    ],
)
def test_what_cannot_be_notified_is_refused_before_anything_is_written(target, tmp_path):
    with pytest.raises(UsageError) as caught:
        zarrlift.migrate(archive(tmp_path / "old"), tmp_path / "new", notify=target)
    assert SECRET not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["old"]


def test_no_secret_is_sent(hook, monkeypatch):
    own, url = hook
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of-the-environment")
    secrets_of({"key": "of-the-options"})
    target = url.replace("http://", "http://user:pass%20word@")
    text = "s3://user:password@bucket/a?signature=1 of-the-options of-the-environment"
    with (
        pytest.raises(UsageError),
        observed(False, "", "", Watching(notify=target), "update"),
    ):
        raise UsageError(text, found=text)
    [(headers, told)] = own.got
    assert told["error"]["found"] == "s3://bucket/a?... ... ..."
    assert told["command"] == "update"
    assert "password" not in json.dumps(told)
    assert headers["Authorization"] == "Basic dXNlcjpwYXNzIHdvcmQ="


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
