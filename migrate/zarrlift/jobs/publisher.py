"""Publishes the `zarr.json` documents in an order that is safe for readers, and flushes work to disk.

An array's document follows its last chunk, a group's document those of its children, and the consolidated
root comes last. In place, group documents are written after all nodes are done, because a v3 root hides nodes
that are still v2.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from zarrstack.core.errors import Problem, StorageError
from zarrstack.core.paths import join

from ..core.json_document import document
from ..core.problems import any_refusal
from ..errors import JobError
from ..planning.inventories import digest
from ..planning.plans import ArrayPlan, GroupPlan, Plan, Published
from ..storage.base import Storage
from ..storage.local.storage import LocalStorage, sync
from ..storage.writer import DestinationError, Writer, at_destination
from ..transfer.extra_files import require_copy
from .endpoints import Endpoints
from .ledger.last_run import last_run
from .ledger.ledger import Job
from .ledger.schema import NodeRow
from .ownership import OWN, note_root_document, whose

SECONDS: Final = 120.0
"""Seconds between two flushes."""


@dataclass
class Publisher:
    """Writes the documents of one job."""

    job: Job
    plan: Plan
    ends: Endpoints
    writer: Writer
    changed: Callable[[GroupPlan], Problem | None]
    """Reports what has changed in the source of a group."""

    def __post_init__(self) -> None:
        run = last_run(self.job)
        self._is_first = run is not None and run.number == 1

    def hold_root(self, *, new: bool) -> None:
        """Require from now on that the destination stays the same directory, which may be `new`.

        DestinationError.
        """
        if isinstance(self.ends.place, LocalStorage):
            with at_destination():
                self.ends.place.hold(make=new)

    def require_root(self) -> None:
        """Raise DestinationError if the destination is another directory now."""
        if isinstance(self.ends.place, LocalStorage):
            self.ends.place.opened.require_same()

    def publish_array(self, plan: ArrayPlan) -> int | None:
        """Publish an array whose chunks are all written; JobError if another document is there."""
        return self.publish(plan, plan.content)

    def publish(self, node: Published, data: bytes) -> int | None:
        """Write a `zarr.json`; returns its modification time if the storage has one.

        JobError if others have written one since an earlier run.
        """
        key = join(node.path, "zarr.json")
        if self.plan.in_place or not self._is_first:
            self._refuse_others(key, data, node)
        self.require_root()
        self.writer.write(key, data)
        self.writer.settle()
        if isinstance(self.ends.destination, LocalStorage):
            return os.stat(self.ends.destination.path(key)).st_mtime_ns
        return None

    def _refuse_others(self, key: str, data: bytes, node: Published) -> None:
        if json.loads(self.job.fact("update") or "{}").get("force"):
            return
        (existing,) = self.ends.destination.find_many([key])
        if existing is not None and existing != data and whose(self.job, node, existing) not in OWN:
            raise JobError(
                "a zarr.json that this job did not write already exists",
                key=key,
                advice="Move it away, then resume.",
            )

    def groups(self) -> None:
        """Publish the groups, children first and the root last, with consolidated metadata if requested."""
        if self.plan.in_place and (
            any_refusal(self.plan.problems) or any(row.kind != "group" for row in self.job.nodes(done=False))
        ):
            return
        state = {row.path: row for row in self.job.nodes("group")}
        groups: list[GroupPlan] = sorted(
            self.plan.groups, key=lambda group: (-group.path.count("/") - bool(group.path), group.path)
        )
        for group in groups:
            if group.path == "" and self.plan.consolidate:
                continue
            row = state[group.path]
            if row.state == "done":
                continue
            if not self._publish_group(row, group, group.content) and self.plan.in_place:
                return  # a document above would hide it
        root = self.plan.root
        keeps_root = json.loads(self.job.fact("update") or "{}").get("keeps_root")
        if root is not None and self.plan.consolidate and not keeps_root:
            done = {row.path for row in self.job.nodes() if row.state == "done"}
            content = document(self.plan.document("", done))
            expected = digest(content)
            if state[""].state != "done" or self.job.fact("root_document") != expected:
                # If a run is killed here, the earlier document exists and this one remains to be written.
                self.job.record_node(state[""].id, "pending")
                note_root_document(self.job, expected)
                self._publish_group(state[""], root, content)

    def _publish_group(self, row: NodeRow, group: GroupPlan, content: bytes) -> bool:
        """Publish a group; returns whether its document exists."""
        changed = self.changed(group)
        if changed is not None:
            self.job.record_node(row.id, "failed", problems=(changed,))
            return False
        try:
            for key in group.files:
                require_copy(self.ends.source, self.writer, key)
            published = self.publish(group, content)
        except DestinationError:
            raise
        except (JobError, StorageError) as error:
            self.job.record_node(row.id, "failed", problems=(error.at(node=row.path).problem,))
            return False
        self.job.record_node(row.id, "done", published_ns=published)
        return True


class DiskSync:
    """Flushes recorded work to disk at intervals: what is newer must be compared after a system crash."""

    def __init__(self, job: Job, destination: Storage, *, fsync: bool) -> None:
        """`fsync`: every recorded file is already on disk."""
        self._job = job
        self._destination = destination
        self._fsync = fsync
        self._last = time.monotonic()
        if fsync and job.unsynced():
            sync(destination)  # what runs without `fsync` have recorded

    def sometimes(self) -> None:
        """Flush if the last flush is long enough ago; call this before the job is committed."""
        if self._fsync:
            self._job.record_synced()
        elif time.monotonic() - self._last >= SECONDS:
            if sync(self._destination):
                self._job.record_synced()
            self._last = time.monotonic()
