"""What a job reads in all: as planned, corrected by what was read, never less than that."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support import report_examples as examples

from zarrlift.archive import chunk_inventory
from zarrlift.jobs.ledger.rows import TaskTotals, planned_work
from zarrlift.jobs.work_totals import WorkTotal, total_bytes
from zarrlift.planning.routes import Route
from zarrlift.transfer.counts import MoveResult
from zarrlift.transfer.events import ArrayDone, Event, Planned, TaskDone, Waiting

ARRAY = replace(examples.PLAN.arrays[0], bounds=tuple(range(5)), reads=100, chunks=100, bytes_in=1000)
GUESSED = replace(ARRAY, bytes_in_known=False)
UNLISTED = replace(GUESSED, fingerprint=chunk_inventory.UNLISTED)
STAYS = replace(ARRAY, move=replace(ARRAY.move, route=Route(name="stay", shared=0, reason="")), bounds=())


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
    work = WorkTotal(None, [(GUESSED, None), (replace(ARRAY, move=replace(ARRAY.move, path="known")), None)])
    assert work.present({}) == Waiting(total_bytes=2000)
    half = {GUESSED.path: (50, 10_000), "known": (50, 500)}
    shown = replace(work.present(half), seconds_left=None)
    assert shown == Waiting(chunks=100, bytes=10_500, total_bytes=21_000)
