"""The branch on which a job works: begun again, deleted and undone, in an open repository.

Errors are those of Icechunk. `known` is what `IcechunkStorage.begin` returned: `base` is the snapshot to
which an undo goes back, and `start` the one with which a branch begins that was begun again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .place import MAIN


def start_of(state: Mapping[str, Any]) -> str:
    """The snapshot with which the branch of a job begins."""
    return str(state.get("start", state["base"]))


def delete_work(repository: Any, work: str) -> None:
    """Delete the branch of a job, and those of its parts, which earlier versions began."""
    for name in repository.list_branches():
        if name == work or name.startswith(f"{work}-"):
            repository.delete_branch(name)


def restart_branch(repository: Any, work: str, target: str, job_id: str, known: str | None) -> str | None:
    """Begin the branch of a job again with what readers see at `target`.

    Returns the new `known`; None if others have changed the target since.
    """
    state = json.loads(known or "{}")
    if repository is None or "base" not in state:
        return None
    tip = repository.lookup_branch(target) if target in repository.list_branches() else state["base"]
    if tip != state["base"] and _job_of(repository, tip) != job_id:
        return None
    delete_work(repository, work)
    repository.create_branch(work, tip)
    return json.dumps({**state, "start": tip})


def undo_branch(repository: Any, work: str, target: str, job_id: str, known: str | None) -> bool:
    """Take back what a job did; False if others have changed the target since."""
    state = json.loads(known or "{}")
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
