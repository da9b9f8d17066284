"""An archive as `inspect` shows it: with conventions, and with what prevents a migration by default."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..conventions.apply import look_for
from ..recipe.recipe import Recipe
from .planner import make_plan

if TYPE_CHECKING:
    from zarrstack.core.errors import Problem

    from ..archive.nodes import Archive, Node
    from ..recipe.options import Reading
    from ..storage.base import Storage


def inspected(archive: Archive, storage: Storage, reading: Reading) -> Archive:
    """The archive with its conventions, and with the refusals of a plan without options.

    Chunks are listed where that is no request, in a directory and in most containers: only a plan lists the
    chunks of a store. Raises nothing because of the archive's content.
    """
    plan = make_plan(
        archive,
        storage,
        Recipe(),
        destination="",
        reading=reading,
        listing=storage.can_list and storage.requests is None,
    )
    with_conventions = look_for(archive, storage)
    refused = {refusal.path: refusal.problems for refusal in plan.refusals}
    if not refused:
        return with_conventions
    return replace(
        with_conventions,
        nodes=tuple(_refused(node, refused.get(node.path, ())) for node in with_conventions.nodes),
        problems=tuple(
            p for p in with_conventions.problems if p.severity != "refusal" or p.node not in refused
        ),
    )


def _refused(node: Node, problems: tuple[Problem, ...]) -> Node:
    """A node with the refusals of its plan."""
    new = [p for p in problems if p.severity == "refusal" and p not in node.problems]
    return replace(node, problems=(*node.problems, *new)) if new else node
