"""A server that no longer answers is reported: by the bar, the log and the status."""

from __future__ import annotations

import asyncio
import io
import os
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from aiohttp import web
from tests.support.bucket import Bucket
from tests.support.fake_clock import FakeClock
from tests.zarrlift.storage.conftest import files, fill
from zarr.storage import MemoryStore, WrapperStore

import zarrlift
from zarrlift import Recipe
from zarrlift.jobs import progress
from zarrlift.jobs.executors import RunEngine, RunOptions
from zarrlift.jobs.progress import with_unanswered
from zarrlift.jobs.progress_display import LogProgress, ProgressBar
from zarrlift.report.status import blocks
from zarrlift.report.text import Page, lines
from zarrlift.storage import unanswered
from zarrlift.storage.remote import adaptive_concurrency
from zarrlift.storage.remote.adaptive_concurrency import ConcurrencyLimiter
from zarrlift.storage.remote.store_storage import StoreStorage
from zarrlift.storage.unanswered import Unanswered
from zarrlift.transfer.events import Event, Listed, Planned, Waiting
from zarrlift.transfer.worker import WorkerSpec

if TYPE_CHECKING:
    from zarrlift.planning.plans import Plan

SILENT = Unanswered(12.3, 3)
TEXT = "The server has not answered for 12 s, attempt 3"


class ServerError(Exception):
    status = 502


@pytest.fixture(autouse=True)
def _no_other_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only those of the test; others of this process may still wait for a dead one."""
    monkeypatch.setattr(unanswered, "_watches", set())


def reported(answers: list[Any], *, single: bool = True) -> list[Unanswered | None]:
    """The silence before each answer of a server (seconds that pass, or an error), and at the end."""
    clock, found = FakeClock(), []
    pace = ConcurrencyLimiter(clock=clock)

    async def ask() -> int:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            found.append(unanswered.longest_wait())
            raise answer
        clock.pass_by(answer)
        found.append(unanswered.longest_wait())
        return 1

    async def work() -> None:
        while answers:
            await pace(ask, single=single)

    asyncio.run(work())
    return [*found, unanswered.longest_wait()]


def test_a_server_that_answers_is_not_reported() -> None:
    assert reported([1.0, 2.0, 29.0]) == [None] * 4


def test_a_request_without_an_answer_is_reported_after_a_while() -> None:
    assert reported([31.0, 1.0]) == [Unanswered(31.0, 1), None, None]


def test_what_is_no_single_request_may_take_longer() -> None:
    assert reported([500.0], single=False) == [None, None]


@pytest.mark.parametrize("single", [True, False], ids=["object", "listing"])
@pytest.mark.parametrize(("error", "errors"), [(ConnectionError, False), (ServerError, True)])
def test_a_repeated_request_is_reported_until_one_succeeds(
    error, errors: bool, single: bool, monkeypatch
) -> None:
    monkeypatch.setattr(adaptive_concurrency, "_DELAYS", (1.0, 2.0, 4.0, 8.0))
    monkeypatch.setattr("random.random", lambda: 0.0)
    monkeypatch.setattr(ConcurrencyLimiter, "_reached", True, raising=False)
    found = reported([1.0, error(), error(), error(), error(), 0.5, 1.0], single=single)
    assert found[:4] == [None, None, None, None]  # 3 s without an answer
    assert found[4] == Unanswered(7.0, 4, errors)
    assert found[5] == Unanswered(15.5, 5, errors)
    assert found[6:] == [None, None]


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (SILENT, TEXT),
        (Unanswered(7.0, 2, errors=True), "The server has answered with errors only for 7 s, attempt 2"),
        (Unanswered(125.0, 9), "The server has not answered for 2 min 5 s, attempt 9"),
    ],
)
def test_the_text_says_how_long_and_which_attempt(found: Unanswered, text: str) -> None:
    assert str(found) == text


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "140")


@pytest.mark.usefixtures("_wide")
def test_the_bar_says_so_without_a_rate_and_a_time_left(monkeypatch) -> None:
    screen = Terminal()
    bar = ProgressBar(screen)
    bar(Planned(bytes=1_000_000, chunks=10))
    present = Waiting(chunks=4, bytes=400_000)
    bar(present)
    assert "B/s" in screen.getvalue()
    monkeypatch.setattr("zarrlift.jobs.progress.longest_wait", lambda: SILENT)
    screen.truncate(0)
    bar(with_unanswered(present))
    shown = screen.getvalue()
    assert "400k/1.00M" in shown
    assert f"<-] {TEXT}" in shown
    assert "B/s" not in shown
    monkeypatch.setattr("zarrlift.jobs.progress.longest_wait", lambda: None)
    screen.truncate(0)
    bar(with_unanswered(present))
    assert "B/s" in screen.getvalue()
    assert "server" not in screen.getvalue()
    bar.close()


@pytest.mark.usefixtures("_wide")
def test_a_listing_says_so_too() -> None:
    screen = Terminal()
    bar = ProgressBar(screen)
    bar(Listed(objects=12_345, unanswered=SILENT))
    bar.close()
    assert f"12.3k objects listed [00:00] {TEXT}" in screen.getvalue()


@pytest.mark.parametrize("display", [ProgressBar, LogProgress])
def test_the_log_gets_a_record_at_once_when_it_begins_and_when_it_ends(display, caplog) -> None:
    caplog.set_level("INFO", "zarrlift")
    now = [1000.0]
    shown = display(Terminal(), clock=lambda: now[0])
    shown(Planned(bytes=1_000_000, chunks=10))
    for later, found in ((10, None), (20, SILENT), (21, Unanswered(13.3, 3)), (30, None), (40, None)):
        now[0] = 1000.0 + later
        shown(Waiting(chunks=4, bytes=400_000, unanswered=found))
    shown.close()
    silent, again = [record.getMessage() for record in caplog.records]
    assert silent.endswith(f"(40 %), 4 of 10 objects, {TEXT}")
    assert again.endswith("B/s, about 45.0 s left")


class Dying(WrapperStore[MemoryStore]):
    """A store that stops to answer when chunks are read, until it is revived."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store)
        self.alive = threading.Event()

    async def get(self, key: str, *args: Any, **named: Any) -> Any:
        is_chunk = key.startswith("g/recode/") and key[-1].isdigit()
        if is_chunk and not self.alive.is_set():
            raise ConnectionError("connection refused")
        return await super().get(key, *args, **named)


class Watcher:
    """Revives the store as soon as the status reports its silence."""

    def __init__(self, store: Dying, job: Path) -> None:
        self.store, self.job = store, job
        self.shown: list[Unanswered] = []
        self.statuses: list[zarrlift.Status] = []

    def __call__(self, event: Event) -> None:
        if isinstance(event, Waiting) and event.unanswered is not None and not self.store.alive.is_set():
            self.shown.append(event.unanswered)
            status = zarrlift.status(self.job)
            if status.silent_since is not None:
                self.statuses.append(status)
                self.store.alive.set()


@pytest.mark.usefixtures("no_samples")
def test_a_migration_reports_a_dead_server_and_goes_on_when_it_is_back(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adaptive_concurrency, "_DELAYS", (0.01,) * 10_000)
    monkeypatch.setattr(unanswered, "_AFTER_FAILURE", 0.0)
    monkeypatch.setattr(progress, "_REFRESH_SECONDS", 0.01)
    store = Dying(fill(MemoryStore(), archive))
    watcher = Watcher(store, tmp_path / "job.db")
    before = time.time()
    outcome = zarrlift.migrate(store, tmp_path / "out.zarr", job=tmp_path / "job.db", progress=watcher)
    assert outcome.ok, outcome.problems
    assert watcher.shown[-1].attempt > 1
    status = watcher.statuses[0]
    assert before <= status.silent_since <= time.time()
    assert (status.silent_attempt > 1, status.silent_errors) == (True, False)
    assert (status.rate, status.seconds_left) == (None, None)
    assert "The server has not answered for" in " ".join(lines(blocks(status), Page.of(io.StringIO())))
    assert zarrlift.status(tmp_path / "job.db").silent_since is None
    zarrlift.migrate(archive, tmp_path / "expected.zarr")
    assert files(tmp_path / "out.zarr") == files(tmp_path / "expected.zarr")


def test_worker_processes_on_this_machine_are_heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker writes what the coordinator reads; here both are this process, with a server each."""
    folder = tmp_path / "reports"
    folder.mkdir()
    monkeypatch.setattr(unanswered, "_folders", set())
    clock = FakeClock()
    worker = unanswered.AnswerWatch(clock)
    unanswered._watches.clear()  # not seen otherwise
    unanswered.read_from(str(folder))
    monkeypatch.setattr(unanswered, "_folder_of_worker", str(folder))
    worker.begin()
    clock.pass_by(70)
    worker.failed(4, ServerError())
    found = unanswered.longest_wait()
    assert found is not None
    assert (70 <= found.seconds < 80, found.attempt, found.errors) == (True, 4, True)
    worker.answered(clock.now())
    assert unanswered.longest_wait() is None
    assert not list(folder.iterdir())
    worker.failed(2, ServerError())
    worker.end()
    assert not list(folder.iterdir())
    (folder / "unfinished").write_text("[17")
    assert unanswered.longest_wait() is None


def test_a_worker_that_died_is_not_heard_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unanswered, "_folders", {str(tmp_path)})
    (tmp_path / "1-1").write_text(f"[{time.time() - 400}, 3, false]")
    assert unanswered.longest_wait() is not None
    os.utime(tmp_path / "1-1", (time.time() - 400, time.time() - 400))
    assert unanswered.longest_wait() is None


def test_a_folder_that_is_gone_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = {str(tmp_path / "gone")}
    monkeypatch.setattr(unanswered, "_folders", folders)
    assert unanswered.longest_wait() is None
    assert not folders


@pytest.mark.parametrize(("executor", "reports"), [("processes", True), ("dask", False)])
def test_only_workers_on_this_machine_are_told_where_to_report(executor: Any, reports: bool) -> None:
    spec = WorkerSpec(job_id="1", run="1", source="s3://bucket/in", destination="s3://bucket/out")
    ends = StoreStorage(MemoryStore()), StoreStorage(MemoryStore())
    plan = cast("Plan", SimpleNamespace(recipe=Recipe()))
    engine = RunEngine(plan, ends, RunOptions(executor=executor), spec)
    try:
        folder = engine._reporting().unanswered
        assert (folder is not None and Path(folder).is_dir()) == reports
    finally:
        engine.close()
    assert folder is None or not Path(folder).exists()


@pytest.mark.slow
@pytest.mark.usefixtures("no_samples")
def test_worker_processes_report_a_server_that_fails(
    our_bucket: Bucket, archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unanswered, "_AFTER_FAILURE", 0.0)
    monkeypatch.setattr(progress, "_REFRESH_SECONDS", 0.05)
    alive = threading.Event()

    def instead(request: web.Request) -> int | None:
        is_chunk = "/in/g/recode/" in request.path and request.path[-1].isdigit()
        return 502 if is_chunk and not alive.is_set() else None

    our_bucket.instead = instead
    source = our_bucket.put("in", files(archive))
    shown: list[Unanswered] = []

    def reviving(event: Event) -> None:
        if isinstance(event, Waiting) and event.unanswered is not None:
            shown.append(event.unanswered)
            alive.set()

    outcome = zarrlift.migrate(
        source,
        tmp_path / "out.zarr",
        storage_options=our_bucket.options,
        executor="processes",
        workers=1,
        progress=reviving,
    )
    assert outcome.ok, outcome.problems
    assert (shown[0].attempt > 1, shown[0].errors) == (True, True)
