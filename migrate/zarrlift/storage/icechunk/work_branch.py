"""The branch on which a job works: deleted and undone, in an open repository.

Errors are those of Icechunk. `known` is what `IcechunkStorage.begin` returned: `base` is the snapshot with
which the branch begins, and to which an undo goes back.
"""

from __future__ import annotations

import json
from typing import Any

from .place import MAIN


def delete_work(repository: Any, work: str) -> None:
    """Delete the branch of a job, if there is one."""
    if work in repository.list_branches():
        repository.delete_branch(work)


def undo_branch(repository: Any, work: str, target: str, job_id: str, branch_state: str | None) -> bool:
    """Take back what a job did; False if others have changed the target since."""
    state = json.loads(branch_state or "{}")
    delete_work(repository, work)
    if "base" not in state or target not in repository.list_branches():
        return True
    tip = repository.lookup_branch(target)
    if tip == state["base"]:
        return True
    if _job_of(repository, tip) != job_id:
        return False
    if state["new_branch"] and target != MAIN:
        repository.delete_branch(target)
    else:
        repository.reset_branch(target, state["base"], from_snapshot_id=tip)
    return True


def _job_of(repository: Any, snapshot: str) -> str | None:
    """The job that wrote a snapshot."""
    info = next(iter(repository.ancestry(snapshot_id=snapshot)))
    job: str | None = info.metadata.get("zarrlift_job")
    return job
