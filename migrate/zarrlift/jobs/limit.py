"""`limit`: changes the limit of bytes per second of a job while it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

from zarrstack.core.errors import UsageError

from ..errors import JobError
from ..recipe.keywords import JobPlaceKeywords
from ..recipe.options import JobPlace, PathText
from ..recipe.signatures import explicit, given
from ..storage.bandwidth import limit_path, parse_limit, write_limit
from .command_line import command
from .job_status import status_of
from .ledger.find_job import find_job
from .ledger.ledger import Job


@explicit
def limit(target: PathText, rate: str | float, **options: Unpack[JobPlaceKeywords]) -> None:
    """Change the bytes per second of a job that was started with `bwlimit`, or set them for its next run.

    `target` and `job` are as for `status`. `rate` is a text such as "20MB/s", a number of bytes, or "off".
    Workers take up a new limit with their next task, others within a second or two. It stays until the job is
    done; to pause a job, interrupt it and resume it later.

    Raises
    ------
    UsageError
        If it is not a rate, or the job file is in a store.
    JobError
        If there is no such job, if it is done, or if it runs without a limit.

    Examples
    --------
    >>> try:
    ...     outcome = zarrlift.migrate("ocean.zarr", "new.zarr", bwlimit="50MB/s")
    ... except zarrlift.Interrupted:
    ...     zarrlift.limit("new.zarr", "20MB/s")
    """
    new = parse_limit(rate)
    path = find_job(target, given(options, JobPlace))
    if not isinstance(path, Path):
        raise UsageError("the limit of a job whose file is in a store cannot be changed", key=str(path))
    with Job.open(path, write=False) as opened:
        status = status_of(opened)
    file = limit_path(path)
    if not file.exists():
        if status.state != "incomplete":
            raise JobError(
                "the job does not run",
                key=str(path),
                found=f"it is {status.state}",
                advice="Give the next job its limit with --bwlimit.",
            )
        if status.activity in ("running", "unknown") or any(
            part.activity in ("running", "unknown") for part in status.parts
        ):
            again = command("resume", str(path), "--bwlimit", str(rate))
            raise JobError(
                "the job runs without a limit that can be changed",
                key=str(path),
                advice=f"Stop it with Ctrl-C, then run: {again}",
            )
    write_limit(file, new)
