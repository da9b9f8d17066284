"""`status`: the progress of a job, read from its file."""

from __future__ import annotations

from typing import Unpack

from ..recipe.keywords import JobPlaceKeywords
from ..recipe.options import JobPlace, PathText
from ..recipe.signatures import explicit, given
from .current_status import current_status
from .ledger.find_job import find_job
from .ledger.ledger import Job
from .parts.part_status import status_of_parts
from .status import Status


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
    """The status of an open job."""
    if job.fact("parts") is not None and job.state == "incomplete":
        return status_of_parts(job)
    return current_status(job)
