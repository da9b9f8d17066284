"""The status of a job in parts."""

from __future__ import annotations

from ..current_status import activity, current_status
from ..ledger.ledger import Job
from ..status import PartStatus, Status
from .merge import merge, runs_by_part, tasks_of


def status_of_parts(job: Job) -> Status:
    """The status of an open job with what its parts have recorded; changes nothing."""
    count = job.record.parts or 0
    parts = {index: PartStatus(part=index, activity=None) for index in range(count)}
    since = {row.id: row.since for row in job.nodes("array", done=False)}
    for index, runs in runs_by_part(job, []):
        last = runs[-1]
        parts[index] = PartStatus(
            part=index,
            activity=activity(last.path, last.run),
            tasks=len(tasks_of(runs, since)),
            host=last.run.owner.host,
        )
    with job.copy() as copied:
        merge(copied, forget=False)
        return current_status(copied, tuple(parts.values()))
