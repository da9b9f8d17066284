"""What is seen of a command while it runs: failures at once in a pipe, more if asked, a log file."""

from __future__ import annotations

import logging
import re
import sys
from pathlib import Path

import pytest
from tests.support.job_archives import write_archive

import zarrlift
from zarrlift.cli import main
from zarrlift.cli.run_display import watched
from zarrlift.jobs import log_messages
from zarrstack.core.errors import Problem

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


def test_a_failure_is_told_at_once_where_standard_error_is_no_terminal(broken, capsys) -> None:
    assert main([*broken]) == 1
    (line,) = live(capsys.readouterr().err)
    assert line.startswith("failed: /g/recode, key 'g/recode/3': ")


def test_a_record_that_no_handler_wants_is_not_made() -> None:
    with watched(quiet=False, verbose=False):
        assert not log_messages.log.isEnabledFor(logging.INFO)  # one for each of thousands of arrays
        assert log_messages.progress_log.isEnabledFor(logging.INFO)
    with watched(quiet=False, verbose=True):
        assert log_messages.log.isEnabledFor(logging.INFO)


def test_quiet_logs_nothing(broken, capsys) -> None:
    assert main([*broken, "--quiet"]) == 1
    assert live(capsys.readouterr().err) == []


def test_a_terminal_has_the_bar_and_the_report_for_that(broken, capsys, monkeypatch) -> None:
    monkeypatch.setattr(type(sys.stderr), "isatty", lambda _self: True, raising=False)
    assert main([*broken]) == 1
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
