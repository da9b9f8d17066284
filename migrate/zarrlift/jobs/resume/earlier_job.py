"""Handles a job file that exists where a migration would create its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zarrstack.core.errors import JobError

from ...formats.describe import read_alike
from ...planning.plans import Plan
from ...recipe.recipe import Recipe
from ..endpoints import Endpoints
from ..ledger.ledger import Job
from ..overwrite import resolve_previous_tree
from ..provenance import Provenance
from ..settled_places import settled
from ..stored_inventories import remove_inventory
from .relocate import follow, has_moved

if TYPE_CHECKING:
    from ..ledger.stored_file import JobPath


def continues_earlier(
    path: JobPath,
    ends: Endpoints,
    recipe: Recipe,
    *,
    overwrite: bool,
    provenance: bool = False,
    ro_crate: bool = False,
) -> bool:
    """Whether the existing job file belongs to this migration; JobError if it belongs to another one.

    A job that was undone, or whose result is to be overwritten, is removed.
    """
    with Job.open(path) as job:
        made = job.plan()
        state = job.state
        refused: JobError | None = None
        same_places = False
        try:
            places = settled(job)
            same_places = made.in_place == ends.in_place and places.are(ends.source.url, ends.destination.url)
        except JobError as error:
            refused = error
        said = Provenance.from_text(job.fact("provenance"))
        written = (False, False) if said is None else (said.in_attribute, said.in_crate)
        same = made.recipe == recipe and read_alike(made.format, made.reading, ends.reading)
        same = same and written == (provenance, ro_crate)
        if same and not same_places and refused is None and has_moved(job, made, ends):
            follow(job, ends)
            same_places = True
        if same and state != "undone" and refused is not None and not overwrite:
            raise refused
        same = same and same_places
        if overwrite and not (same and state == "incomplete"):
            resolve_previous_tree(job, ends.destination)
    if state == "undone" or (overwrite and (state != "incomplete" or not same)):
        path.unlink()
        remove_inventory(path)
        return False
    if not same:
        raise JobError(
            "this destination belongs to a different job",
            key=str(path),
            found=_kind_of_job(made, same_places=same_places),
            advice=f"{'Undo it' if ends.in_place else 'Undo it, use --overwrite'}, or give another --job.",
        )
    return True


def _kind_of_job(made: Plan, *, same_places: bool) -> str:
    if same_places:
        return "a job of the same source and destination with other options"
    return f"{made.source} in place" if made.in_place else f"{made.source} to {made.destination}"
