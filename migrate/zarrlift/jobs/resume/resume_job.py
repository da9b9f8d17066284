"""Goes on with a job that an earlier run left incomplete: what had not begun is planned again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from typing import Final

import numpy as np

from zarrstack.core.errors import Problem
from zarrstack.core.paths import join

from ...archive.chunk_inventory import Indexes, take_inventory
from ...archive.inventory_file import InventoryFile
from ...core.units import count_text
from ...planning.inventories import Inventories, changed_keys
from ...planning.plans import ArrayPlan, Plan, Planned, Refusal, taken_over
from ...storage.base import Storage
from ...storage.remote.store_writer import writer_for
from ...transfer.tasks import sweep
from ..ledger.last_run import noted_run
from ..ledger.ledger import Job
from ..ledger.schema import NodeRow
from ..outcome import Outcome, nothing_to_do
from ..overwrite import remove_previous_tree, set_aside
from ..ownership import OWN, keep_document, missing_documents, whose
from ..progress import listing_shown
from ..reconcile import Policy, begun, reconcile, same_plan
from ..refusals import refuse_unmet
from ..run import OpenJob
from ..source_check import earlier_inventories, keep_inventory, source_changed
from .published_arrays import hide_incomplete, with_problems

_ADVICE: Final = (
    "The arrays of this result are of different times: what was copied before is older. To have all of one"
    " time, undo the job and migrate while nothing writes to the source."
)


def resume_job(open_job: OpenJob) -> Outcome:
    """Check what an earlier run left, and run the job to its end."""
    job, ends, options = open_job.job, open_job.ends, open_job.options
    if job.fact("update") is not None:
        from ..update.update import update_job

        return update_job(open_job)
    old = job.plan()  # first, so that nothing is changed if the file cannot be read
    lacking = hide_incomplete(job, old, ends.source, ends.destination, no_list=options.no_list)
    gone = missing_documents(job, ends.destination, lacking)
    if job.state != "incomplete" and not (job.state == "done" and open_job.loses):
        if gone is not None:
            raise gone
        remove_previous_tree(job, ends.destination)
        writer_for(ends.destination, job.id, fsync=False).close()
        return with_problems(nothing_to_do(job), lacking)
    with noted_run(job):
        job.note(**ends.options)
        set_aside(job, ends.destination)
        with closing(earlier_inventories(job, old, ends.source)) as inventories:
            with listing_shown(open_job.progress, lambda: inventories.listed):
                fresh = replace(ends, reading=old.reading).plan(
                    old.recipe, old.format, elsewhere=options.on_other_machines, inventories=inventories
                )
            refuse_unmet(fresh)
            merged = _merged(job, old, fresh, inventories, ends.destination)
            keep_inventory(job, inventories)
            missing = () if gone is None else (gone.problem,)
            return with_problems(open_job.run_to_end(merged, inventories), (*missing, *lacking))


def _merged(job: Job, old: Plan, fresh: Plan, inventories: Inventories, destination: Storage) -> Plan:
    """The plan to continue with: completed work is kept, failed nodes are planned again.

    If a source changed after part of its work was recorded, the change is reported and the node is left as it
    is. If it changed before, the node is planned again, and the job keeps a warning.
    """
    with closing(_Resuming(job, old, fresh, inventories, destination)) as policy:
        nodes = reconcile(job, old, fresh, policy)
        policy.keep_warnings()
    job.commit()
    problems = (*fresh.problems, *policy.problems, *taken_over(old.problems), *policy.warnings)
    return replace(old.with_nodes(nodes), problems=problems)


class _Resuming(Policy):
    def __init__(
        self, job: Job, old: Plan, fresh: Plan, inventories: Inventories, destination: Storage
    ) -> None:
        """`inventories` are those of the fresh plan, whose file may have the earlier ones too."""
        self._job = job
        self._known = {node.path: node for node in old.nodes}
        self._found = {node.path: node for node in fresh.nodes}
        self._inventories = inventories
        self._destination = destination
        self._begun = begun(job)
        self._listing: Inventories | None = None
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []
        """One for each node that is planned again because its source changed."""

    def added(self, new: Planned) -> Planned | None:
        """Take a node that was hidden until now."""
        if not _was_hidden(new.path, self._known, self._found):
            self.problems.append(source_changed(new.path))
            return None
        self._job.swap_node(new.path, new)
        return new

    def gone(self, row: NodeRow, earlier: Planned) -> Planned | None:
        """Keep it."""
        return self._keep_earlier(earlier, source_changed(row.path))

    def compared(self, row: NodeRow, earlier: Planned, new: Planned) -> Planned | None:
        """Keep what has begun."""
        if same_plan(earlier, new):
            return earlier
        if row.path in self._begun:
            return self._keep_earlier(earlier, source_changed(row.path))
        if (problem := self._document_of_others(earlier)) is not None:
            return self._keep_earlier(earlier, problem)
        self._warn(earlier, new)
        keep_document(self._job, row, earlier)
        if isinstance(earlier, ArrayPlan):
            sweep(earlier, self._destination)
            _drop_outside(earlier, new, self._destination)
        if isinstance(new, ArrayPlan):
            _drop_stale(new, self._inventories, self._destination)
        self._job.swap_node(row.path, new)
        return new

    def _keep_earlier(self, earlier: Planned, problem: Problem) -> Planned:
        self._inventories.pop(earlier.path)
        self.problems.append(problem)
        return earlier

    def _document_of_others(self, before: Planned) -> Problem | None:
        """The problem if others have changed a document that a killed run wrote and did not record."""
        if isinstance(before, Refusal):
            return None
        key = join(before.path, "zarr.json")
        content = self._destination.get(key)
        if content is None or whose(self._job, before, content) in OWN:
            return None
        return Problem(
            kind="result-changed",
            node=before.path,
            message="the source has changed, and others have changed the document in the result, so it is"
            " kept",
            key=key,
            advice="Move it away, then resume.",
        )

    def _warn(self, before: Planned, now: Planned) -> None:
        """Say what has changed in the source of a node, before its earlier plan is replaced."""
        if isinstance(before, Refusal) or isinstance(now, Refusal) or type(before) is not type(now):
            return  # the reason of a refusal was removed; the report has the refusal of the new plan
        old, new = dict(before.source_digests), dict(now.source_digests)
        documents = sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))
        changes = [f"documents ({', '.join(documents)})"] if documents else []
        found = expected = ""
        if isinstance(before, ArrayPlan) and isinstance(now, ArrayPlan):
            # Chunks that stay where they are belong to the result, whenever they were written.
            if before.fingerprint != now.fingerprint and now.route.name != "stay":
                changes.insert(0, self._keys(before, now))
            found, expected = count_text(now.chunks, "chunk"), count_text(before.chunks, "chunk")
        if changes:
            self.warnings.append(
                source_changed(
                    now.path,
                    f"the source of {'an array' if expected else 'a group'} changed after it was planned, so"
                    " it was planned again",
                    severity="warning",
                    found=": ".join(filter(None, (found, "; ".join(filter(None, changes))))),
                    expected=expected or None,
                    advice=_ADVICE,
                )
            )

    def _keys(self, before: ArrayPlan, now: ArrayPlan) -> str:
        new = self._inventories.get(now.path)
        old = self._inventories.stored(before)
        if old is None:
            if self._listing is None:
                file = InventoryFile.temporary(self._job.id, self._job.listing.pieces())
                self._listing = Inventories(file)
            old = self._listing.stored(before)
        if old is None or new is None:
            return "the keys are not known, because the earlier listing is not stored"
        return changed_keys(now, old, new, before.source)

    def keep_warnings(self) -> None:
        """Add the warnings to those of the job. Durable at its next commit."""
        if self.warnings:
            as_json = [problem.to_json() for problem in self.warnings]
            self._job.note_header(problems=self._job.header["problems"] + as_json)

    def close(self) -> None:
        """Close the earlier listing, if it was read."""
        if self._listing is not None:
            self._listing.close()


def _was_hidden(path: str, before: Mapping[str, Planned], now: Mapping[str, Planned]) -> bool:
    """Whether a node was hidden until now because a node above it was refused.

    A directory that cannot be listed, or a broken link, hides everything below it.
    """
    while path:
        path = path.rpartition("/")[0]
        if isinstance(before.get(path), Refusal):
            return path in now and not isinstance(now[path], Refusal)
    return False


def _drop_outside(earlier: ArrayPlan, now: Planned, destination: Storage) -> None:
    """Delete destination objects of earlier work at keys that the array no longer has."""
    layout, after = earlier.destination, now.destination if isinstance(now, ArrayPlan) else None

    def outside(stored: Indexes) -> Indexes:
        if after is None or (after.keys, after.object_shape) != (layout.keys, layout.object_shape):
            return stored
        return stored[after.objects.indices_of(layout.objects.coordinates_of(stored)) < 0]

    _drop(earlier, outside, destination)


def _drop_stale(now: ArrayPlan, inventories: Inventories, destination: Storage) -> None:
    """Delete destination objects of earlier work that would not be written again.

    They are known in advance only if each object is made from the source object at the same grid position.
    """
    inventory = inventories.get(now.path)

    def stale(stored: Indexes) -> Indexes:
        if inventory is None or now.move.block_shape is not None or now.move.values.drop_empty:
            return stored
        return stored[~np.isin(stored, inventory.indexes)]

    _drop(now, stale, destination)


def _drop(plan: ArrayPlan, selected: Callable[[Indexes], Indexes], destination: Storage) -> None:
    """Delete those of an array's stored objects that are selected, its document first.

    A run whose last records were lost with its machine may have published the array.
    """
    if plan.route.name == "stay":
        return
    destination.delete(join(plan.path, "zarr.json"))
    layout = plan.destination
    for index in selected(take_inventory(destination, plan.path, layout).indexes).tolist():
        destination.delete(layout.key(plan.path, layout.objects.coordinates(index)))
