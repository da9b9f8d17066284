"""Creates a job in parts; collects the work of the parts, and publishes what is complete."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from dataclasses import replace
from typing import Final, Unpack

from zarrstack.core.errors import UsageError

from ...errors import JobError
from ...planning.plans import ArrayPlan, Plan
from ...recipe.keywords import (
    JobPlaceKeywords,
    PlacesKeywords,
    RequestKeywords,
    RunningKeywords,
    TakingOverKeywords,
    WatchingKeywords,
)
from ...recipe.options import JobPlace, PathText, Places, Running, TakingOver, VerifyLevel, Watching
from ...recipe.recipe import Recipe
from ...recipe.signatures import explicit, given
from ...storage.listed_versions import Timestamp
from ...storage.open_storage import Place
from ...storage.transformer_stack import without_layers
from ...transfer.tasks import pass_numbers
from ..archive_run import ArchiveRequest, new_job
from ..claim import claimed
from ..ledger.find_job import job_of_parts
from ..ledger.last_run import noted_run
from ..opened_job import opened, refuse_unsupported, unclaimed_job
from ..ours import require_visible
from ..outcome import Outcome, nothing_to_do
from ..places import refuse_claim_in_source
from ..processes.executors import RunOptions, out_of_reach
from ..progress import ProgressChoice
from ..resume.lost_tasks import find_torn_documents
from ..run_arrays import RunArray, Share
from ..stored_inventories import planned_inventories
from .division import Division
from .migrate_part import divided
from .run_file import merge, run_files, sweep_parts


class _Gathering(JobPlaceKeywords, PlacesKeywords, RunningKeywords, WatchingKeywords):
    """The options of `gather`."""


@explicit
def gather(
    target: PathText,
    *,
    verify: VerifyLevel = "sample",
    progress: ProgressChoice = None,
    **options: Unpack[_Gathering],
) -> Outcome:
    """Record what the parts of a job have done, and verify and publish every array that is complete.

    May be called at any time, also while parts are running, and again. `target` is the job file, the
    destination or the source; the other arguments are those of `resume`. The outcome is "incomplete" as long
    as tasks are missing; `parts_left` contains the parts to run again.

    Raises
    ------
    UsageError
        If the job has no parts.
    JobError
        If another process has it.

    Examples
    --------
    >>> plan = zarrlift.plan_parts("ocean.zarr", "new.zarr", job="parts.db", parts=2)
    >>> outcome = zarrlift.migrate_part("parts.db", 0)
    >>> zarrlift.gather("parts.db").parts_left
    ((1, 2),)
    >>> outcome = zarrlift.migrate_part("parts.db", 1)
    >>> zarrlift.gather("parts.db").state
    'done'
    """
    job, places, running, watching = given(options, JobPlace, Places, Running, Watching)
    unclaimed = unclaimed_job(target, "gather", job, places, RunOptions.of(running), verify=verify)
    with opened(unclaimed, progress, watching) as it:
        current, ends = it.job, it.ends
        if current.state != "incomplete":
            require_visible(current, ends.destination)
            sweep_parts(current, ends.place)
            return it.end(nothing_to_do(current))
        division, plan = divided(current)
        with noted_run(current), closing(planned_inventories(unclaimed.path, current.id)) as inventories:
            # Nothing that is published was checked against the source since the plan was made.
            inventories.began = Timestamp.of_no_time()
            problems = merge(current, forget=True)
            if it.crashed:
                find_torn_documents(current, ends.destination)
            share = GatherShare()
            outcome = it.run_to_end(plan, inventories, share)
        if outcome.state == "done":
            sweep_parts(current, ends.place)
        else:
            missing = share.missing(division)
            outcome = replace(
                outcome,
                problems=(*outcome.problems, *problems),
                parts_left=tuple(missing.items()),
                second_pass=share.second_pass(),
            )
        return it.end(outcome)


class GatherShare(Share):
    """No task: verifies and publishes arrays whose tasks are all recorded."""

    moves = False
    alone = False

    def chosen(self, plan: ArrayPlan, numbers: list[int], *, first_pass: bool) -> list[int]:
        """None."""
        return []

    def must_rewrite(self, array: RunArray) -> bool:
        """Not if the comparison itself failed: all parts would have to repeat what may be right."""
        plan, wrong = array.plan, any(problem.kind != "storage" for problem in array.problems)
        if wrong and (numbers := [*pass_numbers(plan, first_pass=plan.between is not None)]):
            self.left.append((plan, numbers))
        return wrong

    def missing(self, division: Division) -> dict[int, int]:
        """How many tasks of each part can be done and are not, by part, counted from 0."""
        count: Counter[int] = Counter()
        for plan, numbers in self.left:
            count.update(division.part_of(plan, number) for number in numbers)
        return dict(sorted(count.items()))

    def second_pass(self) -> bool:
        """Whether a second pass can be run whose first pass is complete."""
        return any(plan.between is not None and numbers[-1] >= 0 for plan, numbers in self.left)


_MEMORY: Final = 1_000_000_000
"""Default of `memory`: that of the machine which makes the plan says nothing about those of the parts."""


class _Planning(RequestKeywords, PlacesKeywords, TakingOverKeywords):
    """The options of `plan_parts`."""


@explicit
def plan_parts(
    source: Place,
    destination: Place | None = None,
    *,
    job: PathText,
    parts: int,
    recipe: Recipe | None = None,
    **options: Unpack[_Planning],
) -> Plan:
    """Create a job that `parts` processes do, each by `migrate_part`, and claim the destination for it.

    `job` is the path of the job file, which all processes read. Parts count from 0. The other arguments
    are those of `migrate`. The `memory` of the recipe is that of one part, by default 1 GB. Nothing is
    migrated. Returns the plan.

    Raises
    ------
    UsageError
        If there is no archive, or the destination exists.
    JobError
        If the job file exists, or another job has the destination.

    Examples
    --------
    >>> plan = zarrlift.plan_parts("ocean.zarr", "new.zarr", job="parts.db", parts=2)
    >>> len(plan.arrays)
    4
    """
    if parts < 1:
        raise UsageError("a job has at least one part", found=str(parts))
    if destination is None and not options.get("in_place"):
        raise UsageError("a destination is needed", advice="Name one, or use in_place (--in-place).")
    if options.get("overwrite"):
        raise UsageError("a job in parts overwrites nothing", found="--overwrite")
    recipe = recipe or Recipe()
    recipe = replace(recipe, memory=recipe.memory or _MEMORY)
    named = {"source": source, "destination": destination, "recipe": recipe}
    migration, taking_over = given({**options, **named}, ArchiveRequest, TakingOver)
    ends = migration.open()
    refuse_unsupported("divide", ends.destination, in_place=ends.in_place)
    path = job_of_parts(job)
    if ends.access is None:
        raise out_of_reach()
    with claimed(ends.place, path, take_over=taking_over.take_over) as claim:
        if not migration.in_place:
            refuse_claim_in_source(without_layers(ends.source), ends.place, claim.path)
        if claim.new_id is None:
            raise JobError(
                "the job file already exists", key=str(path), advice="Gather it, or undo it first."
            )
        if left := run_files(path):
            raise JobError(
                "parts of an earlier job have left their files",
                key=str(left[0]),
                advice="Delete them.",
            )
        running = RunOptions(fsync=True)
        with new_job(migration, ends, path, claim, running, parts=parts) as (_, plan, _, _):
            pass
        claim.lasting = True
    return plan
