"""The last run of a job, as recorded in its ledger: its process, start time, and normal end if any.

From these follows what an incomplete job is doing now.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Literal, Self, TypeAlias

from zarrstack.system.this import system

from ...errors import JobError
from ...recipe.options import VerifyLevel
from ...storage.local.owner_process import OwnerProcess
from .ledger import Job
from .schema import TaskTotals

_PACKAGES: Final = ("zarr", "numcodecs", "numpy", "fsspec", "obstore")
"""Packages whose versions matter for what a job writes."""

Activity: TypeAlias = Literal["running", "stopped", "stale", "unknown"]
"""`running`: a process runs the job. `stopped`: the last run ended normally, by an error or by Ctrl-C.
`stale`: it was killed. `unknown`: its process cannot be observed from here, or its host was restarted, and no
end is recorded.
"""
_LEVELS: Final = ("none", "sample", "full")


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRun:
    """A run of a job, which is one note of the job."""

    owner: OwnerProcess
    number: int = 1
    """How many runs there were, with this one."""
    began: float
    """Unix time in seconds, as in the following fields."""
    ended: float | None = None
    """Time of a normal end, an error or Ctrl-C; None while it runs, or if it was killed."""
    moving: float | None = None
    """Time at which chunks started to move; None while the source is read for planning."""
    bytes_before: int = 0
    """Bytes of the source recorded by earlier runs."""
    seconds: float = 0.0
    """Duration of all runs that have ended, and of this one once it has."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Versions of packages."""

    def rate(self, done: int, updated: float) -> float | None:
        """Average bytes per second since chunks started to move, until the last record; None if unknown."""
        if self.moving is None or updated <= self.moving or done <= self.bytes_before:
            return None
        return (done - self.bytes_before) / (updated - self.moving)

    def to_text(self) -> str:
        """JSON, as stored in the job."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Inverse of `to_text`; ValueError, TypeError."""
        data = json.loads(text)
        return cls(**{**data, "owner": OwnerProcess.from_json(data["owner"])})


@contextmanager
def noted_run(job: Job) -> Iterator[None]:
    """Record the beginning and the end of a run in the ledger of a job open for writing."""
    before = last_run(job)
    run = LastRun(
        owner=OwnerProcess.of_this_process(),
        number=1 if job.fact("run") is None else (1 if before is None else before.number) + 1,
        began=time.time(),
        seconds=seconds_spent(job),
        versions=_versions(),
    )
    job.note(run=run.to_text(), silent=None, under_way=None, rate=None)
    job.commit()
    try:
        yield
    finally:
        with contextlib.suppress(JobError):  # the disk is full: the run appears killed, the safe reading
            now = time.time()
            _note(job, ended=now, seconds=run.seconds + max(now - run.began, 0.0), versions=_versions())
            job.commit()


def _note(job: Job, **changes: Any) -> None:
    """Change what is recorded of the present run."""
    run = last_run(job)
    if run is not None:
        job.note(run=replace(run, **changes).to_text())


def seconds_spent(job: Job) -> float:
    """Duration of all runs of a job; a run that was killed, or is not over, counts up to its last record."""
    run = last_run(job)
    if run is None or run.ended is not None:
        return 0.0 if run is None else run.seconds
    return run.seconds + max(float(job.fact("updated") or 0) - run.began, 0.0)


def _versions() -> dict[str, str]:
    """Versions of Python and of the packages, so far as they are loaded."""
    from zarrstack.version import __version__

    loaded = {name: getattr(sys.modules.get(name), "__version__", None) for name in _PACKAGES}
    versions = {name: version for name, version in loaded.items() if isinstance(version, str)}
    return {"zarrlift": __version__, "python": platform.python_version(), **versions}


def note_moving(job: Job, totals: Mapping[int, TaskTotals], level: VerifyLevel) -> None:
    """Record that chunks start to move; `totals` sum up what is recorded. Durable at the next commit.

    Of the levels at which runs verify arrays before they publish them, the job keeps the lowest.
    """
    _note(job, moving=time.time(), bytes_before=sum(done.bytes_in for done in totals.values()))
    job.note(checked=min(level, job.fact("checked") or level, key=_LEVELS.index))


def level_before(job: Job) -> VerifyLevel:
    """The level at which earlier runs verify arrays, for a run that names none."""
    return next((level for level in _LEVELS if level == job.fact("checked")), "sample")


def last_run(job: Job) -> LastRun | None:
    """The last run of a job; None if there was none."""
    try:
        return LastRun.from_text(job.fact("run") or "null")
    except (ValueError, TypeError, KeyError):
        return None


def activity(path: os.PathLike[str], run: LastRun | None) -> Activity:
    """The activity of an incomplete job, from the process of its last run or from the lock on the file."""
    if run is not None and run.ended is not None:
        return "stopped"
    state = "unknown" if run is None else run.owner.state()
    if state == "running":
        return "running"
    if state == "unknown" and is_locked(path):
        return "running"
    if run is None:
        return "stopped"
    return "stale" if state == "ended" else "unknown"


def is_locked(path: os.PathLike[str]) -> bool:
    """Whether another process has locked a job file for writing.

    Some file systems share locks across hosts.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        return system.is_locked_beside_sqlite(descriptor)
    finally:
        os.close(descriptor)
