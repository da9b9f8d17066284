"""The last run of a job, as recorded in its ledger: its process, start time, and normal end if any."""

from __future__ import annotations

import contextlib
import json
import platform
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from zarrstack.core.errors import JobError

from ...recipe.options import VerifyLevel
from ...storage.local.owner_process import OwnerProcess
from .ledger import Job
from .rows import TaskTotals

_PACKAGES: Final = ("zarr", "numcodecs", "numpy", "fsspec", "obstore")
"""Packages whose versions matter for what a job writes."""

_LEVELS: Final = ("none", "sample", "full")


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRun:
    """A run of a job."""

    owner: OwnerProcess
    began: float
    """Unix time in seconds, as in the following fields."""
    ended: float | None
    """Time of a normal end, an error or Ctrl-C; None while it runs, or if it was killed."""
    moving: float | None
    """Time at which chunks started to move; None while the source is read for planning."""
    bytes_before: int = 0
    """Bytes of the source recorded by earlier runs."""

    def on_this_boot(self) -> bool:
        """Whether it was on this machine since the machine was started; False if that is unknown."""
        here = OwnerProcess.of_this_process()
        return bool(here.boot) and (self.owner.place, self.owner.boot) == (here.place, here.boot)


@contextmanager
def noted_run(job: Job) -> Iterator[None]:
    """Record the beginning and the end of a run in the ledger of a job open for writing."""
    spent, began = seconds_spent(job), time.time()
    job.note(
        runs=str(int(job.fact("runs") or 0) + 1),
        seconds=repr(spent),
        versions=json.dumps(_versions()),
        run_owner=json.dumps(OwnerProcess.of_this_process().to_json()),
        run_began=repr(began),
        run_ended=None,
        run_moving=None,
        silent=None,
    )
    job.commit()
    try:
        yield
    finally:
        with contextlib.suppress(JobError):  # the disk is full: the run appears killed, the safe reading
            now = time.time()
            spent += max(now - began, 0.0)
            job.note(run_ended=repr(now), seconds=repr(spent), versions=json.dumps(_versions()))
            job.commit()


def seconds_spent(job: Job) -> float:
    """Duration of all runs of a job; a run that was killed, or is not over, counts up to its last record."""
    spent, run = float(job.fact("seconds") or 0), last_run(job)
    if run is not None and run.ended is None:
        spent += max(float(job.fact("updated") or 0) - run.began, 0.0)
    return spent


def _versions() -> dict[str, str]:
    """Versions of Python and of the packages, so far as they are loaded."""
    from zarrstack.version import __version__

    loaded = {name: getattr(sys.modules.get(name), "__version__", None) for name in _PACKAGES}
    found = {name: version for name, version in loaded.items() if isinstance(version, str)}
    return {"zarrlift": __version__, "python": platform.python_version(), **found}


def refuse_running(job: Job) -> None:
    """Raise JobError if a run may still write the job in a store; elsewhere a lock excludes this."""
    run = last_run(job)
    if isinstance(job.path, Path) or run is None or run.ended is not None or run.owner.state() == "ended":
        return
    raise JobError(
        "another process may be running this job",
        key=str(job.path),
        found=str(run.owner),
        advice="Wait for it, or resume the job if it has ended.",
    )


def note_moving(job: Job, totals: Mapping[int, TaskTotals], level: VerifyLevel) -> None:
    """Record that chunks start to move; `totals` sum up what is recorded. Durable at the next commit.

    Of the levels at which runs verify arrays before they publish them, the job keeps the lowest.
    """
    job.note(
        run_moving=repr(time.time()),
        run_bytes=str(sum(done.bytes_in for done in totals.values())),
        checked=min(level, job.fact("checked") or level, key=_LEVELS.index),
    )


def level_before(job: Job) -> VerifyLevel:
    """The level at which earlier runs verify arrays, for a run that names none."""
    return next((level for level in _LEVELS if level == job.fact("checked")), "sample")


def last_run(job: Job) -> LastRun | None:
    """The last run of a job; None if there was none."""
    owner, began = job.fact("run_owner"), job.fact("run_began")
    if owner is None or began is None:
        return None
    try:
        ended, moving = (
            None if text is None else float(text) for text in (job.fact("run_ended"), job.fact("run_moving"))
        )
        return LastRun(
            owner=OwnerProcess.from_json(json.loads(owner)),
            began=float(began),
            ended=ended,
            moving=moving,
            bytes_before=int(job.fact("run_bytes") or 0),
        )
    except ValueError:
        return None
