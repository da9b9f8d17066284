"""Opens a job for a verb that goes on with it: resume, update and gather take the same steps, in this order.

    found = found_job(target, "update", job, places, running, moved=moved)
    with claimed(found.ends.place, found.path, take_over=...) as claim, open_job(found, progress) as it:
        return claim.end(...)

Nothing is written before the places are claimed and everything that may be refused has been looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from zarrstack.core.errors import JobError, UsageError

from ..recipe.format_names import require_installed
from ..recipe.options import JobPlace, Moved, PathText, Places, Running, VerifyLevel
from .checks.checks import Checks
from .checks.checks_for import checks_for
from .endpoints import Endpoints
from .ledger.find_job import find_job, refuse_undone
from .ledger.last_run import level_before
from .ledger.ledger import Job
from .processes.executors import RunOptions
from .progress import Progress
from .provenance import Provenance
from .resume.relocate import ends_of, follow
from .resume.unsynced_files import find_torn_documents, may_be_lost
from .run_job import still_there

if TYPE_CHECKING:
    from .ledger.stored_file import JobPath

Verb: TypeAlias = Literal["resume", "update", "parts"]
"""`parts`: to divide a job, to do a part, and to gather."""

_NOT_ON_A_BRANCH: Final[Mapping[Verb, tuple[str, str]]] = {
    "update": (
        "the result of a job in an Icechunk repository cannot be updated",
        "Undo the job and migrate again.",
    ),
    "parts": ("a job in parts cannot write to an Icechunk repository", "Use migrate without parts."),
}
"""Verbs that a destination with a branch does not have: what is said, and what to do."""


def refuse_unsupported(verb: Verb, ends: Endpoints) -> None:
    """Raise UsageError if the destination of a job does not have a verb; nothing is written."""
    if ends.destination.on_branch and verb in _NOT_ON_A_BRANCH:
        message, advice = _NOT_ON_A_BRANCH[verb]
        raise UsageError(message, found=ends.destination.url, advice=advice)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundJob:
    """A job that a user has named, with both of its places opened; it is neither claimed nor locked."""

    verb: Verb
    path: JobPath
    ends: Endpoints
    options: RunOptions


def found_job(
    target: PathText,
    verb: Verb,
    job: JobPlace,
    places: Places,
    running: Running,
    *,
    moved: Moved = Moved(),  # noqa: B008 - frozen
    verify: VerifyLevel | None = None,
) -> FoundJob:
    """Find a job and open its places; without `verify`, its runs decide how much is compared. JobError."""
    path = find_job(target, job)
    return found_at(path, target, verb, places, RunOptions.of(running), moved=moved, verify=verify)


def found_at(
    path: JobPath,
    target: PathText,
    verb: Verb,
    places: Places,
    options: RunOptions,
    *,
    moved: Moved = Moved(),  # noqa: B008 - frozen
    verify: VerifyLevel | None = None,
) -> FoundJob:
    """The same for a job whose file is known."""
    with Job.open(path, write=False) as looked:
        if verb == "parts":
            require_parts(looked)
        ends = ends_of(looked, target, places, moved)
        level = verify or level_before(looked)
        options = replace(options, verify=level, hard_links=looked.fact("link") == "hard")
    refuse_unsupported(verb, ends)
    ends.check_reach(options)
    return FoundJob(verb=verb, path=path, ends=ends, options=options)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenJob:
    """A job open for writing, whose places are claimed and are what it says."""

    job: Job
    ends: Endpoints
    options: RunOptions
    checks: Checks
    progress: Progress | None
    crashed: bool
    """Whether files of its last run may not have reached the disk."""


@contextmanager
def open_job(found: FoundJob, progress: Progress | None) -> Iterator[OpenJob]:
    """Open a found job for writing, once its places are claimed; JobError."""
    ends, options = found.ends, found.options
    # The checks start first: a forked process must not inherit the lock on the job.
    with (
        checks_for(ends.source, ends.destination, options.verify) as checks,
        Job.open(found.path, fsync=options.fsync) as job,
    ):
        updates = found.verb == "update" or job.fact("update") is not None
        (refuse_update if updates else refuse_undone)(job)
        require_installed(job.header["format"], job.header.get("package"))
        ends.destination.attach(job.id)
        follow(job, ends)
        ends = replace(ends, provenance=Provenance.from_text(job.fact("provenance")))
        if job.fact("parts") is not None and found.verb == "resume" and not updates:
            from .parts.merge import merge_ended

            merge_ended(job, take_over=options.take_over)
        crashed = ends.local_destination is not None and may_be_lost(job)
        if crashed and job.state == "incomplete" and found.verb != "parts":
            find_torn_documents(job, ends.destination)
        still_there(job, ends)
        digest = options.digest or job.fact("digest") is not None
        if digest and job.fact("digest") is None and job.state == "incomplete":
            job.note(digest="yes")
        yield OpenJob(
            job=job,
            ends=ends,
            options=replace(options, digest=digest),
            checks=checks,
            progress=progress,
            crashed=crashed,
        )


def require_parts(job: Job) -> int:
    """The number of parts of a job; UsageError if it has none."""
    parts = job.fact("parts")
    if parts is None:
        raise UsageError(
            "this job has no parts",
            key=str(job.path),
            advice="Make it with: zarrlift migrate --job --parts.",
        )
    return int(parts)


def refuse_update(job: Job) -> None:
    """Raise JobError for a job that was undone, or whose source is gone."""
    refuse_undone(job)
    if job.fact("parts") is not None and job.state == "incomplete" and job.fact("update") is None:
        raise JobError(
            "the parts of this job are not complete", key=str(job.path), advice="Gather them first."
        )
    if job.state == "finished":
        raise JobError(
            "there is no source to update from: finish has removed the legacy metadata",
            key=str(job.path),
            advice="Write to the Zarr v3 archive itself.",
        )
