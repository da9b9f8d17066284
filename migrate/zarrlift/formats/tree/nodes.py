"""Completes nodes: adds locations to problems, and implicit groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from zarrstack.core.errors import Problem
from zarrstack.core.paths import parents

from ...archive.nodes import ArrayNode, GroupNode, Node
from .directory import NodeDirectory
from .node_names import name_problems


def located(problems: Iterable[Problem], path: str, document: str | None) -> tuple[Problem, ...]:
    """Problems with their node; a refusal without a key gets that of the node's document."""
    return tuple(
        problem.at(node=path, key=document if problem.severity == "refusal" else None) for problem in problems
    )


def implicit_group(path: str, problems: Iterable[Problem] = ()) -> GroupNode:
    """A group without a document."""
    return GroupNode(path=path, implicit=True, problems=located(problems, path, None))


def refuse(nodes: dict[str, Node], problem: Problem) -> None:
    """Refuse the node named by a problem; an unknown node is added as an array.

    Its type is unknown, but an array contains values, which must not be lost silently.
    """
    path = problem.node or ""
    node = nodes.get(path)
    if node is None:
        nodes[path] = ArrayNode(path=path, problems=(problem,))
    elif isinstance(node, ArrayNode):
        nodes[path] = replace(node, layout=None, problems=(*node.problems, problem))
    else:
        nodes[path] = replace(node, problems=(*node.problems, problem))


def add_groups(nodes: dict[str, Node], directories: Mapping[str, NodeDirectory]) -> None:
    """Add the implicit groups above nodes, with problems of their names."""
    for path in list(nodes):
        for above in parents(path):
            if above not in nodes:
                problems = directories[above].problems if above in directories else name_problems(above)
                nodes[above] = implicit_group(above, problems)
