"""What the runs of all parts of a job have recorded, taken together."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

from zarrstack.core.errors import Problem

from ...errors import JobError
from ...storage.base import Storage
from ...storage.local.scratch import LAYERED, directory_of
from ...storage.local.storage import LocalStorage
from ..current_status import activity
from ..ledger.ledger import Job
from .run_file import PartRun, TaskRecord, read_run, run_files


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


def tasks_of(runs: Iterable[PartRun], since: Mapping[int, int]) -> dict[tuple[int, int], list[TaskRecord]]:
    """The records of each task, by node and number; `since`: the generations of nodes that are not done."""
    records: dict[tuple[int, int], list[TaskRecord]] = {}
    for run in runs:
        for task in run.tasks:
            if task.node in since and run.generation >= since[task.node]:
                records.setdefault((task.node, task.number), []).append(task)
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
                job.record_task(node, number, last.moved(digest=agreed), synced=True)
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
