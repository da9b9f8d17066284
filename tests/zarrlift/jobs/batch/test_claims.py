"""Processes that run one list take archives that no other one has claimed, and leave the others to them."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

import zarrlift
from zarrlift.cli import main
from zarrlift.jobs.claim_holder import ClaimHolder
from zarrlift.storage.local.owner_process import OwnerProcess

TO = "v3/{relative}.zarr"
HERE = OwnerProcess.of_this_process()
RUNNING = replace(HERE, pid=1, started=Path("/proc/1/stat").read_text().rpartition(")")[2].split()[19])
ELSEWHERE = replace(HERE, host="node7", machine="another", pid=4711)


def hold(destination: str, owner: OwnerProcess) -> None:
    """Claim a destination for another process."""
    path = Path(destination)
    path.parent.mkdir(parents=True, exist_ok=True)
    holder = ClaimHolder(token="1", job="0" * 8, file=f"{path}.zarrlift.db", owner=owner, since=0.0)
    path.with_name(f"{path.name}.zarrlift.claim").write_bytes(holder.to_bytes())


@pytest.fixture
def planned(old: Path) -> zarrlift.Batch:
    """Two archives."""
    return zarrlift.batch("old/a", to=TO, run=False)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_an_archive_that_another_process_has_claimed_is_left_to_it(
    planned: zarrlift.Batch, capsys: pytest.CaptureFixture[str]
) -> None:
    hold(planned.rows[0].destination, RUNNING)
    outcome = planned.run()
    assert outcome.counts == {"done": 1, "pending": 1}
    assert [row.running for row in outcome.rows] == [True, False]
    assert (outcome.ran, outcome.left, outcome.state, outcome.ok) == (1, 1, "incomplete", True)
    assert not planned.status().ok
    assert main(["batch", "run", str(planned.path)]) == 0
    assert "left to other processes, which have claimed them: 1 archive" in capsys.readouterr().out
    assert main(["status", "v3", "--check"]) == 1


def test_a_claim_of_another_machine_is_a_failure_unless_a_scheduler_reports_the_dead(
    planned: zarrlift.Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold(planned.rows[0].destination, ELSEWHERE)
    outcome = planned.run()
    assert outcome.counts == {"done": 1, "failed": 1}
    assert "--take-over" in str(outcome.rows[0].problems[0])
    monkeypatch.setenv("LSB_JOBID", "17")
    outcome = planned.run()
    assert outcome.ok
    assert (outcome.ran, outcome.rows[0].running) == (0, True)
    assert planned.run(take_over=True).state == "done"


def test_an_archive_that_another_process_has_done_meanwhile_is_not_done_again(
    planned: zarrlift.Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    from zarrlift.jobs.batch import run_batch

    once = run_batch.BatchRun._archive

    def late(self: run_batch.BatchRun, row: zarrlift.BatchRow, options: run_batch.RunOptions):
        if row.number == 1:
            assert zarrlift.migrate(row.source, row.destination).state == "done"
        return once(self, row, options)

    monkeypatch.setattr(run_batch.BatchRun, "_archive", late)
    outcome = planned.run(workers=1)
    assert (outcome.ran, outcome.state) == (1, "done")
