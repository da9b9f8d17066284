"""What an update does, node by node: decided before anything is changed."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

import numpy as np

from zarrstack.core.errors import Problem
from zarrstack.core.json_text import JSONObject

from ...archive.chunk_inventory import Indexes, Inventory
from ...core.json_fields import FieldsAsJSON
from ...core.problems import any_refusal
from ...planning.inventories import Inventories
from ...planning.plans import ArrayPlan, GroupPlan, Plan, Planned, Refusal
from ...recipe.options import Updating
from ...storage.base import Storage
from ..ledger.ledger import Job
from ..ledger.schema import NodeRow
from ..ownership import Conflicts
from ..reconcile import Policy, same_plan
from .objects import inside, interrupted, moved_again, outside, same_form, updating, with_earlier_shape

Action: TypeAlias = Literal["new", "changed", "replaced", "removed", "kept"]
"""`new`: the node comes. `changed`: objects that differ are replaced one by one, or only its document is.
`replaced`: an array is hidden and made as a whole. `removed`: the source no longer has it. `kept`: it is left
as it is, for the reason in its problems.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeUpdate(FieldsAsJSON):
    """What an update does with one node.

    Examples
    --------
    >>> zarrlift.migrate("ocean.zarr", "new.zarr").ok
    True
    >>> zarr.open_array("ocean.zarr", path="time", mode="r+")[0] = 1
    >>> [(node.path, node.action) for node in zarrlift.plan_update("new.zarr").nodes]
    [('time', 'changed')]
    """

    path: str
    kind: Literal["array", "group"]
    action: Action
    objects: int = 0
    """Number of source objects to read."""
    bytes: int = 0
    """Their stored size."""
    visible: bool = False
    """Whether readers see objects replaced one by one."""
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdatePlan:
    """What an update would do.

    Examples
    --------
    >>> zarrlift.migrate("ocean.zarr", "new.zarr").ok
    True
    >>> plan = zarrlift.plan_update("new.zarr")
    >>> plan.nodes, plan.bytes, plan.kept
    ((), 0, False)
    """

    job: str
    """Path of the job file."""
    nodes: tuple[NodeUpdate, ...]
    """The nodes that differ, sorted by path."""

    @property
    def objects(self) -> int:
        """Number of source objects to read."""
        return sum(node.objects for node in self.nodes)

    @property
    def bytes(self) -> int:
        """Their stored size."""
        return sum(node.bytes for node in self.nodes)

    @property
    def kept(self) -> bool:
        """Whether nodes are left as they are that should be changed."""
        return any_refusal(problem for node in self.nodes for problem in node.problems)

    def to_json(self) -> JSONObject:
        """JSON for machines."""
        return {
            "job": self.job,
            "objects": self.objects,
            "bytes": self.bytes,
            "nodes": [node.to_json() for node in self.nodes],
        }


@dataclass(slots=True, kw_only=True)
class Steps:
    """All that an update does."""

    nodes: list[NodeUpdate] = field(default_factory=list)
    swapped: list[tuple[Planned | None, Planned]] = field(default_factory=list)
    """(earlier plan, if any, new plan) of nodes whose earlier result stays visible until they are done."""
    hidden: list[tuple[Planned, Planned]] = field(default_factory=list)
    """(earlier plan, new plan) of nodes whose earlier result is removed first."""
    removed: list[Planned] = field(default_factory=list)
    """Earlier plans of nodes that are removed."""

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The reasons why nodes are left as they are."""
        return tuple(problem for node in self.nodes for problem in node.problems)

    @property
    def keeps_root(self) -> bool:
        """Whether the document of the root is left as it is."""
        return any(node.action == "kept" and not node.path for node in self.nodes)

    @property
    def any(self) -> bool:
        """Whether anything is to be done."""
        return bool(self.swapped or self.hidden or self.removed)


class UpdatePolicy(Policy):
    """What an update does with each node; `steps` has what leads to it."""

    def __init__(
        self,
        job: Job,
        old: Plan,
        fresh: Plan,
        before: Inventories,
        now: Inventories,
        ends: tuple[Storage, Storage],
        updating: Updating,
        incomplete: Collection[str | None] = (),
    ) -> None:
        """`old` is the plan of the job, `fresh` one of the present source; `ends` are both places.

        `before` has the inventories of the last run, `now` those of the fresh plan. `incomplete` are the
        paths of arrays that are written again as a whole.
        """
        self._rows = {row.path: row for row in job.nodes()}
        self._old = {node.path: node for node in old.nodes}
        self._before, self._now = before, now
        self._source, self._destination = ends
        self._updating = updating
        self._incomplete = incomplete
        self._consolidates = fresh.consolidate
        self._reconsolidated = fresh.consolidate != old.consolidate
        self._conflicts = Conflicts(job, old, *ends)
        self.steps = Steps()

    def keep_root(self, plan: Plan) -> None:
        """Leave a root that others have changed as it is, although what it says of others differs now."""
        root = plan.root
        row, earlier = self._rows.get(""), self._old.get("")
        if root is None or root is not earlier or row is None or not self._consolidates:
            return
        if row.state != "done":
            return
        if self.steps.any:
            self._is_left(root, self._conflicts.of_document(row, root))
        elif any(self._conflicts.of_document(row, root)):  # arrays are only repaired
            self._keep(root, ())

    def added(self, new: Planned) -> Planned | None:
        """Write it, unless others have put something there."""
        conflicts = () if isinstance(new, Refusal) else tuple(self._conflicts.in_the_way(new))
        if conflicts and not self._updating.force:
            self._keep(new, conflicts)
            return None
        if conflicts:
            self.steps.hidden.append((new, new))
        else:
            self.steps.swapped.append((None, new))
        self._record(new, "new")
        return new

    def gone(self, row: NodeRow, earlier: Planned) -> Planned | None:
        """Remove it if that is asked for."""
        if isinstance(earlier, Refusal):
            self.steps.removed.append(earlier)
            return None
        if not self._updating.delete:
            problem = Problem(
                kind="removed",
                severity="warning",
                node=earlier.path,
                message="the source no longer has this node, and the result keeps it",
                advice="To remove it too: update with --delete.",
            )
            return self._keep(earlier, (problem,))
        if self._is_left(earlier, self._conflicts.of_all(earlier)):
            return earlier
        self.steps.removed.append(earlier)
        self._record(earlier, "removed")
        return None

    def compared(self, row: NodeRow, earlier: Planned, new: Planned) -> Planned | None:
        """Replace what differs."""
        if row.state != "done":
            return self._unfinished(row, earlier, new)
        if isinstance(new, Refusal):
            return self._keep(earlier, new.problems)
        if isinstance(earlier, GroupPlan) and isinstance(new, GroupPlan):
            return self._groups(row, earlier, new)
        if isinstance(earlier, ArrayPlan) and isinstance(new, ArrayPlan):
            if new.path in self._incomplete and new.route.name != "stay":
                return self._replace(earlier, new)
            whole = replace(earlier, changes=None)
            plan = self._arrays(row, whole, new)
            return earlier if plan is whole else plan  # its recorded tasks are those of its last update
        return self._replace(earlier, new)

    def _groups(self, row: NodeRow, earlier: GroupPlan, new: GroupPlan) -> Planned:
        files = sum(self._source.get(key) != self._destination.get(key) for key in new.files)
        if same_plan(earlier, new) and not files and (new.path or not self._reconsolidated):
            return earlier
        return self._swap(earlier, new, self._conflicts.of_document(row, earlier), objects=files)

    def _arrays(self, row: NodeRow, earlier: ArrayPlan, new: ArrayPlan) -> Planned:
        stays = new.route.name == "stay" and earlier.route.name == "stay"
        now = self._inventory(new)
        if same_plan(earlier, new) and (stays or now.notices_rewriting):
            return earlier
        if stays:
            return self._swap(earlier, new, self._conflicts.of_document(row, earlier))
        objects = self._moved_again(earlier, new)
        if objects is None:
            return self._replace(earlier, new)
        plan = updating(new, now, objects, outside(earlier, new))
        return self._swap_objects(row, earlier, plan, visible=bool(len(objects)))

    def _unfinished(self, row: NodeRow, earlier: Planned, new: Planned) -> Planned:
        """A node that an interrupted run has left, or that was refused or failed."""
        if same_plan(earlier, new):
            return earlier
        if isinstance(earlier, ArrayPlan) and isinstance(new, ArrayPlan) and earlier.changes is not None:
            objects = self._moved_again(earlier, new)
            if objects is not None:
                objects = np.union1d(objects, inside(new, self._conflicts.beyond(earlier)))
                places = with_earlier_shape(earlier).objects.coordinates_of(interrupted(earlier))
                plan = updating(new, self._inventory(new), objects, outside(earlier, new), places)
                return self._swap_objects(row, earlier, plan, visible=True)
        return self._replace(earlier, new)

    # What becomes of a node

    def _moved_again(self, earlier: ArrayPlan, new: ArrayPlan) -> Indexes | None:
        """The objects that are to be made again; None if the whole array is."""
        before = self._before.stored(earlier)
        if before is None or not same_form(earlier, new):
            return None
        return moved_again(earlier, before, new, self._inventory(new))

    def _inventory(self, plan: ArrayPlan) -> Inventory:
        inventory = self._now.get(plan.path)
        assert inventory is not None
        return inventory

    def _swap(self, earlier: Planned, new: Planned, conflicts: Iterator[Problem], **amounts: int) -> Planned:
        """Let the earlier result stay visible until the new one is done."""
        if self._is_left(earlier, conflicts):
            return earlier
        self.steps.swapped.append((earlier, new))
        self._record(new, "changed", **amounts)
        return new

    def _swap_objects(self, row: NodeRow, earlier: ArrayPlan, plan: ArrayPlan, *, visible: bool) -> Planned:
        conflicts = self._conflicts.of_objects(row, earlier, plan)
        return self._swap(earlier, plan, conflicts, objects=plan.reads, bytes=plan.bytes_in, visible=visible)

    def _replace(self, earlier: Planned, new: Planned) -> Planned:
        """Remove the earlier result first."""
        if self._is_left(earlier, self._conflicts.of_all(earlier)):
            return earlier
        self.steps.hidden.append((earlier, new))
        self._record(new, "replaced")
        return new

    def _record(self, plan: Planned, action: Action, **amounts: int) -> None:
        if isinstance(plan, Refusal):
            return
        if isinstance(plan, ArrayPlan) and action in ("new", "replaced"):
            amounts = {"objects": plan.chunks, "bytes": plan.bytes_in}
        self.steps.nodes.append(NodeUpdate(path=plan.path, kind=_kind(plan), action=action, **amounts))  # type: ignore[arg-type]

    def _is_left(self, earlier: Planned, conflicts: Iterator[Problem]) -> bool:
        """Whether a node is left as it is, because others have changed it."""
        problems = () if self._updating.force else tuple(conflicts)
        if problems:
            self._keep(earlier, problems)
        return bool(problems)

    def _keep(self, earlier: Planned, problems: tuple[Problem, ...]) -> Planned:
        self.steps.nodes.append(
            NodeUpdate(path=earlier.path, kind=_kind(earlier), action="kept", problems=problems)
        )
        return earlier


def _kind(plan: Planned) -> Literal["array", "group"]:
    return "array" if isinstance(plan, ArrayPlan) else "group"
