"""Creates a job in parts."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Final

from zarrstack.core.errors import JobError, UsageError

from ...archive.read_options import ReadOptions
from ...planning.plans import Plan
from ...planning.unapplied_options import refuse_unapplied
from ...recipe.options import Axes, Format, Link
from ...recipe.recipe import Recipe
from ...storage.open_storage import Place
from ...storage.transformer_stack import without_layers
from ..branch import refuse_parts
from ..claim import claimed
from ..endpoints import Endpoints, Options
from ..ledger.find_job import job_of_parts
from ..ledger.ledger import Job
from ..places import refuse_claim_in_source, refuse_closed, refuse_existing
from ..processes.executors import RunOptions, out_of_reach
from ..run_job import refuse_unsuitable
from ..stored_inventories import keep_inventory, new_inventories
from .ledgers import ledgers_of

_MEMORY: Final = 1_000_000_000
"""Default of `memory`: that of the machine which makes the plan says nothing about those of the parts."""


def plan_parts(
    source: Place,
    destination: Place | None = None,
    *,
    job: str | os.PathLike[str],
    parts: int,
    recipe: Recipe | None = None,
    in_place: bool = False,
    format: Format | None = None,
    digest: bool = False,
    link: Link = "auto",
    take_over: bool = False,
    storage_options: Options = None,
    dest_storage_options: Options = None,
    source_through: str | None = None,
    dest_through: str | None = None,
    follow_links: bool = False,
    axes: Axes | None = None,
    allow_fallback: bool = False,
    max_document_size: int | None = None,
    inventory: str | os.PathLike[str] | None = None,
    provenance: bool = False,
    ro_crate: bool = False,
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
    if destination is None and not in_place:
        raise UsageError("a destination is needed", advice="Name one, or use in_place (--in-place).")
    recipe = recipe or Recipe()
    recipe = replace(recipe, memory=recipe.memory or _MEMORY)
    ends = Endpoints.open(
        source,
        destination,
        in_place=in_place,
        reading=ReadOptions.asked(
            follow_links=follow_links,
            axes=axes,
            allow_fallback=allow_fallback,
            max_document_size=max_document_size,
            in_place=in_place,
        ),
        source_options=storage_options,
        destination_options=dest_storage_options,
        source_through=source_through,
        destination_through=dest_through,
    )
    refuse_parts(ends.destination)
    path = job_of_parts(job)
    if ends.spec("", RunOptions()) is None:
        raise out_of_reach()
    with claimed(ends.place, path, take_over=take_over) as claim:
        if not in_place:
            refuse_claim_in_source(without_layers(ends.source), ends.place, claim.path)
        if claim.new_id is None:
            raise JobError(
                "the job file already exists", key=str(path), advice="Gather it, or undo it first."
            )
        if left := ledgers_of(path):
            raise JobError(
                "parts of an earlier job have left their ledgers",
                key=str(left[0].path),
                advice="Delete them.",
            )
        if not in_place:
            refuse_existing(ends.destination)
        refuse_closed(ends.place)
        ends = ends.described(recipe, provenance=provenance, ro_crate=ro_crate)
        facts = {"link": link, "source_place": ends.lasting_place, "parts": str(parts)}
        if digest:
            facts["digest"] = "yes"
        facts |= ends.layers | ends.options
        with closing(new_inventories(path, claim.new_id, ends.source, stored=True)) as inventories:
            given = None if inventory is None else Path(inventory)
            made, _ = ends.plan(recipe, format, inventories=inventories, inventory=given)
            refuse_unsuitable(made)
            refuse_unapplied(made)
            with Job.create(path, made, id=claim.new_id, facts=facts, fsync=True) as created:
                keep_inventory(created, inventories)
        claim.lasting = True
    return made
