"""`update`: brings a result up to date with a source that has changed since.

The plan of the job is compared with a plan of the present source. What differs is recorded in the job before
anything is changed, as work that is not done, so that an update that was killed continues where it stopped.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import Unpack

from zarrstack.core.json_text import JSONObject

from ...core.problems import any_refusal
from ...planning.inventories import Inventories
from ...recipe.keywords import (
    JobPlaceKeywords,
    MovedKeywords,
    PlacesKeywords,
    RunningKeywords,
    UpdatingKeywords,
    WatchingKeywords,
)
from ...recipe.options import JobPlace, Moved, PathText, Places, Running, Updating, VerifyLevel, Watching
from ...recipe.signatures import explicit, given
from ..ledger.ledger import Job
from ..opened_job import found_job, opened, refuse_update
from ..outcome import Outcome
from ..processes.executors import RunOptions
from ..progress import ProgressChoice
from ..stored_inventories import last_inventories
from .steps import NodeUpdate
from .update_job import compared, update_job


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


class _Comparing(JobPlaceKeywords, PlacesKeywords, MovedKeywords, UpdatingKeywords):
    """The options of `plan_update`."""


class _Updating(_Comparing, RunningKeywords, WatchingKeywords):
    """The options of `update`."""


@explicit
def plan_update(target: PathText, **options: Unpack[_Comparing]) -> UpdatePlan:
    """Return what `update` would do, without changing anything.

    The arguments are those of `update`.

    Raises
    ------
    JobError
        If there is no such job.

    Examples
    --------
    >>> zarrlift.migrate("ocean.zarr", "new.zarr").ok
    True
    >>> zarr.open_array("ocean.zarr", path="time", mode="r+")[0] = 1
    >>> zarrlift.plan_update("new.zarr").objects
    1
    """
    job, places, moved, updating = given(options, JobPlace, Places, Moved, Updating)
    found = found_job(target, "update", job, places, RunOptions(), moved=moved)
    with Job.open(found.path, write=False) as ledger:
        refuse_update(ledger)
        with closing(last_inventories(ledger)) as before:
            _, steps = compared(ledger, found.ends, before, Inventories(), None, updating)
    return UpdatePlan(job=str(found.path), nodes=tuple(sorted(steps.nodes, key=lambda node: node.path)))


@explicit
def update(
    target: PathText,
    *,
    verify: VerifyLevel | None = None,
    progress: ProgressChoice = None,
    **options: Unpack[_Updating],
) -> Outcome:
    """Bring the result of a job up to date with a source that has changed since.

    `target` is the job file, the destination or the source. Only objects that differ are moved again, with
    the shard or block that they share with others; they are replaced one by one. Arrays whose data type,
    chunks or codecs have changed are hidden and migrated again. An update that was interrupted is continued
    by `update` or `resume`.

    - `delete`: remove nodes from the result that the source no longer has.
    - `force`: replace what others have changed in the result.

    The other arguments are those of `resume`. Nodes that are left as they are, and the reasons, are in the
    outcome's `problems`.

    Raises
    ------
    JobError
        If there is no such job, or it runs elsewhere.
    UsageError
        If a place has moved and the new one is not given.
    Interrupted
        After Ctrl-C; `update` or `resume` continues.

    Examples
    --------
    >>> zarrlift.migrate("ocean.zarr", "new.zarr").ok
    True
    >>> zarr.open_array("ocean.zarr", path="time", mode="r+")[0] = 1
    >>> zarrlift.update("new.zarr").ok
    True
    >>> int(zarr.open_array("new.zarr", path="time")[0])
    1
    """
    job, places, moved, updating, running, watching = given(
        options, JobPlace, Places, Moved, Updating, Running, Watching
    )
    found = found_job(target, "update", job, places, RunOptions.of(running), moved=moved, verify=verify)
    with opened(found, progress, watching) as it:
        return it.end(update_job(it, updating))
