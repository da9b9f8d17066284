"""What an update does, node by node: decided before anything is changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

import numpy as np

from zarrstack.core.errors import Problem
from zarrstack.core.json_text import JSONObject

from ...archive.chunk_inventory import Inventory
from ...planning.inventories import Inventories
from ...planning.plans import ArrayPlan, GroupPlan, Plan, Planned, Refusal
from ...recipe.options import Updating
from ...storage.base import Storage
from ..ledger.ledger import Job
from ..ledger.rows import NodeRow
from ..resume.replan import same_plan
from .conflicts import Conflicts
from .differences import inside, interrupted, moved_again, outside, same_form, updating, with_earlier_shape

Action: TypeAlias = Literal["new", "changed", "replaced", "removed", "kept"]
"""`new`: the node comes. `changed`: objects that differ are replaced one by one, or only its document is.
`replaced`: an array is hidden and made as a whole. `removed`: the source no longer has it. `kept`: it is left
as it is, for the reason in its problems.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeUpdate:
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

    def to_json(self) -> JSONObject:
        """JSON for machines."""
        names = ("path", "kind", "action", "objects", "bytes", "visible")
        return {
            **{name: getattr(self, name) for name in names},
            "problems": [problem.to_json() for problem in self.problems],
        }


@dataclass(slots=True, kw_only=True)
class Steps:
    """All that an update does."""

    nodes: list[NodeUpdate] = field(default_factory=list)
    chosen: dict[str, Planned] = field(default_factory=dict)
    """The plan of each node that remains, by path."""
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


def steps_of(
    job: Job,
    old: Plan,
    fresh: Plan,
    before: Inventories,
    now: Inventories,
    ends: tuple[Storage, Storage],
    updating: Updating,
) -> Steps:
    """Compare the plan of a job with a plan of the present source, and the result with what the job knows.

    `before` has the inventories of the last run, `now` those of the fresh plan; `ends` are source and
    destination.
    """
    return _Comparison(job, old, fresh, before, now, ends, updating)()


class _Comparison:
    def __init__(
        self,
        job: Job,
        old: Plan,
        fresh: Plan,
        before: Inventories,
        now: Inventories,
        ends: tuple[Storage, Storage],
        updating: Updating,
    ) -> None:
        self._rows = {row.path: row for row in job.nodes()}
        self._old = {node.path: node for node in old.nodes}
        self._fresh = {node.path: node for node in fresh.nodes}
        self._before, self._now = before, now
        self._source, self._destination = ends
        self._updating = updating
        sums_up = job.fact("provenance") is not None and job.fact("digest") is not None
        self._root_depends = fresh.consolidate or sums_up
        self._reconsolidated = fresh.consolidate != old.consolidate
        self._conflicts = Conflicts(job, old, *ends)
        self._steps = Steps()

    def __call__(self) -> Steps:
        for path in sorted(self._old.keys() | self._fresh.keys()):
            earlier, new = self._old.get(path), self._fresh.get(path)
            if earlier is None:
                assert new is not None
                self._come(new)
            elif new is None:
                self._go(earlier)
            elif self._rows[path].state == "done":
                self._compare(self._rows[path], earlier, new)
            else:
                self._go_on(earlier, new)
        self._keep_root()
        return self._steps

    def _keep_root(self) -> None:
        """Leave a root that others have changed as it is, although what it says of others differs now."""
        root = self._steps.chosen.get("")
        row = self._rows.get("")
        if not isinstance(root, GroupPlan) or row is None or not self._root_depends:
            return
        earlier = self._old[""]
        if root is earlier and row.state == "done" and self._steps.any and isinstance(earlier, GroupPlan):
            self._kept(earlier, lambda: self._conflicts.of_document(row, earlier))

    def _come(self, new: Planned) -> None:
        told = () if isinstance(new, Refusal) else tuple(self._conflicts.in_the_way(new))
        if told and not self._updating.force:
            self._keep(new, told)
            return
        self._steps.chosen[new.path] = new
        if told:
            self._steps.hidden.append((new, new))
        else:
            self._steps.swapped.append((None, new))
        self._tell(new, "new")

    def _go(self, earlier: Planned) -> None:
        if isinstance(earlier, Refusal):
            self._steps.removed.append(earlier)
            return
        gone = Problem(
            kind="removed",
            severity="warning",
            node=earlier.path,
            message="the source no longer has this node, and the result keeps it",
            advice="To remove it too: update with --delete.",
        )
        if not self._updating.delete:
            self._keep(earlier, (gone,))
        elif not self._kept(earlier, lambda: self._conflicts.of_all(earlier)):
            self._steps.removed.append(earlier)
            self._tell(earlier, "removed")

    def _compare(self, row: NodeRow, earlier: Planned, new: Planned) -> None:
        """A node that was complete."""
        if isinstance(new, Refusal):
            self._keep(earlier, new.problems)
        elif isinstance(earlier, GroupPlan) and isinstance(new, GroupPlan):
            self._compare_groups(row, earlier, new)
        elif isinstance(earlier, ArrayPlan) and isinstance(new, ArrayPlan):
            self._compare_arrays(row, replace(earlier, changes=None), new)
        elif not self._kept(earlier, lambda: self._conflicts.of_all(earlier)):
            self._replace(earlier, new)

    def _compare_groups(self, row: NodeRow, earlier: GroupPlan, new: GroupPlan) -> None:
        files = self._other_files(new)
        if same_plan(earlier, new) and not files and (new.path or not self._reconsolidated):
            self._steps.chosen[new.path] = earlier
        elif not self._kept(earlier, lambda: self._conflicts.of_document(row, earlier)):
            self._swap(earlier, new, objects=files)

    def _other_files(self, new: GroupPlan) -> int:
        """The number of extra files that differ."""
        return sum(self._source.get(key) != self._destination.get(key) for key in new.files)

    def _compare_arrays(self, row: NodeRow, earlier: ArrayPlan, new: ArrayPlan) -> None:
        stays = new.route.name == "stay" and earlier.route.name == "stay"
        now = self._inventory(new)
        if same_plan(earlier, new) and (stays or now.notices_rewriting):
            self._steps.chosen[new.path] = earlier
            return
        if stays:
            if not self._kept(earlier, lambda: self._conflicts.of_document(row, earlier)):
                self._swap(earlier, new)
            return
        before = self._before.stored(earlier)
        objects = None
        if before is not None and same_form(earlier, new):
            objects = moved_again(earlier, before, new, now)
        if objects is None:
            if not self._kept(earlier, lambda: self._conflicts.of_all(earlier)):
                self._replace(earlier, new)
            return
        plan = updating(new, now, objects, outside(earlier, new))
        if not self._kept(earlier, lambda: self._conflicts.of_objects(row, earlier, plan)):
            replaced = bool(len(objects))
            self._swap(earlier, plan, objects=plan.reads, nbytes=plan.bytes_in, visible=replaced)

    def _go_on(self, earlier: Planned, new: Planned) -> None:
        """A node that an interrupted run has left, or that was refused or failed."""
        if same_plan(earlier, new):
            self._steps.chosen[new.path] = earlier
            return
        if isinstance(earlier, ArrayPlan) and isinstance(new, ArrayPlan) and earlier.changes is not None:
            now, before = self._inventory(new), self._before.stored(earlier)
            if before is not None and same_form(earlier, new):
                objects = moved_again(earlier, before, new, now)
                if objects is not None:
                    objects = np.union1d(objects, inside(new, self._conflicts.beyond(earlier)))
                    places = with_earlier_shape(earlier).objects.coordinates_of(interrupted(earlier))
                    plan = updating(new, now, objects, outside(earlier, new), places)
                    row = self._rows[new.path]
                    if self._kept(earlier, lambda: self._conflicts.of_objects(row, earlier, plan)):
                        return
                    self._swap(earlier, plan, objects=plan.reads, nbytes=plan.bytes_in, visible=True)
                    return
        if not self._kept(earlier, lambda: self._conflicts.of_all(earlier)):
            self._replace(earlier, new)

    # What becomes of a node

    def _inventory(self, plan: ArrayPlan) -> Inventory:
        found = self._now.get(plan.path)
        assert found is not None
        return found

    def _swap(
        self, earlier: Planned, new: Planned, *, objects: int = 0, nbytes: int = 0, visible: bool = False
    ) -> None:
        self._steps.chosen[new.path] = new
        self._steps.swapped.append((earlier, new))
        self._tell(new, "changed", objects, nbytes, visible=visible)

    def _replace(self, earlier: Planned, new: Planned) -> None:
        self._steps.chosen[new.path] = new
        self._steps.hidden.append((earlier, new))
        self._tell(new, "replaced")

    def _tell(
        self, plan: Planned, action: Action, objects: int = 0, nbytes: int = 0, *, visible: bool = False
    ) -> None:
        if isinstance(plan, Refusal):
            return
        if isinstance(plan, ArrayPlan) and action in ("new", "replaced"):
            objects, nbytes = plan.chunks, plan.bytes_in
        kind: Literal["array", "group"] = "array" if isinstance(plan, ArrayPlan) else "group"
        self._steps.nodes.append(
            NodeUpdate(
                path=plan.path, kind=kind, action=action, objects=objects, bytes=nbytes, visible=visible
            )
        )

    def _kept(self, earlier: Planned, look: Callable[[], Iterator[Problem]]) -> bool:
        """Whether a node is left as it is, because others have changed it."""
        told = () if self._updating.force else tuple(look())
        if told:
            self._keep(earlier, told)
        return bool(told)

    def _keep(self, earlier: Planned, problems: tuple[Problem, ...]) -> None:
        if earlier.path in self._old:
            self._steps.chosen[earlier.path] = earlier
        kind: Literal["array", "group"] = "array" if isinstance(earlier, ArrayPlan) else "group"
        self._steps.nodes.append(NodeUpdate(path=earlier.path, kind=kind, action="kept", problems=problems))
