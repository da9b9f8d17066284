"""Opens a job for a verb, by the same steps in one order.

    unclaimed = unclaimed_job(target, "resume", job, places, options)
    with claim_and_open(unclaimed, progress, watching) as open_job:
        return open_job.end(resume_job(open_job))

Verbs that only change a result need no source: `with open_result(target, "undo", ...) as result`. Nothing is
written to a place before it is claimed and everything that may be refused has been looked at.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias

from zarrstack.core.errors import Problem, UsageError, ZarrstackError

from ..core.problems import JoinedProblems
from ..errors import JobError
from ..planning.plans import Plan
from ..recipe.options import (
    JobPlace,
    Moved,
    PathText,
    Places,
    TakingOver,
    VerifyLevel,
    Watching,
    require_readable,
)
from ..storage.base import Storage
from ..storage.local.files import WRITTEN
from ..storage.local.storage import LocalStorage
from ..storage.open_storage import open_storage
from ..storage.transformer_stack import with_layers, without_layers
from .checks import checks_for
from .claim import Claim, claimed, sweep_claim
from .endpoints import Endpoints
from .executors import RunOptions
from .ledger.job_places import find_job
from .ledger.last_run import level_before
from .ledger.ledger import Job
from .outcome import Outcome, OutcomeState, outcome_of_job
from .ownership import require_output
from .progress import Progress, ProgressChoice
from .progress_display import observed
from .refusals import follow_links_in_place, require_root
from .resume.lost_tasks import find_torn_documents, may_be_lost
from .resume.published_arrays import incomplete_arrays
from .resume.relocate import ends_of, follow, settle_result
from .run import OpenJob

Kind: TypeAlias = Literal["directory", "in place", "store", "icechunk"]
"""Where the result of a job is."""
Verb: TypeAlias = Literal["resume", "update", "finish", "undo"]


class Unsupported(NamedTuple):
    """A verb that the jobs of a place do not have."""

    error: type[JobError | UsageError]
    message: str
    advice: str


SUPPORT: Final[Mapping[tuple[Kind, Verb], Unsupported]] = {
    ("icechunk", "update"): Unsupported(
        UsageError,
        "the result of a job in an Icechunk repository cannot be updated",
        "Undo the job and migrate again.",
    ),
}
"""Every other verb is there for every kind of place, whatever the source and the layers on either side."""


def refuse_unsupported(verb: Verb, place: Storage, *, in_place: bool) -> None:
    """Raise the error of a verb that the job of a place does not have; nothing is written."""
    kind: Kind = "directory" if isinstance(place, LocalStorage) else "store"
    kind = "icechunk" if place.on_branch else "in place" if in_place else kind
    refused = SUPPORT.get((kind, verb))
    if refused is not None:
        raise refused.error(refused.message, found=place.url, advice=refused.advice)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnclaimedJob:
    """A job that a user has named, with both of its places opened, neither claimed nor locked."""

    verb: Verb
    path: Path
    ends: Endpoints
    options: RunOptions


def unclaimed_job(
    target: PathText,
    verb: Verb,
    place: JobPlace,
    places: Places,
    options: RunOptions,
    *,
    moved: Moved = Moved(),  # noqa: B008 - frozen
    verify: VerifyLevel | None = None,
    writes: bool = True,
) -> UnclaimedJob:
    """Find a job and open its places, to change its result if it `writes`; JobError.

    Without `verify`, its runs decide how much is compared.
    """
    with Job.open(find_job(target, place), write=False) as job:
        try:
            ends = ends_of(job, target, places, moved, writes=writes)
        except UsageError as error:
            if not (lacking := _lacking(job, places)):
                raise
            raise JobError(JoinedProblems.of((error.problem, *lacking))) from error
        if (moved.source if ends.in_place else moved.destination) is None:
            require_root(job, ends.place)
        options = replace(options, verify=verify or level_before(job))
        refuse_unsupported(verb, ends.destination, in_place=ends.in_place)
        ends = ends.limited(options.limit)
        ends.check_reach(options)
        return UnclaimedJob(verb=verb, path=job.path, ends=ends, options=options)


def _lacking(job: Job, places: Places) -> tuple[Problem, ...]:
    """What published arrays lack of a job whose places cannot be opened: its source may be gone."""
    try:
        return incomplete_arrays(job, places)
    except ZarrstackError:
        return ()


@contextmanager
def claim_and_open(
    unclaimed: UnclaimedJob,
    progress: ProgressChoice,
    watching: Watching = Watching(),  # noqa: B008 - frozen
) -> Iterator[OpenJob]:
    """Claim the places of a found job and open it for writing; JobError."""
    with (
        observed(progress, unclaimed.ends.source.url, unclaimed.ends.destination.url, watching) as display,
        claimed(unclaimed.ends.place, unclaimed.path, take_over=unclaimed.options.take_over) as claim,
        open_claimed(unclaimed, claim, display) as open_job,
    ):
        yield open_job


@contextmanager
def open_claimed(unclaimed: UnclaimedJob, claim: Claim, progress: Progress | None) -> Iterator[OpenJob]:
    """The same for places that are claimed already."""
    ends, options, verb = unclaimed.ends, unclaimed.options, unclaimed.verb
    # The checks start first: a forked process must not inherit the lock on the job.
    with (
        checks_for(ends.source, ends.destination, options.verify) as checks,
        Job.open(unclaimed.path, fsync=options.fsync) as job,
    ):
        if job.fact("undoing") is not None:
            follow(job, ends)  # where the undo goes on
        updates = verb == "update" or job.fact("update") is not None
        (refuse_update if updates else refuse_undone)(job)
        require_readable(job.header["format"])
        ends.destination.attach(job.id)
        follow(job, ends)
        crashed = ends.local_destination is not None and may_be_lost(job)
        if crashed and job.state in ("incomplete", "done"):
            find_torn_documents(job, ends.destination)
        require_output(job, ends.destination)
        yield OpenJob(
            job=job,
            ends=ends,
            options=options,
            checks=checks,
            claim=claim,
            progress=progress,
            crashed=crashed,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenResult:
    """A job open for writing and the place of its result, which is claimed. Its source may be gone."""

    job: Job
    plan: Plan
    place: Storage
    """The destination without layers."""
    storage: Storage
    """The destination."""
    claim: Claim | None
    """None if the verb has been done before."""
    began: float

    def end(
        self,
        state: OutcomeState,
        problems: Iterable[Problem] = (),
        *,
        removed: int = 0,
        restored: int = 0,
    ) -> Outcome:
        """Release the place; the outcome of the verb."""
        outcome = replace(
            outcome_of_job(self.job, self.plan, state, problems),
            removed=removed,
            restored=restored,
            seconds=time.monotonic() - self.began,
        )
        return outcome if self.claim is None else self.claim.end(outcome)


@contextmanager
def open_result(
    target: PathText,
    verb: Literal["finish", "undo"],
    job_place: JobPlace,
    places: Places,
    taking_over: TakingOver,
) -> Iterator[OpenResult]:
    """Find a job, open it for writing, and claim the place of its result; JobError."""
    began, take_over = time.monotonic(), taking_over.take_over
    with Job.open(find_job(target, job_place)) as job:
        settle_result(job, target, places)
        plan = job.plan()
        place = open_storage(
            plan.destination, storage_options=places.of_result(in_place=plan.in_place), mode="w"
        )
        place.document_limit = WRITTEN
        follow_links_in_place(place, follow_links=plan.reading.follow_links, in_place=plan.in_place)
        refuse_unsupported(verb, place, in_place=plan.in_place)
        require_root(job, without_layers(place))
        done = job.state == ("undone" if verb == "undo" else "finished")
        if done:
            sweep_claim(place, job.path)
        with nullcontext() if done else claimed(place, job.path, take_over=take_over) as claim:
            storage = with_layers(place, job.record.dest_through, written=True)
            yield OpenResult(job=job, plan=plan, place=place, storage=storage, claim=claim, began=began)


def refuse_undone(job: Job) -> None:
    """Raise JobError if a job was undone, or in part: objects recorded as written may be deleted."""
    if job.state == "undone":
        raise JobError("this job was undone", key=str(job.path), advice="Start a new one with migrate.")
    if job.fact("undoing") is not None:
        raise JobError(
            "an undo of this job was interrupted, and some of its output may be deleted",
            key=str(job.path),
            advice="Run undo again, then migrate again if you want to.",
        )


def refuse_update(job: Job) -> None:
    """Raise JobError for a job that was undone, or whose source is gone."""
    refuse_undone(job)
    if job.state == "finished":
        raise JobError(
            "there is no source to update from: finish has removed the legacy metadata",
            key=str(job.path),
            advice="Write to the Zarr v3 archive itself.",
        )
