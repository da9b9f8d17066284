"""Merges the stored plan with a plan of the current source, for a resume."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace

import numpy as np

from zarrstack.core.errors import Problem
from zarrstack.core.paths import join

from ...archive.chunk_inventory import take_inventory
from ...planning.inventories import Inventories
from ...planning.plans import ArrayPlan, GroupPlan, Plan, Planned, Refusal, taken_over
from ...storage.base import Storage
from ...transfer.tasks import sweep
from ..ledger.ledger import Job
from ..ours import OWN, keep_document, whose
from ..source_check import source_changed
from .taken_over import TakenOver


def merge(job: Job, old: Plan, fresh: Plan, inventories: Inventories, destination: Storage) -> Plan:
    """The plan to continue with: completed work is kept, failed nodes are planned again.

    If a source changed after part of its work was recorded, the change is reported and the node is left as it
    is. If it changed before, the node is planned again, and the job keeps a warning.
    """
    with closing(TakenOver(job, inventories)) as changes:
        return _merged(job, old, fresh, inventories, destination, changes)


def _merged(
    job: Job, old: Plan, fresh: Plan, inventories: Inventories, destination: Storage, changes: TakenOver
) -> Plan:
    known = {node.path: node for node in old.nodes}
    found = {node.path: node for node in fresh.nodes}
    totals = job.totals()
    problems: list[Problem] = list(fresh.problems)
    chosen: dict[str, Planned] = {}
    for row in job.nodes():
        before, now = known[row.path], found.get(row.path)
        if now is not None and same_plan(before, now):
            chosen[row.path] = before
        elif row.state == "done" or now is None or (row.state == "pending" and row.id in totals):
            chosen[row.path] = before
            inventories.pop(row.path)
            problems.append(source_changed(row.path))
        elif (kept := _document_of_others(job, before, destination)) is not None:
            chosen[row.path] = before
            inventories.pop(row.path)
            problems.append(kept)
        else:
            changes.add(before, now)
            keep_document(job, row, before)
            if isinstance(before, ArrayPlan):
                sweep(before, destination)
                _drop_outside(before, now, destination)
            if isinstance(now, ArrayPlan):
                _drop_stale(now, inventories, destination)
            job.swap_node(row.path, now)
            chosen[row.path] = now
    for path in sorted(found.keys() - known.keys()):
        if _was_hidden(path, known, found):
            job.swap_node(path, found[path])
            chosen[path] = found[path]
        else:
            problems.append(source_changed(path))
    changes.keep()
    job.commit()
    problems += (*taken_over(old.problems), *changes.problems)
    nodes = sorted(chosen.values(), key=lambda node: node.path)
    return replace(
        old,
        arrays=tuple(node for node in nodes if isinstance(node, ArrayPlan)),
        groups=tuple(node for node in nodes if isinstance(node, GroupPlan)),
        refusals=tuple(node for node in nodes if isinstance(node, Refusal)),
        problems=tuple(problems),
    )


def unchanged(job: Job, old: Plan, fresh: Plan) -> bool:
    """Whether the source of all completed or partial work is unchanged."""
    found = {node.path: node for node in fresh.nodes}
    totals = job.totals()
    rows = job.nodes()
    touched = {r.path for r in rows if r.state == "done" or (r.state == "pending" and r.id in totals)}
    return all(
        node.path in found and same_plan(node, found[node.path]) for node in old.nodes if node.path in touched
    )


def _was_hidden(path: str, known: Mapping[str, Planned], found: Mapping[str, Planned]) -> bool:
    """Whether a node was hidden until now because a node above it was refused.

    A directory that cannot be listed, or a broken link, hides everything below it.
    """
    while path:
        path = path.rpartition("/")[0]
        if isinstance(known.get(path), Refusal):
            return path in found and not isinstance(found[path], Refusal)
    return False


def same_plan(before: Planned, now: Planned) -> bool:
    """Whether neither the source of a node nor what becomes of it has changed."""
    if isinstance(before, ArrayPlan) and isinstance(now, ArrayPlan):
        return (
            before.source_digests == now.source_digests
            and before.fingerprint == now.fingerprint
            and before.document == now.document
        )
    if isinstance(before, GroupPlan) and isinstance(now, GroupPlan):
        return before.source_digests == now.source_digests and before.document == now.document
    return isinstance(before, Refusal) and isinstance(now, Refusal) and before == now


def _document_of_others(job: Job, before: Planned, destination: Storage) -> Problem | None:
    """The problem if others have changed a document that a killed run wrote and did not record."""
    if isinstance(before, Refusal):
        return None
    key = join(before.path, "zarr.json")
    content = destination.get(key)
    if content is None or whose(job, before, content) in OWN:
        return None
    return Problem(
        kind="result-changed",
        node=before.path,
        message="the source has changed, and others have changed the document in the result, so it is kept",
        key=key,
        advice="Move it away, then resume.",
    )


def _drop_outside(before: ArrayPlan, now: Planned, destination: Storage) -> None:
    """Delete destination objects of earlier work at keys that the array no longer has, its document first."""
    if before.route.name == "stay":
        return
    destination.delete(join(before.path, "zarr.json"))
    layout = before.destination
    there = take_inventory(destination, before.path, layout).indexes
    after = now.destination if isinstance(now, ArrayPlan) else None
    if after is not None and (after.keys, after.object_shape) == (layout.keys, layout.object_shape):
        there = there[after.objects.indices_of(layout.objects.coordinates_of(there)) < 0]
    for index in there.tolist():
        destination.delete(layout.key(before.path, layout.objects.coordinates(index)))


def _drop_stale(now: ArrayPlan, inventories: Inventories, destination: Storage) -> None:
    """Delete destination objects of earlier work that would not be written again.

    They are known in advance only if each object is made from the source object at the same grid position.
    The document goes first: a run whose last records were lost with its machine may have published the array.
    """
    if now.route.name == "stay":
        return
    destination.delete(join(now.path, "zarr.json"))
    layout = now.destination
    alike = now.move.block_shape is None and not now.move.drop_empty
    inventory = inventories.get(now.path)
    there = take_inventory(destination, now.path, layout).indexes
    stale = there[~np.isin(there, inventory.indexes)] if inventory is not None and alike else there
    for index in stale.tolist():
        destination.delete(layout.key(now.path, layout.objects.coordinates(index)))
