"""In place, a `zarr.json` of others is never replaced, which the plan of a new job reports."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Literal

from zarrstack.core.errors import StorageError
from zarrstack.core.paths import join

from ..core.json_document import document
from ..core.problems import refusal
from ..formats.tree.documents import read_each
from ..storage.base import Storage
from .plans import ArrayPlan, Plan, Refusal

_NAME: Final = "zarr.json"


def refuse_existing_documents(plan: Plan, storage: Storage) -> Plan:
    """A plan in place without the nodes that have a `zarr.json` with other content already.

    Documents that the job would write unchanged remain from an earlier migration.
    """
    if not plan.in_place:
        return plan
    nodes = plan.published
    keys = [join(node.path, _NAME) for node in nodes]
    refused = {}
    for node, key, content in zip(nodes, keys, read_each(storage, keys), strict=True):
        if content is None or content == document(plan.document("") if not node.path else node.document):
            continue
        problem = refusal(
            "format",
            f"another {_NAME} already exists, which a migration in place does not replace",
            node=node.path,
            key=key,
            advice="Move it away, or migrate to a new destination.",
        )
        if isinstance(content, StorageError):
            problem = content.problem.at(node=node.path, key=key)
        kind: Literal["array", "group"] = "array" if isinstance(node, ArrayPlan) else "group"
        refused[node.path] = Refusal(path=node.path, kind=kind, problems=(*node.problems, problem))
    return replace(
        plan,
        arrays=tuple(array for array in plan.arrays if array.path not in refused),
        groups=tuple(group for group in plan.groups if group.path not in refused),
        refusals=(*plan.refusals, *refused.values()),
    )
