"""A destination whose readers see what a job wrote only at its end: a branch of an Icechunk repository.

Chunks may be recorded as moved only after the commit that holds them, so each commit of the job file is
preceded by one of the branch.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final, cast

from zarrstack.core.chunk_keys_v3 import KeyEncoding
from zarrstack.core.errors import Problem, UsageError
from zarrstack.core.json_text import Extension
from zarrstack.core.paths import join

from ..core.grid.pattern_keys import PatternKeys
from ..core.problems import any_refusal
from ..errors import JobError
from ..planning.plans import ArrayPlan, GroupPlan, Plan
from ..storage.base import Storage
from ..storage.writer import at_destination

if TYPE_CHECKING:
    from ..storage.icechunk.storage import IcechunkStorage
    from .executors import RunOptions
    from .ledger.ledger import Job
    from .outcome import OutcomeState

_FACT: Final = "branch"
"""Name of the job's note of the snapshot of `main` with which its branch began."""
_OBJECTS: Final = 50_000
"""A commit is due after 30 seconds or that many objects: a killed process repeats no more, and each commit
writes the manifests of the arrays that it changes again.
"""
_NOT_SAFE: Final = Problem(
    kind="claim",
    severity="note",
    message="Icechunk's commits are not safe side by side on a local file system",
    advice="Let no other program commit to the repository while the job runs.",
)
_KEYS: Final = KeyEncoding("default", "/")


class NoBranch:
    """A destination whose readers see each object when it is written: there is nothing to do."""

    seconds = 0.5
    """Maximum duration of work that a killed process must repeat."""

    def __init__(self) -> None:
        self._committed = time.monotonic()

    def begin(self) -> None:
        """Prepare the branch, before anything is written; DestinationError."""

    def due(self) -> bool:
        """Whether it is time to record what was done."""
        return time.monotonic() - self._committed > self.seconds

    def committed(self) -> None:
        """Note that it was recorded."""
        self._committed = time.monotonic()

    def refresh(self) -> None:
        """Read what workers of other processes have written; DestinationError."""

    def publish(self) -> None:
        """Let readers see everything, if everything that was planned is done; JobError, DestinationError."""

    def end(self) -> None:
        """Remove what a job that is recorded as complete does not need; DestinationError."""


def branch_of(job: Job, plan: Plan, destination: Storage) -> NoBranch:
    """The branch of a run of a job."""
    return Branch(job, plan, cast("IcechunkStorage", destination)) if destination.on_branch else NoBranch()


class Branch(NoBranch):
    """The branch of one run of a job."""

    seconds = 30.0

    def __init__(self, job: Job, plan: Plan, storage: IcechunkStorage) -> None:
        super().__init__()
        self._job = job
        self._plan = plan
        self._storage = storage

    def begin(self) -> None:
        """Commit the documents of all nodes; DestinationError."""
        documents = {join(node.path, "zarr.json"): node.content for node in self._plan.published}
        with at_destination():
            base = self._storage.begin(self._job.id, documents, self._job.fact(_FACT))
        self._job.note(**{_FACT: base})
        self._job.commit()
        self._job.before_commit = self._commit

    def due(self) -> bool:
        """Whether it is time to commit."""
        return super().due() or self._storage.uncommitted >= _OBJECTS

    def refresh(self) -> None:
        """Read what workers of other processes have committed."""
        with at_destination():
            self._storage.refresh()

    def publish(self) -> None:
        """Move the branch that readers see, if everything that was planned is done; JobError."""
        if self._job.nodes(done=False) or any_refusal(self._plan.problems):
            return
        self._job.commit()
        with at_destination():
            self._storage.publish(self._job.fact(_FACT) or "")

    def end(self) -> None:
        """Remove the branch of a job that is recorded as complete."""
        with at_destination():
            self._storage.end()

    def _commit(self) -> None:
        with at_destination():
            self._storage.checkpoint()


def undo_branch(job: Job, destination: Storage) -> tuple[Problem, ...]:
    """Take back what a job did in a repository; a refusal if others have changed the branch since."""
    storage = cast("IcechunkStorage", destination)
    if storage.undo(job.id, job.fact(_FACT)):
        return ()
    return (
        Problem(
            kind="storage",
            message="the branch was changed after the job, so it stays as it is",
            key=storage.url,
            advice="Revert it with Icechunk.",
        ),
    )


def finish_branch(job: Job, destination: Storage) -> tuple[OutcomeState, int]:
    """Let readers see what is whole; the new state of the job, and the number of arrays that are left out.

    Raises JobError if there is work that was not tried, or if nothing is whole.
    """
    storage = cast("IcechunkStorage", destination)
    if job.state != "incomplete":
        return "nothing to do", 0
    rows = job.nodes()
    waiting = [row.path for row in rows if row.state == "pending"]
    failed = [row.path for row in rows if row.state == "failed"]
    if waiting or not failed or len(failed) == len(rows):
        raise JobError(
            "some nodes are not migrated" if waiting else "there is nothing to leave out, or nothing else",
            key=str(job.path),
            found=", ".join("/" + path for path in (waiting or failed)[:5]) or None,
            advice="Resume the job first.",
        )
    storage.attach(job.id)
    with at_destination():
        for path in failed:
            storage.clear(path)
        storage.publish(job.fact(_FACT) or "")
    job.note(state="finished")
    job.commit()
    storage.end()
    return "finished", len(failed)


def fitted(plan: Plan, destination: Storage) -> Plan:
    """The plan for a repository: no consolidated metadata, and nothing but nodes and chunks; UsageError.

    Icechunk accepts the keys `zarr.json` and `c/0/0` only, and needs no consolidated metadata.
    """
    for array in plan.arrays:
        keys = array.destination.keys
        if array.verbatim is not None:
            _refuse_other_objects(array)
        elif keys != _KEYS:
            raise UsageError(
                "Icechunk has one encoding of chunk keys",
                node=array.path,
                found=str(keys),
                expected=str(_KEYS),
            )
        if array.between is not None:
            raise UsageError(
                "the chunks of this array change in two passes, which need a place for an array in between",
                node=array.path,
                expected="a directory or a bucket, not an Icechunk repository",
                advice="Give more memory (--memory), or other chunks.",
            )
    left_out = [key for group in plan.groups for key in group.files]
    groups: tuple[GroupPlan, ...] = tuple(replace(group, files=()) for group in plan.groups)
    warnings = tuple(
        Problem(
            kind="extra-file",
            severity="warning",
            message="a file that is no part of Zarr is left out: Icechunk holds groups and arrays only",
            key=key,
            advice="Copy it elsewhere.",
        )
        for key in left_out
    )
    if getattr(destination, "local_path", None) is not None:
        warnings = (*warnings, _NOT_SAFE)
    return replace(plan, groups=groups, consolidate=False, problems=(*plan.problems, *warnings))


def _refuse_other_objects(array: ArrayPlan) -> None:
    """Raise UsageError for an array that is passed through and has other objects than chunks of a grid."""
    document, keys = array.document, array.destination.keys
    grid, encoding = (
        Extension.from_json(document[name], name) for name in ("chunk_grid", "chunk_key_encoding")
    )
    chunk = "c" + "/%d" * len(document["shape"])
    names = [pattern for pattern, _ in keys.patterns] if isinstance(keys, PatternKeys) else [chunk]
    if (
        grid.name != "regular"
        or encoding.name != _KEYS.name
        or encoding.configuration.get("separator", "/") != _KEYS.separator
        or not {*names} <= {chunk}
    ):
        raise UsageError(
            "Icechunk holds the chunks of regular grids only, and this array is not described here",
            node=array.path,
            found=array.route.reason,
            advice="Exclude the array, or migrate to a directory or a bucket.",
        )


def refuse_executor(options: RunOptions, storage: Storage) -> None:
    """Raise UsageError for workers of other processes that would commit to a local repository."""
    if options.elsewhere and getattr(storage, "local_path", None) is not None:
        raise UsageError(
            "several processes cannot commit to an Icechunk repository on a local file system",
            found=str(options.executor),
            expected="--executor threads, or a repository in an object store",
        )
