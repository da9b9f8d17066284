"""The ledgers of parts: next to the job file, one for each part and boot of a machine.

No ledger is written by two machines, not even if a part is started again on another one while its first
process is still running unnoticed: every machine has its own, and reads the others.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zarrstack.core.errors import JobError, Problem

from ...storage.base import Storage
from ...storage.local.owner_process import OwnerProcess
from ...storage.local.scratch import LAYERED, directory_of
from ...storage.local.storage import LocalStorage
from ..current_status import activity
from ..ledger.database import BROKEN, create_database
from ..ledger.last_run import LastRun, last_run
from ..ledger.ledger import Job
from ..ledger.part_rows import TaskRow
from ..ledger.snapshot import snapshot

if TYPE_CHECKING:
    from ..ledger.stored_file import JobPath

_NAME: Final = re.compile(r"\.part-(?P<index>[0-9]+)-(?P<place>[0-9a-f]+)$")
"""What the name of a ledger adds to that of the job file."""
_DIGITS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class PartLedger:
    """An existing ledger."""

    path: Path
    index: int
    """The index of the part, counted as its job does."""


def ledgers_of(path: JobPath, index: int | None = None) -> list[PartLedger]:
    """The ledgers next to a job file, of one part if given, sorted by part."""
    found = []
    for file in _beside(path):
        match = _NAME.search(file.name)
        if match is not None and index in (None, int(match["index"])):
            found.append(PartLedger(path=file, index=int(match["index"])))
    return sorted(found, key=lambda ledger: (ledger.index, ledger.path.name))


def remove_ledgers(path: JobPath) -> None:
    """Delete the ledgers of a job, and what killed processes left of their files."""
    for file in _beside(path):
        with contextlib.suppress(OSError):
            file.unlink()


def own_ledger(path: Path, job_id: str, index: int) -> Job:
    """This machine's ledger of a part, open for writing; JobError if another process has it."""
    place = _this_machine()
    ledger = path.with_name(f"{path.name}.part-{index:0{_DIGITS}}-{place}")
    own_id = f"{job_id}-{index:0{_DIGITS}}-{place}"
    if not os.path.lexists(ledger):
        # Of two processes that start at the same moment, one creates it.
        new = ledger.with_name(f"{ledger.name}.{os.urandom(4).hex()}")
        create_database(new, {"id": own_id, "state": "incomplete", "plan": "{}"}, (), fsync=True)
        try:
            with contextlib.suppress(FileExistsError):
                os.link(new, ledger)
        except OSError:  # a file system without hard links
            os.rename(new, ledger)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new)
    try:
        opened = Job.open(ledger, fsync=True)  # other machines read it, and this one may fail
    except JobError as error:
        raise JobError.of(_advised(error)) from error
    if opened.id != own_id:
        opened.close()
        raise _of_another_job(ledger)
    return opened


class PartReader:
    """A ledger as others read it."""

    def __init__(self, ledger: PartLedger, opened: Job, destination: Storage | None) -> None:
        self.index = ledger.index
        self.job = opened
        self.run: LastRun | None = last_run(opened)
        crashes = isinstance(destination, LocalStorage)
        self._whole = not crashes or (self.run is not None and self.run.on_this_boot())

    def tasks(self, rounds: Mapping[int, str | None]) -> list[TaskRow]:
        """The recorded tasks of some nodes, given with their rounds, that a crash cannot undo any more.

        Those are tasks of this boot of this machine, and others once their objects have reached the disk.
        """
        nodes = {node for node, number in rounds.items() if number == self.job.parts.round(node)}
        rows = self.job.parts.tasks()
        return [row for row in rows if row.node in nodes and (self._whole or row.synced)]


@contextlib.contextmanager
def readers(
    ledgers: Iterable[PartLedger], job_id: str, destination: Storage | None, problems: list[Problem]
) -> Iterator[Iterator[PartReader]]:
    """Readers of ledgers, one after the other; those that cannot be read are reported in `problems`.

    `destination` is where parts write; None if crashes of their machines do not matter.
    """

    def each(stack: ExitStack) -> Iterator[PartReader]:
        for ledger in ledgers:
            stack.close()
            try:
                opened = stack.enter_context(snapshot(ledger.path))
                if not opened.id.startswith(f"{job_id}-"):
                    raise _of_another_job(ledger.path)
                yield PartReader(ledger, opened, destination)
            except JobError as error:
                problems.append(_advised(error))

    with ExitStack() as stack:
        yield each(stack)


def merge(job: Job, destination: Storage | None, *, forget: bool) -> list[Problem]:
    """Record what parts have done in a job open for writing, or in a copy of it; may be repeated.

    With `forget`, arrays count as failed only if the last run of a part says so. If two ledgers disagree
    about a task, the array is done again. Returns problems of ledgers that cannot be read.
    """
    nodes = {row.id: row for row in job.nodes("array")}
    rounds = {number: job.parts.round(number) for number, row in nodes.items() if row.state != "done"}
    problems: list[Problem] = []
    failures: dict[int, dict[int, tuple[float, tuple[Problem, ...]]]] = {}
    disagreeing: set[int] = set()
    with readers(ledgers_of(job.path), job.id, destination, problems) as found:
        for reader in found:
            try:
                rows = reader.tasks(rounds)
            except JobError as error:
                problems.append(_advised(error))
                continue
            known = {row[:2]: row for row in job.parts.tasks(rows)} if rows else {}
            new = [
                row for row in rows if (before := known.get(row[:2])) is None or row.synced > before.synced
            ]
            disagreeing |= {row.node for row in rows if row[:2] in known and _differs(known[row[:2]], row)}
            job.parts.record(new)
            _keep_last(failures, reader, rounds)
    if forget:
        for array in nodes.values():
            if array.state == "failed":
                job.record_node(array.id, "pending")
    for node, told in failures.items():
        said = [problem for _, those in told.values() for problem in those]
        if said:
            job.record_node(node, "failed", problems=said)
    for node in disagreeing:
        problems.append(_disagreement(nodes[node].path))
        job.forget_tasks(node)
    job.commit()
    return problems


def merge_ended(job: Job, destination: Storage, *, take_over: bool) -> None:
    """Record what parts have done, for one process that does the rest; JobError if a part is running."""
    refuse_running(job.path, job.id, take_over=take_over)
    merge(job, destination, forget=False)


def refuse_running(path: JobPath, job_id: str, *, take_over: bool) -> None:
    """Raise JobError if a part is running, or may be running on another machine."""
    ledgers = ledgers_of(path)
    with readers(ledgers, job_id, None, []) as found:
        for reader in found:
            state = activity(reader.job, reader.run)
            if state == "running" or (state == "unknown" and not take_over):
                assert reader.run is not None
                raise JobError(
                    f"part {reader.index} of this job is running"
                    if state == "running"
                    else f"part {reader.index} of this job may be running on another host",
                    key=str(path),
                    found=str(reader.run.owner),
                    advice="Stop it first."
                    if state == "running"
                    else "If it has certainly ended, use --take-over (in Python take_over=True).",
                )


def sweep_parts(job: Job, destination: Storage) -> None:
    """Remove the ledgers of parts and their partial files, when no part has anything left to do.

    `destination` is the storage without layers.
    """
    if job.fact("parts") is None:
        return
    remove_ledgers(job.path)
    for name in scratch_directories(job, destination):
        shutil.rmtree(name, ignore_errors=True)


def scratch_directories(job: Job, destination: Storage) -> list[str]:
    """Paths of the directories in which parts of a job make objects."""
    if not isinstance(destination, LocalStorage):
        return []
    start = f"{directory_of(job.id)}-"
    try:
        names = os.listdir(destination.root)
    except OSError:
        return []
    return [destination.path(name) for name in names if name.startswith(start) or name == LAYERED]


def _keep_last(
    failures: dict[int, dict[int, tuple[float, tuple[Problem, ...]]]],
    reader: PartReader,
    rounds: Mapping[int, str | None],
) -> None:
    """Add the state of arrays in a ledger, by node and part, unless a later run of the part is known."""
    began = 0.0 if reader.run is None else reader.run.began
    for row in reader.job.nodes("array"):
        if row.id in rounds and rounds[row.id] == reader.job.parts.round(row.id):
            by_part = failures.setdefault(row.id, {})
            if reader.index not in by_part or by_part[reader.index][0] < began:
                by_part[reader.index] = began, row.problems


def _this_machine() -> str:
    """An identifier of this boot of this machine; the names of containers are the same on several."""
    here = OwnerProcess.of_this_process()
    return hashlib.blake2b(f"{here.place} {here.boot}".encode(), digest_size=4).hexdigest()


def _beside(path: JobPath) -> list[Path]:
    """The files next to a job file whose names begin as those of ledgers do; a job in a store has none."""
    if not isinstance(path, Path):
        return []
    start = f"{path.name}.part-"
    try:
        with os.scandir(path.parent) as entries:
            return [path.with_name(entry.name) for entry in entries if entry.name.startswith(start)]
    except OSError:
        return []


def _differs(one: TaskRow, other: TaskRow) -> bool:
    """Whether two records of a task say that different values were written."""
    if one.sums is not None and other.sums is not None and one.sums != other.sums:
        return True
    return (one.chunks, one.dropped) != (other.chunks, other.dropped)


def _disagreement(path: str) -> Problem:
    return Problem(
        kind="job",
        node=path,
        message="two ledgers disagree about a task, so all tasks of the array are forgotten",
        advice="Run the parts again. If this is repeated, the source is changing.",
    )


def _advised(error: JobError) -> Problem:
    """The problem of a ledger, whose loss is not that of a job."""
    problem = error.problem
    if problem.advice != BROKEN:
        return problem
    return replace(problem, advice="Delete it and run the part again: what only it has recorded is repeated.")


def _of_another_job(path: Path) -> JobError:
    return JobError(
        "this ledger belongs to a part of another job",
        key=str(path),
        advice="Delete it: the job file from which it comes no longer exists here.",
    )
