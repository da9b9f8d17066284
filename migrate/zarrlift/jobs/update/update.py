"""`update`: brings a result up to date with a source that has changed since.

The plan of the job is compared with a plan of the present source. What differs is recorded in the job before
anything is changed, as work that is not done, so that an update that was killed continues where it stopped.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from contextlib import closing
from dataclasses import replace
from typing import Unpack

from zarrstack.core.errors import Problem
from zarrstack.core.paths import join

from ...core.json_document import document
from ...core.units import count_text
from ...planning.inventories import Inventories, digest
from ...planning.plans import ArrayPlan, Plan
from ...recipe.keywords import (
    JobPlaceKeywords,
    MovedKeywords,
    PlacesKeywords,
    RunningKeywords,
    UpdatingKeywords,
    WatchingKeywords,
)
from ...recipe.options import (
    JobPlace,
    Moved,
    PathText,
    Places,
    Running,
    Updating,
    VerifyLevel,
    Watching,
    values,
)
from ...recipe.signatures import explicit, given
from ...storage.remote.store_writer import writer_for
from ..endpoints import Endpoints
from ..executors import RunOptions
from ..ledger.last_run import noted_run
from ..ledger.ledger import Job
from ..opened_job import claim_and_open, refuse_update, unclaimed_job
from ..outcome import Outcome, nothing_to_do, with_totals
from ..overwrite import set_aside
from ..ownership import OwnObjects, documents, keep_document, note_root_document
from ..progress import Progress, ProgressChoice, listing_shown
from ..reconcile import reconcile
from ..refusals import refuse_empty, refuse_unmet
from ..resume.published_arrays import hide_incomplete, with_problems
from ..run import OpenJob
from ..source_check import last_inventories, later_inventories, replace_inventory, source_changed
from .objects import below_first, clear
from .steps import Steps, UpdatePlan, UpdatePolicy


def compared(
    job: Job,
    ends: Endpoints,
    before: Inventories,
    now: Inventories,
    progress: Progress | None,
    updating: Updating,
    *,
    elsewhere: bool = False,
    incomplete: Collection[str | None] = (),
) -> tuple[Plan, Steps]:
    """The plan after the update, and what leads to it.

    `before` has the inventories of the last run; `now` receives those of the present source. `incomplete`
    are the paths of arrays that are written again as a whole.
    """
    old = job.plan()
    with listing_shown(progress, lambda: now.listed):
        fresh = replace(ends, reading=old.reading).plan(
            old.recipe,
            old.format,
            elsewhere=elsewhere,
            inventories=now,
            earlier={array.path: array.destination for array in old.arrays},
        )
    refuse_unmet(fresh)
    refuse_empty(fresh)
    policy = UpdatePolicy(job, old, fresh, before, now, (ends.source, ends.destination), updating, incomplete)
    plan = fresh.with_nodes(reconcile(job, old, fresh, policy))
    policy.keep_root(plan)
    return plan, policy.steps


def changed_since(open_job: OpenJob) -> tuple[Problem, ...]:
    """The problems of nodes of which the source has changed since the job, which is complete, has copied it.

    Listings are compared as for an update; nothing is changed.
    """
    with closing(last_inventories(open_job.job)) as before:
        _, steps = compared(open_job.job, open_job.ends, before, Inventories(), open_job.progress, Updating())
    problems: list[Problem] = []
    for node in steps.nodes:
        if node.action == "kept":
            problems += node.problems
            continue
        found = {
            "new": f"a new {node.kind}",
            "changed": count_text(node.objects, "changed object") if node.objects else "other metadata",
            "replaced": f"another {node.kind}",
            "removed": f"no {node.kind}",
        }[node.action]
        message = "the source has changed since this job has copied it"
        problems.append(source_changed(node.path, message, found=found, advice=None))
    return tuple(problems)


def update_job(open_job: OpenJob, updating: Updating = Updating()) -> Outcome:  # noqa: B008 - frozen
    """Update the result of a job open for writing, or continue an update that was interrupted."""
    job, ends, options, progress = open_job.job, open_job.ends, open_job.options, open_job.progress
    earlier = json.loads(job.fact("update") or "{}")
    if earlier and job.state == "done":  # killed at its very end
        job.note(update=None)
        job.commit()
        earlier = {}
    updating = Updating(
        delete=updating.delete or earlier.get("delete", False),
        force=updating.force or earlier.get("force", False),
    )
    with noted_run(job):
        job.note(**ends.options)
        set_aside(job, ends.destination)
        old, result = job.plan(), ends.destination
        lacking = hide_incomplete(
            job, old, ends.source, result, force=updating.force, no_list=options.no_list
        )
        with closing(last_inventories(job)) as before, closing(later_inventories(job, ends.source)) as now:
            plan, steps = compared(
                job,
                ends,
                before,
                now,
                progress,
                updating,
                elsewhere=options.on_other_machines,
                incomplete={problem.node for problem in lacking} if updating.force else (),
            )
            if not steps.any and job.state == "done" and not open_job.loses:
                outcome = replace(nothing_to_do(job), problems=steps.problems)
                # The source was listed meanwhile.
                now_lacking = hide_incomplete(
                    job, plan, ends.source, result, ended=True, no_list=options.no_list
                )
                return with_problems(outcome, (*lacking, *now_lacking))
            remade = _remade(plan, steps)
            lacking = tuple(problem for problem in lacking if problem.node not in remade)
            _intend(job, plan, steps, updating, continued=bool(earlier))
            _keep_base(before, now, plan)
            replace_inventory(job, now)
            removed = _prepare(job, plan, steps, ends, fsync=options.fsync)
            outcome = open_job.run_to_end(plan, now)
        if outcome.state == "done":
            job.note(update=None)
            job.commit()
        problems = tuple(dict.fromkeys((*outcome.problems, *steps.problems)))
        return with_problems(replace(outcome, removed=removed, problems=problems), lacking)


def _remade(plan: Plan, steps: Steps) -> set[str]:
    """Paths of the nodes of which no object is as before: what they lacked does not matter any more."""
    changed = steps.swapped if plan.in_place else ()
    return {node.path for node in (*steps.removed, *(new for _, new in (*steps.hidden, *changed)))}


def _intend(job: Job, plan: Plan, steps: Steps, updating: Updating, *, continued: bool) -> None:
    """Record what the update does before it changes anything, or what one that was interrupted does now."""
    rows = {row.path: row for row in job.nodes()}
    job.note_header(**plan.header_to_json())
    job.note(
        state="incomplete",
        update=json.dumps({**values(updating, Updating), "keeps_root": steps.keeps_root}),
        verified=None,
    )
    before = json.loads(job.fact("last_update") or "[]") if continued else ()
    changed = {new.path for _, new in (*steps.swapped, *steps.hidden)}
    job.note(last_update=json.dumps(sorted(changed.union(before))))
    for earlier, new in steps.swapped:
        row = rows.get(new.path)
        if row is not None and earlier is not None:
            keep_document(job, row, earlier)
        # The earlier document of an array stays until all of the changed objects are replaced.
        stays = isinstance(new, ArrayPlan) and new.changes is not None
        job.swap_node(new.path, new, published_ns=row.published_ns if row is not None and stays else None)
    for node in (*steps.removed, *(new for _, new in steps.hidden)):
        row = rows.get(node.path)
        if row is not None:
            job.forget_tasks(row.id)
            job.record_node(row.id, "pending", published_ns=row.published_ns)
    if plan.consolidate and not steps.keeps_root and "" in rows and rows[""].kind == "group":
        root = next(row for row in job.nodes("group") if row.path == "")
        job.record_node(root.id, "pending")
    job.commit()


def _keep_base(before: Inventories, now: Inventories, plan: Plan) -> None:
    """Keep the inventories of arrays that are left as they are, with which the next update compares."""
    for array in plan.arrays:
        inventory = now.get(array.path)
        if inventory is None or inventory.fingerprint != array.fingerprint:
            earlier = before.stored(array)
            if earlier is not None:
                now[array.path] = earlier


def _prepare(job: Job, plan: Plan, steps: Steps, ends: Endpoints, *, fsync: bool) -> int:
    """Hide and delete what the update replaces as a whole or removes; returns the number of objects."""
    destination = ends.destination
    _hide_consolidated(job, plan, steps, ends, fsync=fsync)
    removed = 0
    for earlier in below_first(steps.removed):
        removed += clear(earlier, destination, in_place=plan.in_place)
        job.drop_node(earlier.path)
        job.documents.forget(earlier.path)
        job.others.keep(earlier.path, ())
    for earlier, new in steps.hidden:
        removed += clear(earlier, destination, in_place=plan.in_place)
        job.swap_node(new.path, new)
        job.others.keep(new.path, ())
    if not plan.in_place:
        if ends.local_destination is not None:
            _note_others(job, plan, ends)
        _narrow(job, plan, ends, fsync=fsync)
    job.commit()
    return removed


def _hide_consolidated(job: Job, plan: Plan, steps: Steps, ends: Endpoints, *, fsync: bool) -> None:
    """Publish the root without consolidated metadata, whose descriptions of other nodes would be wrong.

    The last step of the run publishes the root again.
    """
    root = plan.root
    if root is None or not plan.consolidate or steps.keeps_root:
        return
    if not steps.removed and all(row.kind != "array" for row in job.nodes(done=False)):
        return
    content = root.content
    if digest(content) == job.fact("root_document"):
        return
    note_root_document(job, digest(content))
    if ends.destination.get("zarr.json") is not None:
        writer = writer_for(ends.destination, job.id, fsync=fsync, in_place=plan.in_place)
        writer.write("zarr.json", content)
        writer.settle()


def _note_others(job: Job, plan: Plan, ends: Endpoints) -> None:
    """Record the objects of others in arrays whose documents will be newer than those objects."""
    objects = OwnObjects(job, ends.source, ends.destination)
    rows = {row.path: row for row in job.nodes("array", done=False)}
    for array in plan.arrays:
        row = rows.get(array.path)
        if row is None or row.published_ns is None:
            continue
        job.others.keep(array.path, [key for key, is_others in objects.of_node(array, row) if is_others])


def _narrow(job: Job, plan: Plan, ends: Endpoints, *, fsync: bool) -> None:
    """Publish the smaller shape of each array that becomes shorter, before its objects are replaced.

    Objects at the new edge have no values beyond it, which readers of the earlier shape would see.
    """
    pending = {row.path for row in job.nodes("array", done=False)}
    shapes = {
        array.path: array.destination.shape
        for array in plan.arrays
        if array.changes is not None and array.path in pending and not array.source.opaque
    }
    narrowed = {}
    for path, content in documents(ends.destination, shapes):
        smaller = None if content is None else _narrowed(content, shapes[path])
        if smaller is not None:
            job.documents.add(path, digest(smaller))
            narrowed[join(path, "zarr.json")] = smaller
    if not narrowed:
        return
    job.commit()
    writer = writer_for(ends.destination, job.id, fsync=fsync, in_place=False)
    for key, smaller in narrowed.items():
        writer.write(key, smaller)
    writer.settle()


def _narrowed(content: bytes, shape: tuple[int, ...]) -> bytes | None:
    """A `zarr.json` whose shape does not exceed `shape`; None if it does not now."""
    earlier = json.loads(content)
    smaller = [min(pair) for pair in zip(earlier["shape"], shape, strict=True)]
    return None if smaller == earlier["shape"] else document({**earlier, "shape": smaller})


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
    unclaimed = unclaimed_job(target, "update", job, places, RunOptions(), moved=moved, writes=False)
    with Job.open(unclaimed.path, write=False) as ledger:
        refuse_update(ledger)
        with closing(last_inventories(ledger)) as before:
            _, steps = compared(ledger, unclaimed.ends, before, Inventories(), None, updating)
    return UpdatePlan(job=str(unclaimed.path), nodes=tuple(sorted(steps.nodes, key=lambda node: node.path)))


@explicit
def update(
    target: PathText,
    *,
    verify: VerifyLevel | None = None,
    progress: ProgressChoice = None,
    **options: Unpack[_Updating],
) -> Outcome:
    """Bring the result of a job up to date with a source that has changed since.

    `target` is the job file or the destination (in place, the source). Only objects that differ are
    moved again, with the shard or block that they share with others; they are replaced one by one. Arrays
    whose data type, chunks or codecs have changed are hidden and migrated again. An update that was
    interrupted is continued by `update` or `resume`.

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
    unclaimed = unclaimed_job(
        target, "update", job, places, RunOptions.of(running), moved=moved, verify=verify
    )
    with claim_and_open(unclaimed, progress, watching) as open_job:
        return with_totals(open_job.end(update_job(open_job, updating)))
