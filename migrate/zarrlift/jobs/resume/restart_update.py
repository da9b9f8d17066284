"""Ends an update that an earlier version began in an Icechunk repository.

Its branch began without the chunks that readers see, so arrays are incomplete there, and which of them the
job has rewritten is not known. The job begins its branch again with what readers see, and migrates everything
that the source has. Nodes that the source no longer has stay as readers see them, unless the update has
removed them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

from zarrstack.core.paths import join

from ...storage.base import Storage
from ..branch import clear_node, note_branch, restart_branch
from ..endpoints import Endpoints
from ..ledger.ledger import Job


def restart_update(job: Job, ends: Endpoints) -> None:
    """Replace the update of a job open for writing by a migration of all nodes; JobError.

    A killed call is repeated: the job is changed after the branch.
    """
    known = restart_branch(job, ends.destination)
    old = job.plan()
    fresh, _ = replace(ends, reading=old.reading).plan(old.recipe, old.format)
    found = {node.path: node for node in fresh.nodes}
    kept = {row.path for row in job.nodes() if row.state == "done"} - found.keys()
    for path, is_array in list(_nodes(ends.destination)):
        if path not in kept and (is_array or path not in found):
            clear_node(ends.destination, path)
    for path in {row.path for row in job.nodes()} - found.keys():
        job.drop_node(path)
    for path, node in found.items():
        job.swap_node(path, node)
    note_branch(job, ends.destination, known)
    job.note(update=None, state="incomplete", verified=None)
    job.commit(now=True)


def _nodes(destination: Storage, path: str = "") -> Iterator[tuple[str, bool]]:
    """The nodes of a tree, from the root down: path, and whether it is an array."""
    content = destination.get(join(path, "zarr.json"))
    if content is None:
        return
    is_array = json.loads(content)["node_type"] == "array"
    yield path, is_array
    for entry in () if is_array else destination.list_dir(path):
        if entry.is_dir:
            yield from _nodes(destination, join(path, entry.name))
