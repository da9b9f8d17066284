"""A batch that is killed, or interrupted, goes on as if nothing had been; `kills.py` does it more often."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.job_archives import results

import zarrlift
from zarrlift.errors import Interrupted
from zarrlift.transfer.events import Ended, Event

KILLED_RUN = Path(__file__).parents[1] / "faults" / "killed_run.py"
WORDS = ("batch", "run", "old", "--to", "v3/{relative}.zarr", "--workers", "1", "-q")


def changes(at: int, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the batch, killed before a change to the folder; 0 counts the changes."""
    words = (sys.executable, str(KILLED_RUN), str(at), str(folder), *WORDS)
    return subprocess.run(words, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_killed_batch_goes_on_to_the_same_trees(old: Path) -> None:
    here = Path().absolute()
    total = int(changes(0, here).stderr.split()[-1])
    calm = results(Path("v3"))
    Path("v3").rename("calm")
    for path in Path().glob("v3.zarrlift.*"):
        path.unlink()
    for share in (10, 25, 50, 75, 95):  # the last ones are resumed runs that are killed again
        ended = changes(max(total * share // 100 // 4, 1), here)
        assert ended.returncode in (-signal.SIGKILL, 1)
        assert ended.returncode == -signal.SIGKILL or share > 10
    made = zarrlift.batch("old", to="v3/{relative}.zarr")
    assert made.outcome.counts == {"done": 5, "failed": 1, "refused": 1}
    assert results(Path("v3")) == calm
    left = [path.name for path in Path("v3").rglob("*.zarrlift*") if not path.name.endswith(".zarrlift.db")]
    assert [name for name in left if not name.endswith(".inventory")] == []


def stop_after(event: Event) -> None:
    """Ctrl-C when the first archive has ended."""
    if isinstance(event, Ended) and event.archive is not None:
        raise KeyboardInterrupt


@pytest.mark.parametrize("workers", [1, 2])
def test_an_interrupted_batch_can_be_resumed(old: Path, workers: int) -> None:
    with pytest.raises(Interrupted) as raised:
        zarrlift.batch("old", to="v3/{relative}.zarr", workers=workers, progress=stop_after)
    made = zarrlift.Batch(raised.value.job)
    assert 0 < made.status().counts["pending"] < 7
    made.resume()
    assert made.outcome.counts == {"done": 5, "failed": 1, "refused": 1}
    zarrlift.batch("old", to="calm/{relative}.zarr")
    assert results(Path("v3")) == results(Path("calm"))
