"""The file of one run of a part, beside the job file: lines of JSON that are only appended.

The first line says whose run it is. Records of tasks follow in groups, each ended by a line "synced" that is
written once the objects of these tasks have reached the disk; a task without such a line after it does not
count. A line that a killed run has not completed is ignored. Every run has a file of its own, so no file is
written by two processes or machines, not even if a scheduler starts a part again while it is running. What
the runs of all parts have recorded is then merged.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

from zarrstack.core.errors import Problem

from ...errors import JobError
from ...storage.base import Storage
from ...storage.local.owner_process import OwnerProcess
from ...storage.local.scratch import LAYERED, directory_of
from ...storage.local.storage import LocalStorage
from ...transfer.counts import MoveResult
from .. import log_messages
from ..disk_sync import sync
from ..ledger.database import unwritable
from ..ledger.last_run import LastRun, activity
from ..ledger.ledger import Job

if TYPE_CHECKING:
    from ..ledger.stored_file import JobPath

_SECONDS: Final = 5.0
"""Seconds of work that a killed run repeats at most, besides the tasks that it was doing."""


TaskRecord: TypeAlias = tuple[int, int, MoveResult]
"""(node, number, what was moved) of a task that a run has done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRun:
    """A run of a part, as others read it."""

    path: Path
    part: int
    turn: int
    """One more than those of the runs of the part that it found: the clocks of two machines may differ."""
    generation: int
    """That of the job when the run began: records of nodes that the job has forgotten since do not count."""
    run: LastRun
    tasks: tuple[TaskRecord, ...]
    """The tasks whose objects have reached the disk."""
    failures: dict[int, tuple[Problem, ...]]
    """Problems of arrays that have failed, by node."""

    def order(self) -> tuple[int, float]:
        """Sorts the runs of a part."""
        return self.turn, self.run.began


class RunFile:
    """Writes the file of this run; as a context manager, to its normal end."""

    def __init__(
        self, job: Job, part: int, earlier: Iterable[PartRun], destination: Storage, *, fsync: bool
    ) -> None:
        """`destination` is the storage without layers; `fsync`: tasks that end have reached the disk."""
        from ...storage.local import byte_locks

        suffix = f"{part:03}-{os.urandom(4).hex()}"
        self.id = f"{job.id}-{suffix}"
        """That of the job with those of the part and the run, for names of temporary files."""
        self._path = Path(f"{job.path}.part-{suffix}")
        self._destination = None if fsync or not isinstance(destination, LocalStorage) else destination
        self._waiting: list[object] = []
        """Records of tasks whose objects may not have reached the disk."""
        self._synced = time.monotonic()
        try:
            self._file = self._path.open("xb")
        except OSError as error:
            raise unwritable(self._path, error) from error
        with contextlib.suppress(OSError):  # a file system without locks
            byte_locks.lock_byte(self._file.fileno())
        turn = 1 + max((run.turn for run in earlier), default=0)
        about = {"job": job.id, "part": part, "turn": turn, "generation": int(job.fact("generation") or 0)}
        owner = OwnerProcess.of_this_process().to_json()
        self._append({**about, "owner": owner, "began": time.time()})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        try:
            self.sync(now=True)
            self._append({"ended": time.time()})
        except JobError as failed:  # the run appears killed
            if error is None:
                raise
            log_messages.failed((failed.problem,))
        finally:
            with contextlib.suppress(OSError):
                self._file.close()

    def task(self, node: int, number: int, moved: MoveResult) -> None:
        """Record a task, from the next `sync` on."""
        sums = None if moved.sums is None else moved.sums.hex()
        chunks = 0 if number < 0 else moved.chunks
        record = (node, number, chunks, moved.bytes_in, moved.bytes_out, moved.dropped, sums)
        self._waiting.append({"task": record})

    def failed(self, node: int, problems: Iterable[Problem]) -> None:
        """Record that an array has failed; JobError."""
        self._append({"failed": node, "problems": [problem.to_json() for problem in problems]})

    def sync(self, *, now: bool = False) -> None:
        """Flush the destination and record the tasks done, every few seconds or `now`; JobError."""
        if not self._waiting or (not now and time.monotonic() - self._synced < _SECONDS):
            return
        if self._destination is None or sync(self._destination):
            self._append(*self._waiting, {"synced": len(self._waiting)})
            self._waiting.clear()
            with contextlib.suppress(OSError):
                os.fsync(self._file.fileno())
        self._synced = time.monotonic()

    def _append(self, *lines: object) -> None:
        try:
            self._file.write("".join(json.dumps(line) + "\n" for line in lines).encode())
            self._file.flush()
        except OSError as error:
            raise unwritable(self._path, error) from error


def run_files(path: JobPath, part: int | None = None) -> list[Path]:
    """The files that runs of parts have left beside a job file, or those of one part; none beside a URL."""
    folder, name = os.path.split(path)
    index = "[0-9]{3,}" if part is None else f"{part:03}"
    names = re.compile(rf"{re.escape(name)}\.part-{index}-[0-9a-f]{{8}}")
    try:
        return sorted(Path(entry) for entry in os.scandir(folder) if names.fullmatch(entry.name))
    except OSError:
        return []


def read_run(path: Path, job_id: str) -> PartRun | None:
    """A run of a part; None if it was killed before it wrote anything. JobError."""
    try:
        lines = [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]  # the last is incomplete
        return _parsed(path, job_id, *lines) if lines else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise JobError(
            "the file of a part is damaged",
            key=str(path),
            found=f"{type(error).__name__}: {error}",
            advice="Delete it and run the part again: what only it has recorded is repeated.",
        ) from error


def _parsed(path: Path, job_id: str, head: dict[str, Any], *lines: dict[str, Any]) -> PartRun:
    if head["job"] != job_id:
        raise ValueError(f"it is of job {head['job']}")
    tasks: list[TaskRecord] = []
    synced, ended = 0, None
    failures: dict[int, tuple[Problem, ...]] = {}
    for line in lines:
        if "task" in line:
            node, number, chunks, bytes_in, bytes_out, dropped, sums = line["task"]
            moved = MoveResult(chunks=chunks, bytes_in=bytes_in, bytes_out=bytes_out, dropped=dropped)
            tasks.append((node, number, replace(moved, sums=None if sums is None else bytes.fromhex(sums))))
        elif "synced" in line:
            synced = len(tasks)
        elif "failed" in line:
            failures[line["failed"]] = tuple(map(Problem.from_json, line["problems"]))
        else:
            ended = float(line["ended"])
    owner = OwnerProcess.from_json(head["owner"])
    return PartRun(
        path=path,
        part=head["part"],
        turn=head["turn"],
        generation=head["generation"],
        run=LastRun(owner=owner, began=head["began"], ended=ended, moving=None),
        tasks=tuple(tasks[:synced]),
        failures=failures,
    )


def runs_by_part(job: Job, problems: list[Problem]) -> Iterator[tuple[int, list[PartRun]]]:
    """The runs of each part in their order; `problems` gets those of files that cannot be read."""
    for _, files in groupby(run_files(job.path), lambda path: path.name.rpartition("-")[0]):
        readable = []
        for file in files:
            try:
                readable.append(read_run(file, job.id))
            except JobError as error:
                problems.append(error.problem)
        if runs := sorted(filter(None, readable), key=PartRun.order):
            yield runs[0].part, runs


def tasks_of(runs: Iterable[PartRun], since: Mapping[int, int]) -> dict[tuple[int, int], list[MoveResult]]:
    """The records of each task, by node and number; `since`: the generations of nodes that are not done."""
    records: dict[tuple[int, int], list[MoveResult]] = {}
    for run in runs:
        for node, number, moved in run.tasks:
            if node in since and run.generation >= since[node]:
                records.setdefault((node, number), []).append(moved)
    return records


def merge(job: Job, *, forget: bool) -> list[Problem]:
    """Record what parts have done in a job open for writing, or in a copy of it; may be repeated.

    With `forget`, arrays count as failed only if the last run of a part says so. Of several runs of a task
    the last one counts. What is stored may be of another one, with a codec of another version: if objects are
    missing, that is found as after a crash, and where the digests differ, that of what is stored is taken.
    Returns problems of files that cannot be read.
    """
    nodes = {row.id: row for row in job.nodes("array", done=False)}
    since = {node: row.since for node, row in nodes.items()}
    recorded = {node: job.recorded(node) for node in nodes}
    problems: list[Problem] = []
    failures: dict[int, list[Problem]] = {}
    for _, runs in runs_by_part(job, problems):
        for (node, number), records in tasks_of(runs, since).items():
            last = records[-1]
            agreed = len({record.sums for record in records}) == 1
            if not agreed:
                job.digests.forget(node, number)
            if recorded[node].get(number) != (last.chunks, last.dropped):
                moved = last if agreed else replace(last, sums=None)
                job.record_task(node, number, moved, synced=True)
        for node, run_problems in runs[-1].failures.items():
            if node in since and runs[-1].generation >= since[node]:
                failures.setdefault(node, []).extend(run_problems)
    if forget:
        for row in nodes.values():
            if row.state == "failed":
                job.record_node(row.id, "pending")
    for node, node_problems in failures.items():
        job.record_node(node, "failed", problems=node_problems)
    job.commit()
    return problems


def merge_ended(job: Job, *, take_over: bool) -> None:
    """Record what parts have done, for one process that does the rest; JobError if a part is running."""
    refuse_running(job, take_over=take_over)
    merge(job, forget=False)


def refuse_running(job: Job, *, take_over: bool) -> None:
    """Raise JobError if a part is running, or may be running on another machine."""
    for part, runs in runs_by_part(job, []):
        for run in runs:
            state = activity(run.path, run.run)
            if state == "running" or (state == "unknown" and not take_over):
                is_running, advice = "is running", "Stop it first."
                if state == "unknown":
                    is_running = "may be running on another host"
                    advice = "If it has certainly ended, use --take-over (in Python take_over=True)."
                raise JobError(
                    f"part {part} of this job {is_running}",
                    key=str(job.path),
                    found=str(run.run.owner),
                    advice=advice,
                )


def sweep_parts(job: Job, destination: Storage) -> None:
    """Remove the files of runs of parts and their partial files, when no part has anything left to do.

    `destination` is the storage without layers.
    """
    if job.record.parts is None:
        return
    for file in run_files(job.path):
        with contextlib.suppress(OSError):
            file.unlink()
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
