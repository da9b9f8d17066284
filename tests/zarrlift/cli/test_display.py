"""What is seen of a command while it runs, and of a job that is watched."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support import report_examples as examples
from tests.support.job_archives import tree, write_archive

import zarrlift
from zarrlift.cli import main
from zarrlift.cli.status_command import has_ended, watch
from zarrlift.jobs import log_messages
from zarrlift.jobs.progress_display import watched
from zarrlift.jobs.status import Status
from zarrlift.report import status as report_status
from zarrstack.core.errors import Problem

# What is seen of a command while it runs: failures at once in a pipe, more if asked, a log file.


STAMP = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"


@pytest.fixture
def broken(tmp_path: Path) -> tuple[str, str, str]:
    """(`migrate`, an archive with one damaged chunk, a destination)."""
    source = write_archive(tmp_path / "source.zarr")
    (source / "g/recode/3").write_bytes(b"no chunk")
    return "migrate", str(source), str(tmp_path / "out.zarr")


def live(text: str) -> list[str]:
    """What was logged, without its times."""
    return re.findall(rf"^{STAMP} zarrlift: (.*)$", text, re.MULTILINE)


def test_a_record_that_no_handler_wants_is_not_made() -> None:
    with watched(quiet=False, verbose=False):
        assert not log_messages.log.isEnabledFor(logging.INFO)  # one for each of thousands of arrays
        assert log_messages.progress_log.isEnabledFor(logging.INFO)
    with watched(quiet=False, verbose=True):
        assert log_messages.log.isEnabledFor(logging.INFO)


def test_quiet_logs_nothing(broken, capsys) -> None:
    assert main([*broken, "--quiet"]) == 1
    assert live(capsys.readouterr().err) == []


def test_verbose_tells_of_every_array(broken, capsys) -> None:
    assert main([*broken, "-v"]) == 1
    first, *others, last = live(capsys.readouterr().err)
    assert re.fullmatch(r"\d+ arrays to migrate, .* to read", first)
    assert any(line.startswith("done: /") for line in others)
    assert last.startswith("incomplete: ")


def test_a_library_configures_no_logging(broken, caplog, capsys) -> None:
    assert [type(handler) for handler in log_messages.log.handlers] == [logging.NullHandler]
    caplog.set_level("INFO", "zarrlift")
    assert not zarrlift.migrate(*broken[1:]).ok
    assert [record.levelname for record in caplog.records if "g/recode/3" in record.message] == ["ERROR"]
    assert caplog.messages[-1].startswith("incomplete: ")
    assert capsys.readouterr().err == ""


def test_ten_failures_of_an_array_are_enough(caplog) -> None:
    problems = [
        Problem(kind="chunk", node="a", key=f"a/{i}", message="bad", advice="Cure.") for i in range(6)
    ]
    log_messages.failed(problems)
    log_messages.failed(problems, before=6)
    log_messages.failed(problems, before=12)
    assert len(caplog.messages) == 11
    assert caplog.messages[0] == "failed: /a, key 'a/0': bad"
    assert caplog.messages[-1] == "failed: more of /a, which the report lists"


def test_a_name_in_a_log_steers_no_terminal_and_begins_no_line(broken, capsys, monkeypatch) -> None:
    monkeypatch.setattr(
        log_messages, "array_done", lambda path: log_messages.log.info("done: %s", path + "\x1b[2J\nx")
    )
    main([*broken, "-v"])
    assert r"\x1b[2J\nx" in capsys.readouterr().err


# What deletes asks once, with counts, on a terminal; where there is none, `undo` and `finish` need --yes.


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Types an answer to the next question."""
    return lambda text: monkeypatch.setattr("sys.stdin", Terminal(f"{text}\n"))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_archive(tmp_path / "old")


def in_place(source: Path) -> Path:
    assert zarrlift.migrate(source, in_place=True).state == "done"
    assert zarrlift.verify(source).ok
    return source


@pytest.mark.parametrize("command", ["undo", "finish"])
def test_where_nobody_can_be_asked_nothing_is_deleted_without_yes(
    command: str, source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = tree(in_place(source))
    assert main([command, str(source)]) == 2
    assert capsys.readouterr().err == (
        f"zarrlift: {command} requires confirmation before it deletes; expected --yes, or a terminal\n"
    )
    assert tree(source) == before
    assert main([command, str(source), "-y"]) == 0


@pytest.mark.parametrize("command", ["undo", "finish"])
def test_where_there_is_no_job_nothing_is_asked(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, str(tmp_path / "nothing")]) == 1
    assert "no job was found for this location" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "question"),
    [
        ("undo", "Delete what the job wrote of 4 arrays at {source}? [y/N] "),
        ("finish", "Delete the legacy metadata of 4 arrays at {source}? [y/N] "),
    ],
)
def test_a_terminal_is_asked_once_with_counts(
    command: str,
    question: str,
    source: Path,
    answer: Callable[[str], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = tree(in_place(source))
    for text in ("n", "", "nonsense"):
        answer(text)
        assert main([command, str(source)]) == 2
        assert question.format(source=source) in capsys.readouterr().err
        assert tree(source) == before
    answer("y")
    assert main([command, str(source)]) == 0
    assert capsys.readouterr().err.count("[y/N]") == 1


def test_the_job_of_a_copy_is_removed_after_a_question_that_says_what_ends(
    source: Path, tmp_path: Path, answer: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    result = tmp_path / "new"
    assert zarrlift.migrate(source, result).ok
    assert zarrlift.verify(source, result).ok
    question = (
        f"Delete the job file of 4 arrays at {result}? Without it, the result cannot be undone or updated."
    )
    answer("n")
    assert main(["finish", str(result)]) == 2
    assert f"{question} [y/N] " in capsys.readouterr().err
    answer("y")
    assert main(["finish", str(result)]) == 0
    assert "can no longer be undone or updated" in " ".join(capsys.readouterr().out.split())
    assert not list(tmp_path.glob("*.zarrlift.*"))


def test_an_update_asks_only_if_it_deletes(
    source: Path, tmp_path: Path, answer: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    result = tmp_path / "new"
    assert zarrlift.migrate(source, result).state == "done"
    answer("n")
    assert main(["update", str(result), "--delete"]) == 0, "nothing would be deleted"
    for path in (source / "h" / "rewrite").rglob("*"):
        path.unlink()
    (source / "h" / "rewrite").rmdir()
    before = tree(result)
    assert main(["update", str(result), "--delete"]) == 2
    assert "Remove 1 node from the result? [y/N]" in capsys.readouterr().err
    assert tree(result) == before
    answer("yes")
    assert main(["update", str(result), "--delete"]) == 0
    assert not (result / "h" / "rewrite").exists()


def test_a_place_that_is_not_empty_is_replaced_after_a_question(
    source: Path, tmp_path: Path, answer: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    result = tmp_path / "new"
    result.mkdir()
    answer("n")
    assert main(["migrate", str(source), str(result), "--overwrite"]) == 0, "nothing is replaced"
    before = len(tree(result))
    answer("n")
    assert main(["migrate", str(source), str(result), "--overwrite", "--codecs", "gzip:1"]) == 2
    assert f"Replace {result}, which has {before} objects? [y/N]" in capsys.readouterr().err
    answer("y")
    assert main(["migrate", str(source), str(result), "--overwrite", "--codecs", "gzip:1"]) == 0


def test_scripts_overwrite_and_delete_without_a_question(source: Path, tmp_path: Path) -> None:
    result = tmp_path / "new"
    for _ in range(2):
        assert main(["migrate", str(source), str(result), "--overwrite"]) == 0
    assert main(["update", str(result), "--delete"]) == 0


# `status --watch`: a picture that is drawn over the last one, or lines, until the job ends.


RUNNING = examples.RUNNING
DONE = replace(RUNNING, state="done", activity=None, rate=None, seconds_left=None)


def watch_all(stream: io.StringIO, *statuses: Status) -> tuple[Status, list[float]]:
    """What is returned, and for how long it waited."""
    asked: Iterator[Status] = iter(statuses)
    waited: list[float] = []
    return watch(lambda: next(asked), stream, report_status, clock=lambda: 0.0, wait=waited.append), waited


def test_lines_until_the_job_ends() -> None:
    stream = io.StringIO()
    found, waited = watch_all(stream, RUNNING, replace(RUNNING, retries=3), DONE)
    assert found is DONE
    assert waited == [60, 60]
    first, second = stream.getvalue().splitlines()
    assert "B/s, about 0.55 s left" in first
    assert "1 failed" in first
    assert "3 requests repeated" in second
    assert "\x1b" not in first


def test_a_picture_is_drawn_over_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "50")
    stream = Terminal()
    _, waited = watch_all(stream, RUNNING, RUNNING, DONE)
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
    watch_all(stream, RUNNING, DONE)
    assert stream.getvalue().split("\x1b[?7h")[0].count("\n") == 5


def test_a_status_that_takes_long_is_read_less_often() -> None:
    now = iter([0.0, 30.0])
    waited: list[float] = []
    statuses = iter([RUNNING, DONE])
    watch(
        lambda: next(statuses),
        io.StringIO(),
        report_status,
        clock=lambda: next(now, 30.0),
        wait=waited.append,
    )
    assert waited == [300]


def test_ctrl_c_removes_the_picture() -> None:
    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    stream = Terminal()
    with pytest.raises(KeyboardInterrupt):
        watch(lambda: RUNNING, stream, report_status, wait=interrupted)
    assert stream.getvalue().endswith("F\x1b[J")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"activity": "running"}, False),
        ({"activity": "unknown"}, False),
        ({"activity": "stopped"}, True),
        ({"activity": "stale"}, True),
        ({"state": "undone", "activity": None}, True),
    ],
)
def test_the_end_of_a_job(changes, expected) -> None:
    assert has_ended(replace(RUNNING, **changes)) is expected


def test_names_do_not_control_the_terminal() -> None:
    array = replace(RUNNING.arrays[0], path="a\x1b[2Jb")
    problem = Problem(kind="chunk", node=array.path, message="\x1b[31m")
    stream = Terminal()
    hostile = replace(RUNNING, arrays=(array,), problems=(problem,), source="\x1b]0;title\x07")
    watch_all(stream, hostile, DONE)
    assert "\x1b[2J" not in stream.getvalue()
    assert "\x1b]0" not in stream.getvalue()
    assert report_status.progress_line(RUNNING).isprintable()


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
