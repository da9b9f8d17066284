"""`status`: the progress of a job, read from its file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from .current_status import current_status
from .ledger.find_job import find_job
from .ledger.ledger import Job
from .parts.part_status import status_of_parts
from .status import Status


def status(
    target: str | os.PathLike[str],
    *,
    job: str | os.PathLike[str] | None = None,
    job_storage_options: Mapping[str, Any] | None = None,
) -> Status:
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
    with Job.open(find_job(target, job, job_storage_options), write=False) as opened:
        if opened.fact("parts") is not None and opened.state == "incomplete":
            return status_of_parts(opened)
        return current_status(opened)
