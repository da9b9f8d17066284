"""Creates a job in parts."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Unpack

from zarrstack.core.errors import UsageError

from ...errors import JobError
from ...planning.plans import Plan
from ...recipe.keywords import PlacesKeywords, RequestKeywords, TakingOverKeywords
from ...recipe.options import PathText, Places, Request, TakingOver
from ...recipe.recipe import Recipe
from ...recipe.signatures import explicit, given
from ...storage.open_storage import Place
from ...storage.transformer_stack import without_layers
from ..archive_run import ArchiveRequest, new_job
from ..claim import claimed
from ..ledger.find_job import job_of_parts
from ..opened_job import refuse_unsupported
from ..places import refuse_claim_in_source
from ..processes.executors import RunOptions, out_of_reach
from .run_file import run_files

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
    request, places, taking_over = given(options, Request, Places, TakingOver)
    if destination is None and not request.in_place:
        raise UsageError("a destination is needed", advice="Name one, or use in_place (--in-place).")
    if request.overwrite:
        raise UsageError("a job in parts overwrites nothing", found="--overwrite")
    recipe = recipe or Recipe()
    migration = ArchiveRequest.of(
        source, destination, replace(recipe, memory=recipe.memory or _MEMORY), request, places
    )
    ends = migration.open()
    refuse_unsupported("divide", ends.destination, in_place=ends.in_place)
    path = job_of_parts(job)
    if ends.spec("", RunOptions()) is None:
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
        running = RunOptions(digest=migration.digest, fsync=True)
        with new_job(migration, ends, path, claim, running, parts=parts) as new:
            plan = new.plan
        claim.lasting = True
    return plan
