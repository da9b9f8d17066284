"""A bar where somebody sees it, silence elsewhere, and never a failed migration."""

from __future__ import annotations

import asyncio
import io
import os
import pty
import re
import sys
import threading
import types

import pytest
import zarr
from tests.support.job_archives import write_archive

import zarrlift
from zarrlift.jobs.progress import NullProgress, RunningProgress, Ticker
from zarrlift.jobs.progress_display import LogProgress, ProgressBar, chosen_progress, progress_for


@pytest.fixture(autouse=True)
def no_given_size(monkeypatch):
    """pytest's workers have a size in their environment, which some versions of tqdm use."""
    for name in ("COLUMNS", "LINES"):
        monkeypatch.delenv(name, raising=False)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Gone(Terminal):
    """A terminal that was closed under way."""

    def write(self, text):
        raise BrokenPipeError


def test_a_terminal_gets_a_bar_and_a_file_gets_lines():
    assert isinstance(progress_for(Terminal()), ProgressBar)
    assert isinstance(progress_for(Terminal(), quiet=True), NullProgress)
    assert isinstance(progress_for(io.StringIO()), LogProgress)
    assert isinstance(progress_for(io.StringIO(), quiet=True), NullProgress)
    closed = io.StringIO()
    closed.close()
    lines = progress_for(closed)
    lines.start(1, 1)
    lines.note("x")


def test_a_terminal_that_does_not_know_its_size_gets_a_bar_of_80_columns():
    master, slave = pty.openpty()  # of 0 columns
    with open(slave, "w") as terminal:
        bar = ProgressBar(terminal)
        bar.start(1_000_000, 10)
        bar.tick(RunningProgress(chunks=4, bytes=400_000))
        shown = b""
        while b"chunks" not in shown:
            shown += os.read(master, 10_000)
        bar.close()
    os.close(master)
    shown = shown.decode()
    assert re.search(r" 40%\|.*400k/1\.00M .*4/10 chunks", shown)
    assert max(map(len, shown.split("\r"))) <= 80


def test_a_listing_shows_the_number_of_objects(caplog):
    caplog.set_level("INFO", "zarrlift")
    now, screen = [1000.0], Terminal()
    bar, lines = (display(screen, clock=lambda: now[0]) for display in (ProgressBar, LogProgress))
    for shown in (bar, lines):
        shown.tick(RunningProgress(listed=12_345))
        now[0] += 60
        shown.tick(RunningProgress(listed=12_345_678))
        shown.close()
    assert "12.3k objects listed" in screen.getvalue()
    assert "12.3M objects listed" in screen.getvalue()
    assert caplog.messages == ["12,345,678 objects listed"] * 2


@pytest.mark.parametrize("display", [ProgressBar, LogProgress])
def test_the_log_gets_a_line_a_minute(display, caplog):
    caplog.set_level("INFO", "zarrlift")
    now = [1000.0]
    shown = display(Terminal(), clock=lambda: now[0])
    shown.start(10_000_000, 5)
    shown.resume_at(1, 2_000_000)
    shown.advance(1, 1_000_000)
    now[0] += 59
    shown.tick(RunningProgress())
    assert caplog.messages == []
    now[0] += 1
    shown.tick(RunningProgress(chunks=1, bytes=1_000_000))
    now[0] += 1
    shown.tick(RunningProgress(chunks=1, bytes=1_000_000))
    line = "4.00 MB of 10.0 MB (40 %), 3 of 5 chunks, 33.3 kB/s, about 3 min 0 s left"
    assert caplog.messages == [line]
    shown.close()


def test_a_line_where_totals_are_not_known(caplog):
    caplog.set_level("INFO", "zarrlift")
    now = [0.0]
    lines = LogProgress(Terminal(), clock=lambda: now[0])
    lines.tick(RunningProgress())  # before anything is known
    lines.start(None, None)
    lines.advance(3, 5)
    now[0] = 60.0
    lines.tick(RunningProgress())
    assert caplog.messages == ["3 chunks"]


def drawn(stream: Terminal) -> list[str]:
    return [part for part in re.split(r"[\r\n]", stream.getvalue()) if part.strip()]


def test_the_bar_counts_bytes_and_shows_chunks(monkeypatch):
    stream = Terminal()
    bar = ProgressBar(stream)
    bar.start(2_000_000, 1200)
    bar.advance(1200, 2_000_000)
    bar._bar.refresh()
    bar.close()
    last = drawn(stream)[-1]
    assert "100%" in last
    assert "2.00M/2.00M" in last
    assert "1,200/1,200 chunks" in last


def test_the_bar_counts_chunks_where_bytes_are_not_known():
    stream = Terminal()
    bar = ProgressBar(stream)
    bar.start(None, 10)
    bar.advance(10, 0)
    bar._bar.refresh()
    bar.close()
    assert "10/10" in drawn(stream)[-1]


def test_unknown_totals_are_fine():
    stream = Terminal()
    bar = ProgressBar(stream)
    bar.start(None, None)
    bar.advance(1, 5)
    bar.close()


def test_a_note_stands_on_its_own_line():
    stream = Terminal()
    bar = ProgressBar(stream)
    bar.note("before the start")
    bar.start(10, 1)
    bar.note("trying again: a/0.0")
    bar.close()
    assert "trying again: a/0.0" in drawn(stream)
    assert "before the start" in drawn(stream)


def test_closing_twice_or_before_the_start_is_fine():
    bar = ProgressBar(Terminal())
    bar.close()
    bar.start(1, 1)
    bar.close()
    bar.close()
    bar.advance(1, 1)


def test_a_terminal_that_goes_away_silences_the_bar():
    bar = ProgressBar(Gone())
    bar.start(10, 1)
    bar.advance(1, 10)
    bar.note("x")
    bar.close()


def test_a_total_that_was_guessed_too_low_gives_way():
    stream = Terminal()
    bar = ProgressBar(stream)
    bar.start(1_000_000, 2)
    bar.advance(1, 4_000_000)
    bar.tick(RunningProgress())
    assert "4.00M/4.00M" in drawn(stream)[-1]
    bar.expect(8_000_000, 2)
    bar.tick(RunningProgress())
    assert "50%" in drawn(stream)[-1]
    bar.close()


def test_a_resumed_job_begins_where_it_was_left():
    stream = Terminal()
    bar = ProgressBar(stream)
    bar.start(4_000_000, 4)
    bar.resume_at(1, 1_000_000)
    bar.tick(RunningProgress())
    last = drawn(stream)[-1]
    assert "25%" in last
    assert "1/4 chunks" in last
    assert "?B/s" in last, "what an earlier run did says nothing of this one's rate"
    bar.close()


def test_a_tick_shows_what_running_tasks_have_read_and_never_steps_back():
    stream = Terminal()
    bar = ProgressBar(stream)
    bar.start(4_000_000, 4)
    bar.tick(RunningProgress(chunks=1, bytes=1_000_000))
    assert "25%" in drawn(stream)[-1]
    bar.tick(RunningProgress())  # the task has ended, and is not counted yet
    assert "25%" in drawn(stream)[-1]
    bar.advance(2, 2_000_000)
    bar.tick(RunningProgress())
    assert "50%" in drawn(stream)[-1]
    bar.close()


def test_a_display_is_refreshed_while_no_task_ends(monkeypatch):
    monkeypatch.setattr("zarrlift.jobs.progress._REFRESH_SECONDS", 0.001)
    seen = threading.Event()

    class Seen(ProgressBar):
        def tick(self, present):
            assert present == RunningProgress(chunks=3)
            seen.set()

    ticker = Ticker(Seen(Terminal()), lambda: RunningProgress(chunks=3))
    assert seen.wait(60)
    ticker.stop()
    ticker.stop()


def test_what_is_not_shown_needs_no_thread():
    before = threading.active_count()
    ticker = Ticker(NullProgress())
    assert threading.active_count() == before
    ticker.stop()


CALLS = [
    ("start", 1, 1), ("resume_at", 1, 1), ("expect", 1, 1), ("advance", 1, 1), ("note", "x"), ("close",)
]  # fmt: skip


@pytest.mark.parametrize("call", CALLS, ids=[name for name, *_ in CALLS])
def test_silence_takes_every_call(call):
    name, *arguments = call
    assert getattr(NullProgress(), name)(*arguments) is None


def test_the_bar_leaves_tqdm_as_it_was():
    from tqdm import tqdm

    lock, interval, monitor = getattr(tqdm, "_lock", None), tqdm.monitor_interval, tqdm.monitor
    bar = ProgressBar(Terminal())
    bar.start(1, 1)
    bar.close()
    assert getattr(tqdm, "_lock", None) is lock
    assert tqdm.monitor_interval == interval
    assert tqdm.monitor is monitor


class ZMQInteractiveShell:
    """Named as the shell of a notebook's kernel is."""


@pytest.fixture
def notebook(monkeypatch):
    """As if IPython's kernel ran this process."""
    ipython = types.SimpleNamespace(get_ipython=ZMQInteractiveShell)
    monkeypatch.setitem(sys.modules, "IPython", ipython)


def test_a_notebook_has_a_bar_by_default_and_nothing_else_has(notebook):
    assert isinstance(chosen_progress(None), ProgressBar)
    assert isinstance(chosen_progress(True), ProgressBar)
    assert chosen_progress(False) is None
    sys.modules["IPython"].get_ipython = lambda: None  # IPython as a library
    assert chosen_progress(None) is None
    mine = NullProgress()
    assert chosen_progress(mine) is mine


def test_a_notebook_without_widgets_has_a_bar_of_text(notebook, tmp_path, capsys, recwarn):
    archive = write_archive(tmp_path / "old.zarr")
    zarrlift.migrate(archive, tmp_path / "new.zarr")
    assert "0%|          | 0.00/11.2k [00:00<" in capsys.readouterr().err
    assert [warned for warned in recwarn if "IProgress" in str(warned.message)] == []
    zarrlift.migrate(archive, tmp_path / "other.zarr", progress=False)
    assert capsys.readouterr().err == ""


def test_a_notebook_has_one_bar_for_a_batch(notebook, tmp_path, capsys):
    for name in "ab":
        write_archive(tmp_path / "old" / f"{name}.zarr")
    zarrlift.batch(tmp_path / "old", to=f"{tmp_path}/new/{{relative}}")
    assert "0.00/22.4k [00:00<" in capsys.readouterr().err
    quiet = zarrlift.batch(tmp_path / "old", to=f"{tmp_path}/more/{{relative}}", progress=False)
    assert quiet.outcome.ok
    assert capsys.readouterr().err == ""


def test_a_script_is_quiet_unless_it_asks(tmp_path, capsys, monkeypatch):
    archive = write_archive(tmp_path / "old.zarr")
    monkeypatch.setattr(sys, "stderr", Terminal())
    zarrlift.migrate(archive, tmp_path / "new.zarr")
    assert sys.stderr.getvalue() == ""
    zarrlift.migrate(archive, tmp_path / "other.zarr", progress=True)
    assert "0%|          | 0.00/11.2k [00:00<" in sys.stderr.getvalue()


@pytest.mark.parametrize("place", ["path", "store"])
def test_a_running_event_loop_is_no_hindrance(tmp_path, place):
    """As in a notebook, whose cells run in the loop of its kernel."""
    archive = write_archive(tmp_path / "old.zarr")
    source = archive if place == "path" else zarr.storage.LocalStore(archive, read_only=True)

    async def cell():
        outcome = zarrlift.migrate(source, f"{tmp_path.as_uri()}/new.zarr", job=tmp_path / "job.db")
        report = zarrlift.verify(source, tmp_path / "new.zarr", full=True)
        return outcome, report, zarrlift.status(tmp_path / "job.db")

    outcome, report, status = asyncio.run(cell())
    assert outcome.ok
    assert report.ok
    assert status.state == "done"
