"""Collects the work of the parts of a job, and publishes what is complete."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from dataclasses import replace
from typing import Unpack

from ...planning.plans import ArrayPlan
from ...recipe.keywords import JobPlaceKeywords, PlacesKeywords, RunningKeywords, WatchingKeywords
from ...recipe.options import JobPlace, PathText, Places, Running, VerifyLevel, Watching
from ...recipe.signatures import explicit, given
from ...storage.listed_versions import Timestamp
from ...transfer.tasks import pass_numbers
from ..ledger.last_run import noted_run
from ..opened_job import found_job, opened
from ..ours import require_visible
from ..outcome import Outcome
from ..outcome_of_job import nothing_to_do
from ..processes.executors import RunOptions
from ..progress import ProgressChoice
from ..resume.unsynced_files import find_torn_documents
from ..run_arrays import RunArray, Share
from ..stored_inventories import planned_inventories
from .division import Division
from .merge import merge, sweep_parts
from .migrate_part import divided


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
    found = found_job(target, "gather", job, places, RunOptions.of(running), verify=verify)
    with opened(found, progress, watching) as it:
        current, ends = it.job, it.ends
        if current.state != "incomplete":
            require_visible(current, ends.destination)
            sweep_parts(current, ends.place)
            return it.end(nothing_to_do(current))
        division, plan = divided(current)
        with noted_run(current), closing(planned_inventories(found.path, current.id)) as inventories:
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
