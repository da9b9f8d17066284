"""`status --watch`: a picture that is drawn over the last one, or lines, until the job ends."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support import report_examples as examples
from tests.support.job_archives import write_archive

import zarrlift
from zarrlift.cli import main
from zarrlift.cli.status_command import a_job, brief, has_ended, watch
from zarrlift.jobs.status import PartStatus, Status

RUNNING = examples.RUNNING
DONE = replace(RUNNING, state="done", activity=None, rate=None, seconds_left=None)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def watched(stream: io.StringIO, *statuses: Status) -> tuple[Status, list[float]]:
    """What is returned, and for how long it waited."""
    asked: Iterator[Status] = iter(statuses)
    waited: list[float] = []
    return watch(lambda: next(asked), stream, a_job(), clock=lambda: 0.0, wait=waited.append), waited


def test_lines_until_the_job_ends() -> None:
    stream = io.StringIO()
    found, waited = watched(stream, RUNNING, replace(RUNNING, retries=3), DONE)
    assert found is DONE
    assert waited == [60, 60]
    first, second = stream.getvalue().splitlines()
    assert "2.23 MB/s, about 0.55 s left" in first
    assert "1 failed" in first
    assert "3 requests repeated" in second
    assert "\x1b" not in first


def test_a_picture_is_drawn_over_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "50")
    stream = Terminal()
    _, waited = watched(stream, RUNNING, RUNNING, DONE)
    assert waited == [1, 1]
    pictures = stream.getvalue().split("\x1b[?7h")
    assert len(pictures) == 3
    count = pictures[0].count("\n")
    assert pictures[1] == pictures[0].replace("\x1b[?7l", f"\x1b[?7l\x1b[{count}F")
    assert "\x1b[2J" not in stream.getvalue(), "clearing everything flickers"
    assert pictures[2] == f"\x1b[{count}F\x1b[J", "the report takes its place"


def test_a_picture_is_not_higher_than_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINES", "6")
    stream = Terminal()
    watched(stream, RUNNING, DONE)
    assert stream.getvalue().split("\x1b[?7h")[0].count("\n") == 5


def test_a_status_that_takes_long_is_read_less_often() -> None:
    now = iter([0.0, 30.0])
    waited: list[float] = []
    statuses = iter([RUNNING, DONE])
    watch(
        lambda: next(statuses),
        io.StringIO(),
        a_job(),
        clock=lambda: next(now, 30.0),
        wait=waited.append,
    )
    assert waited == [300]


def test_ctrl_c_removes_the_picture() -> None:
    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    stream = Terminal()
    with pytest.raises(KeyboardInterrupt):
        watch(lambda: RUNNING, stream, a_job(), wait=interrupted)
    assert stream.getvalue().endswith("F\x1b[J")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"activity": "running"}, False),
        ({"activity": "unknown"}, False),
        ({"activity": "stopped"}, True),
        ({"activity": "stale"}, True),
        ({"state": "undone", "activity": None}, True),
        ({"activity": "stopped", "parts": (PartStatus(part=0, activity="running"),)}, False),
        ({"activity": "stopped", "parts": (PartStatus(part=0, activity=None),)}, False),
        ({"activity": "stopped", "parts": (PartStatus(part=0, activity="stale"),)}, True),
    ],
)
def test_the_end_of_a_job(changes, expected) -> None:
    assert has_ended(replace(RUNNING, **changes)) is expected


def test_names_do_not_control_the_terminal() -> None:
    node = replace(RUNNING.nodes[1], path="a\x1b[2Jb", error="\x1b[31m")
    stream = Terminal()
    watched(stream, replace(RUNNING, nodes=(node,), source="\x1b]0;title\x07"), DONE)
    assert "\x1b[2J" not in stream.getvalue()
    assert "\x1b]0" not in stream.getvalue()
    assert brief(RUNNING).isprintable()


def test_the_exit_code_is_that_of_the_job(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_archive(tmp_path / "source.zarr")
    good, bad = tmp_path / "good.zarr", tmp_path / "bad.zarr"
    assert zarrlift.migrate(source, good).ok
    assert main(["status", str(good), "--watch"]) == 0
    assert "done" in capsys.readouterr().out
    next(source.glob("**/0.0")).write_bytes(b"")
    assert not zarrlift.migrate(source, bad).ok
    assert main(["status", str(bad), "--watch", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["result"]["state"] == "incomplete"

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("zarrlift.cli.status_command.watch", interrupted)
    assert main(["status", str(good), "--watch"]) == 130
    assert capsys.readouterr().err == "zarrlift: interrupted. The job is not affected.\n"
