"""Compares the plan of a job with a plan of the present source, node by node.

A resume and an update compare in the same way. What they do with a node is their `Policy`.
"""

from __future__ import annotations

from typing import Protocol

from zarrstack.core.paths import join

from ..planning.plans import ArrayPlan, GroupPlan, Plan, Planned, Refusal
from .ledger.ledger import Job
from .ledger.schema import NodeRow


class Policy(Protocol):
    """What becomes of nodes; each method returns the plan that the job keeps, or None for no such node."""

    def added(self, new: Planned) -> Planned | None:
        """A node that the job does not have."""

    def gone(self, row: NodeRow, earlier: Planned) -> Planned | None:
        """A node that the source no longer has."""

    def compared(self, row: NodeRow, earlier: Planned, new: Planned) -> Planned | None:
        """A node that both plans have."""


def reconcile(job: Job, old: Plan, fresh: Plan, policy: Policy) -> tuple[Planned, ...]:
    """The nodes that a job goes on with, sorted by path."""
    rows = {row.path: row for row in job.nodes()}
    planned = {node.path: node for node in old.nodes}
    current = {node.path: node for node in fresh.nodes}
    chosen: list[Planned | None] = []
    for path in sorted(planned.keys() | current.keys()):
        if path not in planned:
            chosen.append(policy.added(current[path]))
        elif path not in current or (old.in_place and _is_only_result(planned[path], current[path])):
            chosen.append(policy.gone(rows[path], planned[path]))
        else:
            chosen.append(policy.compared(rows[path], planned[path], current[path]))
    return tuple(node for node in chosen if node is not None)


def _is_only_result(earlier: Planned, new: Planned) -> bool:
    """Whether a node, in place, has nothing but the document that the job has published for it."""
    key = join(new.path, "zarr.json")
    is_refused = isinstance(new, Refusal) and not isinstance(earlier, Refusal)
    return is_refused and all(problem.key == key for problem in new.problems)


def same_plan(before: Planned, now: Planned) -> bool:
    """Whether neither the source of a node nor what becomes of it has changed."""
    if isinstance(before, ArrayPlan) and isinstance(now, ArrayPlan):
        return (
            before.source_digests == now.source_digests
            and before.fingerprint == now.fingerprint
            and before.content == now.content
            and before.source.keys == now.source.keys
        )
    if isinstance(before, GroupPlan) and isinstance(now, GroupPlan):
        return before.source_digests == now.source_digests and before.document == now.document
    return isinstance(before, Refusal) and isinstance(now, Refusal) and before == now


def begun(job: Job) -> frozenset[str]:
    """Paths of the nodes that are published, or of which tasks are recorded and none has failed."""
    totals = job.totals()
    return frozenset(
        row.path
        for row in job.nodes()
        if row.state == "done" or (row.state == "pending" and row.id in totals)
    )
