"""Migrates one archive: `migrate` is one call of this, a batch one call for each of its archives."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from zarrstack.core.errors import UsageError
from zarrstack.core.json_text import JSON
from zarrstack.system.this import system

from ..errors import JobError, SourceChangedError
from ..formats.describe import read_alike
from ..planning.inventories import Inventories, digest
from ..planning.planner import refuse_existing_documents
from ..planning.plans import Plan
from ..planning.recipe_checks import refuse_unapplied
from ..recipe.options import JobPlace, Places, Request
from ..recipe.recipe import Recipe
from ..recipe.signatures import given
from ..storage.open_storage import Place
from ..storage.transformer_stack import without_layers
from .checks import checks_for
from .claim import Claim, claimed
from .endpoints import Endpoints
from .executors import RunOptions
from .ledger.job_places import job_path
from .ledger.last_run import noted_run
from .ledger.ledger import Job
from .ledger.schema import JobRecord, refuse_closed_folder
from .outcome import Outcome
from .overwrite import resolve_previous_tree, set_aside
from .progress import Progress, listing_shown
from .refusals import (
    refuse_claim_in_source,
    refuse_closed,
    refuse_empty,
    refuse_existing,
    refuse_names,
    refuse_unmet,
    refuse_without_links,
    require_root,
    root_to_record,
)
from .run import OpenJob
from .source_check import keep_inventory, new_inventories, remove_inventory


@dataclass(frozen=True, kw_only=True)
class ArchiveRequest(Request, Places):
    """What to do with one archive, as opposed to how to run it (`RunOptions`)."""

    source: Place
    destination: Place | None = None
    recipe: Recipe = field(default_factory=Recipe)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.in_place and self.overwrite:
            # The existing job may contain documents that `finish` removed.
            raise UsageError("in place there is nothing to overwrite", advice="Undo the earlier job first.")

    def open(self) -> Endpoints:
        """Open both ends; UsageError, StorageError."""
        return Endpoints.open(self.source, self.destination, self, self)

    def preview(self, job: JobPlace) -> Plan:
        """The plan of the job that `migrate` would begin; nothing is written.

        Raises what a new job raises before it writes. An existing job that is continued has its destination
        already.
        """
        ends = self.open()
        path = job_path(ends.beside, ends.destination.url, job) if ends.named or self.in_place else None
        if path is not None and os.path.lexists(path):
            with Job.open(path, write=False) as existing:
                path = None if decide(existing, ends, self) == "resume" else path
        if path is not None:
            self.refuse_places(ends, path)
        return self.planned(ends, is_new=path is not None)

    def refuse_places(self, ends: Endpoints, path: Path) -> None:
        """Raise what a new job with the file at `path` refuses of its places; nothing is written."""
        refuse_closed_folder(path)
        if not self.in_place:
            refuse_existing(ends.destination, overwrite=self.overwrite)
        refuse_closed(ends.place)
        if self.link == "hard":
            refuse_without_links(without_layers(ends.source), ends.place)

    def planned(
        self,
        ends: Endpoints,
        *,
        is_new: bool = True,
        elsewhere: bool = False,
        inventories: Inventories | None = None,
    ) -> Plan:
        """The plan of a job for opened ends.

        Raises what a job refuses of its plan, and a new one of the names in it; nothing is written. The
        problems of the plan include violations of a model.
        """
        plan = ends.plan(self.recipe, self.format, elsewhere=elsewhere, inventories=inventories)
        plan = refuse_existing_documents(plan, ends.source)
        refuse_empty(plan)
        refuse_unapplied(plan)
        if is_new and not self.in_place:
            refuse_names((node.path for node in plan.published), ends.place)
        return plan


def migrate_archive(
    request: ArchiveRequest,
    ends: Endpoints,
    path: Path,
    options: RunOptions,
    progress: Progress | None,
) -> Outcome:
    """Migrate an archive, or resume the job in the file at `path`; errors are those of `migrate`."""
    ends.check_reach(options)
    if os.path.lexists(path) and not request.overwrite:
        try:
            with Job.open(path, write=False) as job:  # before anything is written beside the destination
                require_root(job, ends.place)
        except JobError:
            if os.path.lexists(path):  # else another process has removed the job, which was undone
                raise
    with claimed(ends.place, path, take_over=options.take_over) as claim:
        if not request.in_place:
            refuse_claim_in_source(without_layers(ends.source), ends.place, claim.path)
        decision: Literal["new", "resume", "replace"] = "new"
        if os.path.lexists(path):
            with Job.open(path) as earlier:
                decision = decide(earlier, ends, request)
                if decision == "replace" and request.overwrite:
                    resolve_previous_tree(earlier, ends.destination)
        if decision == "replace":
            system.unlink(str(path))
            remove_inventory(path)
        if decision == "resume":
            from .opened_job import UnclaimedJob, open_claimed
            from .resume.resume_job import resume_job
            from .update.update import changed_since

            existing = UnclaimedJob(verb="resume", path=path, ends=ends, options=options)
            with open_claimed(existing, claim, progress) as open_job:
                outcome = resume_job(open_job)
                if outcome.state == "nothing to do" and outcome.ok and not options.no_list:
                    outcome = replace(outcome, problems=(*outcome.problems, *changed_since(open_job)))
                return open_job.end(outcome)
        with (
            checks_for(ends.source, ends.destination, options.verify) as checks,
            new_job(request, ends, path, claim, options, progress) as (job, plan, inventories),
        ):
            set_aside(job, ends.destination)
            open_job = OpenJob(
                job=job, ends=ends, options=options, checks=checks, claim=claim, progress=progress
            )
            return open_job.end(open_job.run_to_end(plan, inventories))


@contextmanager
def new_job(
    request: ArchiveRequest,
    ends: Endpoints,
    path: Path,
    claim: Claim,
    options: RunOptions,
    progress: Progress | None = None,
) -> Iterator[tuple[Job, Plan, Inventories]]:
    """Make the plan of a job whose place is claimed, and its file, and begin a run of it.

    Nothing is written if something is to be refused.
    """
    request.refuse_places(ends, path)
    job_id = claim.new_id or os.urandom(4).hex()
    with closing(new_inventories(path, job_id, ends.source)) as inventories:
        with listing_shown(progress, lambda: inventories.listed):
            plan = request.planned(ends, elsewhere=options.on_other_machines, inventories=inventories)
        refuse_unmet(plan)
        record = JobRecord(
            link=request.link,
            overwrite=request.overwrite,
            source_through=ends.source_through,
            dest_through=ends.destination_through,
        )
        notes = {"source_place": ends.lasting_place, **ends.options}
        if (root := root_to_record(ends.place, overwrite=request.overwrite)) is not None:
            notes["root"] = root
        claim.require_held()
        job = Job.create(path, plan, id=job_id, record=record, notes=notes, fsync=options.fsync)
        with job, noted_run(job):
            keep_inventory(job, inventories)
            yield job, plan, inventories


def decide(job: Job, ends: Endpoints, request: ArchiveRequest) -> Literal["resume", "replace"]:
    """Whether a migration resumes an existing job or replaces it; changes nothing.

    A new job replaces one that was undone, whose archive was restored, of which everything was refused, or
    whose result is to be overwritten. JobError if the job belongs to another migration.
    """
    from .ownership import is_restored
    from .resume.relocate import refuse_elsewhere  # not loaded by a first run

    plan, state, overwrite = job.plan(), job.state, request.overwrite
    same_places = plan.in_place == ends.in_place and plan.destination == ends.destination.url
    same_places = same_places and ends.source.url in (plan.source, *(each.url for each in job.sources))
    same = plan.recipe == request.recipe and read_alike(plan.format, plan.reading, ends.reading)
    same = same and same_places
    if same and state != "undone" and not overwrite:
        refuse_elsewhere(job)
    if overwrite and not (same and state == "incomplete"):
        return "replace"
    if state == "undone" or (same and not plan.published):
        return "replace"
    if same and plan.in_place and state in ("done", "finished") and is_restored(job, plan, ends.source):
        return "replace"
    if not same:
        raise JobError(
            "this destination belongs to a different job",
            key=str(job.path),
            found=_kind_of_job(plan, request, same_places=same_places),
            advice=f"{'Undo it' if ends.in_place else 'Undo it, use --overwrite'}, or give another --job.",
        )
    return "resume"


def _kind_of_job(plan: Plan, request: ArchiveRequest, *, same_places: bool) -> str:
    if same_places:
        general = [
            {**recipe, **recipe["base"]} for recipe in (plan.recipe.to_json(), request.recipe.to_json())
        ]
        names = {name for each in general for name in each} - {"base"}
        other = sorted(name for name in names if general[0].get(name) != general[1].get(name))
        words = ", ".join(name.replace("_", "-") for name in other) or "way of reading"
        return f"a job of the same source and destination with another {words}"
    return f"{plan.source} in place" if plan.in_place else f"{plan.source} to {plan.destination}"


def source_documents(plan: Plan, source: Place, destination: Place | None, **options: Any) -> dict[str, JSON]:
    """The documents from which a plan was made, by key; text if one is not JSON.

    The other arguments are those of `plan`. SourceChangedError if one has changed since; StorageError.
    """
    named = {"source": source, "destination": destination}
    storage = given({**options, **named}, ArchiveRequest).open().source
    digests = dict(plan.source_digests)
    for node in plan.published:
        digests |= dict(node.source_digests)
    documents: dict[str, JSON] = {}
    for key, content in zip(digests, storage.find_many(list(digests)), strict=True):
        if content is None or digest(content) != digests[key]:
            raise SourceChangedError("the document has changed", key=key, advice="Run the command again.")
        text = content.decode("utf-8", "replace")
        try:
            documents[key] = json.loads(text)
        except (ValueError, RecursionError):
            documents[key] = text
    return documents
