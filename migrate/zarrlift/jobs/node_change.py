"""What a migration would change of the metadata of one node."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from zarrstack.core.errors import UnsupportedError, UsageError
from zarrstack.core.json_text import JSON, JSONObject
from zarrstack.core.paths import join
from zarrstack.core.similar_names import did_you_mean

from ..core.json_document import document
from ..core.json_fields import FieldsAsJSON
from ..errors import KINDS, SourceChangedError
from ..planning.array_planner import digest
from ..planning.plans import Plan, Published, Refusal
from ..recipe.recipe import Recipe
from ..recipe.signatures import given
from ..storage.base import Storage
from ..storage.open_storage import Place
from .archive_run import ArchiveRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeChange(FieldsAsJSON):
    """The documents of a node before and after a migration."""

    path: str
    kind: Literal["array", "group"]
    before: Mapping[str, JSON]
    """Documents of the source by key; text if one is not JSON."""
    after: Mapping[str, JSONObject]
    """Documents to write by key."""


def node_change(
    path: str, source: Place, destination: Place | None, *, recipe: Recipe | None, **options: Any
) -> NodeChange:
    """What `migrate` with these arguments would change of the metadata of a node; nothing is written.

    UsageError if there is no such node, the error of its refusal if it would not be migrated; and the errors
    of `plan`.
    """
    named = {"source": source, "destination": destination, "recipe": recipe or Recipe()}
    migration = given({**options, **named}, ArchiveRequest)
    ends = migration.open()
    plan = migration.plan_of(ends)
    return change_of(plan_node(plan, path.strip("/")), plan, ends.source)


def change_of(node: Published, plan: Plan, source: Storage) -> NodeChange:
    """What a plan changes of the metadata of one of its nodes; SourceChangedError, StorageError."""
    keys = dict(node.source_digests) | (dict(plan.source_digests) if not node.path else {})
    after = plan.document(node.path)
    return NodeChange(
        path=node.path,
        kind="array" if after["node_type"] == "array" else "group",
        before=_documents(source, keys),
        # What a reader sees of the bytes that the publisher writes.
        after={join(node.path, "zarr.json"): json.loads(document(after))},
    )


def plan_node(plan: Plan, path: str) -> Published:
    """The planned node at a path; UsageError, or the error of a refusal."""
    for node in plan.nodes:
        if node.path != path:
            continue
        if isinstance(node, Refusal):
            problem = next(each for each in node.problems if each.severity == "refusal")
            raise KINDS.get(problem.kind, UnsupportedError).of(problem)
        return node
    if path in plan.excluded:
        raise UsageError(f"nothing is written for /{path}", found="excluded by the recipe")
    paths = [f"/{node.path}" for node in plan.nodes]
    some = ", ".join(paths[:5]) + (f" and {len(paths) - 5:,} more" if len(paths) > 5 else "")
    raise UsageError(f"there is no node /{path}", expected=some, advice=did_you_mean(f"/{path}", paths))


def _documents(source: Storage, digests: Mapping[str, str]) -> dict[str, JSON]:
    """The documents of the source as they were when the plan was made; SourceChangedError, StorageError."""
    documents: dict[str, JSON] = {}
    for key, content in zip(digests, source.find_many(list(digests)), strict=True):
        if content is None or digest(content) != digests[key]:
            raise SourceChangedError("the document has changed", key=key, advice="Run the command again.")
        text = content.decode("utf-8", "replace")
        try:
            documents[key] = json.loads(text)
        except (ValueError, RecursionError):
            documents[key] = text
    return documents
