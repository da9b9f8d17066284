"""`status`: the progress of a job, read from its file."""

from __future__ import annotations

from typing import Unpack

from ..recipe.keywords import JobPlaceKeywords
from ..recipe.options import JobPlace, PathText
from ..recipe.signatures import explicit, given
from .current_status import activity, current_status
from .ledger.find_job import find_job
from .ledger.ledger import Job
from .parts.merge import merge, runs_by_part, tasks_of
from .status import PartStatus, Status


@explicit
def status(target: PathText, **options: Unpack[JobPlaceKeywords]) -> Status:
    """Return the status of a job; a running job is not affected.

    `target` is the job file (a path, or a URL with `job_storage_options`), the destination or the source;
    `job` names the job file of a destination or source if it is not where jobs are looked for.

    Raises
    ------
    JobError
        If there is no such job.

    Examples
    --------
    >>> outcome = zarrlift.migrate("ocean.zarr", "new.zarr")
    >>> status = zarrlift.status("new.zarr")
    >>> status.state, status.bytes_done == status.bytes_total
    ('done', True)
    """
    with Job.open(find_job(target, given(options, JobPlace)), write=False) as opened:
        return status_of(opened)


def status_of(job: Job) -> Status:
    """The status of an open job, with what its parts have recorded; changes nothing."""
    if job.record.parts is None or job.state != "incomplete":
        return current_status(job)
    parts = {index: PartStatus(part=index, activity=None) for index in range(job.record.parts)}
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
