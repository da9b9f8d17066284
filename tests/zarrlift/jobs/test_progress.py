"""How far a run is: a bar where somebody sees it, its rate, and what a job reads in all."""

from __future__ import annotations

import asyncio
import io
import os
import re
import sys
import threading
import types
from collections import Counter
from dataclasses import replace

import pytest
import zarr
from tests.support import report_examples as examples
from tests.support.job_archives import write_archive

import zarrlift
from zarrlift.archive import chunk_inventory
from zarrlift.jobs import progress_display
from zarrlift.jobs.ledger.schema import TaskTotals, planned_work
from zarrlift.jobs.progress import Ticker, Unticked, WorkTotal, total_bytes
from zarrlift.jobs.progress_display import LogProgress, ProgressBar, chosen_progress, progress_for
from zarrlift.planning.routes import Route
from zarrlift.transfer.counts import MoveResult
from zarrlift.transfer.events import ArrayDone, Event, Listed, Planned, TaskDone, Waiting


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
    assert type(progress_for(Terminal())) is ProgressBar
    assert progress_for(Terminal(), quiet=True) is None
    assert type(progress_for(io.StringIO())) is LogProgress
    assert progress_for(io.StringIO(), quiet=True) is None
    closed = io.StringIO()
    closed.close()
    lines = progress_for(closed)
    lines(Planned(bytes=1, chunks=1))
    lines.note("x")


def test_a_terminal_that_does_not_know_its_size_gets_a_bar_of_80_columns():
    import pty

    master, slave = pty.openpty()  # of 0 columns
    with open(slave, "w") as terminal:
        bar = ProgressBar(terminal)
        bar(Planned(bytes=1_000_000, chunks=10))
        bar(Waiting(chunks=4, bytes=400_000))
        shown = b""
        while b"objects" not in shown:
            shown += os.read(master, 10_000)
        bar.close()
    os.close(master)
    shown = shown.decode()
    assert re.search(r" 40%\|.*400k/1\.00M .*4/10 objects", shown)
    assert max(map(len, shown.split("\r"))) <= 80


def test_a_listing_shows_the_number_of_objects(caplog):
    caplog.set_level("INFO", "zarrlift")
    now, screen = [1000.0], Terminal()
    bar, lines = (display(screen, clock=lambda: now[0]) for display in (ProgressBar, LogProgress))
    for shown in (bar, lines):
        shown(Listed(objects=12_345))
        now[0] += 60
        shown(Listed(objects=12_345_678))
        shown.close()
    assert "12.3k objects listed" in screen.getvalue()
    assert "12.3M objects listed" in screen.getvalue()
    assert caplog.messages == ["12,345,678 objects listed"] * 2


@pytest.mark.parametrize("display", [ProgressBar, LogProgress])
def test_the_log_gets_a_line_a_minute(display, caplog):
    caplog.set_level("INFO", "zarrlift")
    now = [1000.0]
    shown = display(Terminal(), clock=lambda: now[0])
    shown(Planned(bytes=10_000_000, chunks=5, chunks_done=1, bytes_done=2_000_000))
    shown(TaskDone(chunks=1, bytes_in=1_000_000))
    now[0] += 59
    shown(Waiting())
    assert caplog.messages == []
    now[0] += 1
    shown(Waiting(chunks=1, bytes=1_000_000))
    now[0] += 1
    shown(Waiting(chunks=1, bytes=1_000_000))
    line = "4.00 MB of 10.0 MB (40 %), 3 of 5 objects, 33.3 kB/s, about 3 min 0 s left"
    assert caplog.messages == [line]
    shown.close()


def test_a_line_where_totals_are_not_known(caplog):
    caplog.set_level("INFO", "zarrlift")
    now = [0.0]
    lines = LogProgress(Terminal(), clock=lambda: now[0])
    lines(Waiting())  # before anything is known
    lines(Planned(bytes=None, chunks=None))
    lines(TaskDone(chunks=3, bytes_in=5))
    now[0] = 60.0
    lines(Waiting())
    assert caplog.messages == ["3 chunks"]


def drawn(stream: Terminal) -> list[str]:
    return [part for part in re.split(r"[\r\n]", stream.getvalue()) if part.strip()]


def test_the_bar_counts_chunks_where_bytes_are_not_known():
    stream = Terminal()
    bar = ProgressBar(stream)
    bar(Planned(bytes=None, chunks=10))
    bar(TaskDone(chunks=10, bytes_in=0))
    bar._bar.refresh()
    bar.close()
    assert "10/10" in drawn(stream)[-1]


def test_a_note_stands_on_its_own_line():
    stream = Terminal()
    bar = ProgressBar(stream)
    bar.note("before the start")
    bar(Planned(bytes=10, chunks=1))
    bar.note("trying again: a/0.0")
    bar.close()
    assert "trying again: a/0.0" in drawn(stream)
    assert "before the start" in drawn(stream)


def test_closing_twice_or_before_the_start_is_fine():
    bar = ProgressBar(Terminal())
    bar.close()
    bar(Planned(bytes=1, chunks=1))
    bar.close()
    bar.close()
    bar(TaskDone(chunks=1, bytes_in=1))


@pytest.mark.parametrize("moment", ["the first line", "a later one"])
def test_the_bar_of_a_terminal_that_went_away_may_be_collected_in_any_thread(moment, monkeypatch):
    """tqdm keeps its lock if a line cannot be written, and closes a bar in the thread that collects it."""
    bars = []

    class Kept(progress_display.bar_type()):
        def __new__(cls, *arguments, **options):
            bars.append(super().__new__(cls, *arguments, **options))
            return bars[-1]

    monkeypatch.setattr(progress_display, "bar_type", lambda: Kept)
    terminal = Gone() if moment == "the first line" else Terminal()
    progress = ProgressBar(terminal)
    progress(Planned(bytes=100, chunks=10))
    monkeypatch.setattr(terminal, "write", Gone().write)
    progress(TaskDone(chunks=5, bytes_in=50))
    progress(Waiting())
    progress.note("x")
    progress.close()
    closing = threading.Thread(target=bars[0].close, daemon=True)
    closing.start()
    closing.join(60)
    assert not closing.is_alive()


def test_a_total_that_was_guessed_too_low_gives_way():
    stream = Terminal()
    bar = ProgressBar(stream)
    bar(Planned(bytes=1_000_000, chunks=2))
    bar(TaskDone(chunks=1, bytes_in=4_000_000))
    bar(Waiting())
    assert "4.00M/4.00M" in drawn(stream)[-1]
    bar(TaskDone(chunks=0, bytes_in=0, more_bytes=7_000_000))
    bar(Waiting())
    assert "50%" in drawn(stream)[-1]
    bar.close()


def test_a_resumed_job_begins_where_it_was_left():
    stream = Terminal()
    bar = ProgressBar(stream)
    bar(Planned(bytes=4_000_000, chunks=4, chunks_done=1, bytes_done=1_000_000))
    bar(Waiting())
    last = drawn(stream)[-1]
    assert "25%" in last
    assert "1/4 objects" in last
    assert "?B/s" in last, "what an earlier run did says nothing of this one's rate"
    bar.close()


def test_a_tick_shows_what_running_tasks_have_read_and_never_steps_back():
    stream = Terminal()
    bar = ProgressBar(stream)
    bar(Planned(bytes=4_000_000, chunks=4))
    bar(Waiting(chunks=1, bytes=1_000_000))
    assert "25%" in drawn(stream)[-1]
    bar(Waiting())  # the task has ended, and is not counted yet
    assert "25%" in drawn(stream)[-1]
    bar(TaskDone(chunks=2, bytes_in=2_000_000))
    bar(Waiting())
    assert "50%" in drawn(stream)[-1]
    bar.close()


def test_a_display_is_refreshed_while_no_task_ends(monkeypatch):
    monkeypatch.setattr("zarrlift.jobs.progress._REFRESH_SECONDS", 0.001)
    seen = threading.Event()

    def show(event):
        assert event == Waiting(chunks=3)
        seen.set()

    ticker = Ticker(show, lambda: Waiting(chunks=3))
    assert seen.wait(60)
    ticker.stop()
    ticker.stop()


def test_what_is_not_shown_needs_no_thread():
    before = threading.active_count()
    for progress in (None, Unticked(print)):
        ticker = Ticker(progress)
        assert threading.active_count() == before
        ticker.stop()


def test_any_function_gets_readable_events(tmp_path, capsys):
    archive = write_archive(tmp_path / "old.zarr")
    outcome = zarrlift.migrate(archive, tmp_path / "new.zarr", progress=print)
    told = capsys.readouterr().out.splitlines()
    counts = Counter(line.partition("(")[0] for line in told if not line.startswith("Waiting("))
    assert counts["TaskDone"]
    assert (counts["Planned"], counts["ArrayDone"], counts["Ended"]) == (1, outcome.arrays_total, 2)
    assert f"Planned(bytes={outcome.bytes_in}, chunks={outcome.chunks}, arrays=4, " in "".join(told)
    assert "ArrayDone(path='g/relink', problems=(), more_bytes=0)" in told
    assert zarrlift.verify(archive, tmp_path / "new.zarr", progress=print).ok
    assert "TaskDone(chunks=" in capsys.readouterr().out


def test_the_bar_leaves_tqdm_as_it_was():
    from tqdm import tqdm

    lock, interval, monitor = getattr(tqdm, "_lock", None), tqdm.monitor_interval, tqdm.monitor
    bar = ProgressBar(Terminal())
    bar(Planned(bytes=1, chunks=1))
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
    assert chosen_progress(print) is print


def test_a_notebook_without_widgets_has_a_bar_of_text(notebook, tmp_path, capsys, recwarn):
    archive = write_archive(tmp_path / "old.zarr")
    zarrlift.migrate(archive, tmp_path / "new.zarr")
    assert "0%|          | 0.00/6.20k [00:00<" in capsys.readouterr().err
    assert [warned for warned in recwarn if "IProgress" in str(warned.message)] == []
    zarrlift.migrate(archive, tmp_path / "other.zarr", progress=False)
    assert capsys.readouterr().err == ""


def test_a_notebook_has_one_bar_for_a_batch(notebook, tmp_path, capsys, monkeypatch):
    shape = progress_display._shape
    # tqdm draws ten times a second at most, and this batch may take less.
    monkeypatch.setattr(progress_display, "_shape", lambda stream: {**shape(stream), "mininterval": 0})
    for name in "ab":
        write_archive(tmp_path / "old" / f"{name}.zarr")
    zarrlift.batch(tmp_path / "old", to=f"{tmp_path}/new/{{relative}}")
    shown = capsys.readouterr().err
    assert "| 0/2 [00:00<" in shown
    assert "B read]" in shown  # as far as it was drawn
    quiet = zarrlift.batch(tmp_path / "old", to=f"{tmp_path}/more/{{relative}}", progress=False)
    assert quiet.outcome.ok
    assert capsys.readouterr().err == ""


def test_a_script_is_quiet_unless_it_asks(tmp_path, capsys, monkeypatch):
    archive = write_archive(tmp_path / "old.zarr")
    monkeypatch.setattr(sys, "stderr", Terminal())
    zarrlift.migrate(archive, tmp_path / "new.zarr")
    assert sys.stderr.getvalue() == ""
    zarrlift.migrate(archive, tmp_path / "other.zarr", progress=True)
    assert "0%|          | 0.00/6.20k [00:00<" in sys.stderr.getvalue()


@pytest.mark.slow(one_in=2)
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


# The rate, over the last minute.


def test_a_line_has_the_rate_of_the_last_minute_and_the_time_left_at_it(caplog):
    caplog.set_level("INFO", "zarrlift")
    now = [0.0]
    lines = LogProgress(Terminal(), clock=lambda: now[0])
    lines(Planned(bytes=100_000_000, chunks=100))
    for nbytes in (60_000_000, 6_000_000, 0, 12_000_000):
        lines(TaskDone(chunks=1, bytes_in=nbytes))
        now[0] += 60
        lines(Waiting())
    assert [message.split(", ")[2:] for message in caplog.messages] == [
        ["1.00 MB/s", "about 40.0 s left"],
        ["100 kB/s", "about 5 min 40 s left"],
        [],
        ["100 kB/s", "about 3 min 40 s left"],  # of both minutes
    ]


class Notes(dict):
    """The notes of a job."""

    def note(self, **notes: str | None) -> None:
        self.update(notes)

    def fact(self, name: str) -> str | None:
        return self.get(name)


def test_a_job_notes_its_rate_once_a_minute_if_anything_was_read(monkeypatch) -> None:
    now = [1000.0]
    monkeypatch.setattr("zarrlift.jobs.progress.time.monotonic", lambda: now[0])
    work, notes = WorkTotal(None, [(ARRAY, None)]), Notes()
    rates = []
    for seconds, nbytes in ((30, 300), (30, 300), (60, 0), (60, 240), (60, 60)):
        now[0] += seconds
        if nbytes:
            work.moved(ARRAY, MoveResult(chunks=1, bytes_in=nbytes))
        work.note(notes)
        rates.append(notes.get("rate"))
    assert rates == [None, "10.0", "10.0", "2.0", "1.0"]


# What a job reads in all: as planned, corrected by what was read, never less than that.

ARRAY = replace(examples.PLAN.arrays[0], bounds=tuple(range(5)), reads=100, chunks=100, bytes_in=1000)
GUESSED = replace(ARRAY, bytes_in_known=False)
UNLISTED = replace(GUESSED, fingerprint=chunk_inventory.UNLISTED)
STAYS = replace(ARRAY, move=ARRAY.move._replace(route=Route(name="stay", shared=0, reason="")), bounds=())


@pytest.mark.parametrize(
    ("plan", "done", "finished", "expected"),
    [
        pytest.param(ARRAY, TaskTotals(), False, 1000, id="planned"),
        pytest.param(replace(ARRAY, times_read=1.5), TaskTotals(), False, 1500, id="read more than once"),
        pytest.param(ARRAY, TaskTotals(tasks=1, chunks=25, bytes_in=10), False, 1000, id="known"),
        pytest.param(GUESSED, TaskTotals(tasks=1, chunks=25, bytes_in=40), False, 160, id="guessed too much"),
        pytest.param(
            GUESSED, TaskTotals(tasks=1, chunks=25, bytes_in=900), False, 3600, id="guessed too little"
        ),
        pytest.param(
            UNLISTED, TaskTotals(tasks=2, chunks=5, bytes_in=40), False, 80, id="few chunks are there"
        ),
        pytest.param(
            ARRAY, TaskTotals(tasks=3, chunks=75, bytes_in=1500), False, 2000, id="more than planned"
        ),
        pytest.param(GUESSED, TaskTotals(tasks=4, chunks=100, bytes_in=777), False, 777, id="all of it"),
        pytest.param(ARRAY, TaskTotals(tasks=4, chunks=90, bytes_in=900), True, 900, id="finished"),
        pytest.param(STAYS, TaskTotals(), False, 0, id="stays where it is"),
    ],
)
def test_an_estimate_is_corrected_by_what_was_read(plan, done, finished, expected) -> None:
    assert total_bytes(planned_work(plan), done, finished=finished) == expected


class Watched:
    """Totals and work done, as a display is told."""

    def __init__(self) -> None:
        self.total = self.chunks = self.bytes = 0
        self.seen: list[tuple[int, int]] = []

    def __call__(self, event: Event) -> None:
        match event:
            case Planned():
                self.total = event.bytes
                self.chunks, self.bytes = event.chunks_done, event.bytes_done
                self.seen.append((self.bytes, self.total))
            case TaskDone():
                self.total += event.more_bytes
                self.chunks += event.chunks
                self.bytes += event.bytes_in
                self.seen.append((self.bytes, self.total))
            case ArrayDone():
                self.total += event.more_bytes


def test_a_display_is_told_totals_that_hold() -> None:
    """A quarter of what is there was guessed; one task was done by an earlier run."""
    watched = Watched()
    work = WorkTotal(watched, [(GUESSED, TaskTotals(tasks=1, chunks=25, bytes_in=1000)), (STAYS, None)])
    for _ in range(3):
        work.moved(GUESSED, MoveResult(chunks=25, bytes_in=1000))
    work.ended(GUESSED)
    work.ended(STAYS)
    assert watched.seen == [(1000, 4000), (2000, 4000), (3000, 4000), (4000, 4000)]
    assert watched.chunks == 100


def test_tasks_that_still_run_correct_an_estimate_too() -> None:
    work = WorkTotal(None, [(GUESSED, None), (replace(ARRAY, move=ARRAY.move._replace(path="known")), None)])
    assert work.present({}) == Waiting(total_bytes=2000)
    half = {GUESSED.path: (50, 10_000), "known": (50, 500)}
    assert work.present(half) == Waiting(chunks=100, bytes=10_500, total_bytes=21_000)
