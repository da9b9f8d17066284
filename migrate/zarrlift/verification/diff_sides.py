"""One of the archives that `diff` compares, and what its nodes say of themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from zarrstack.core.errors import Problem
from zarrstack.core.json_text import canonical

from ..archive.chunk_inventory import take_inventory
from ..archive.nodes import Archive, ArrayNode, Layout, Node
from ..conventions.apply import apply_conventions
from ..core.node_paths import names_below
from ..recipe.recipe import Recipe
from ..storage.base import Storage
from .attributes import attribute_places
from .documents import named

if TYPE_CHECKING:
    from ..archive.chunk_inventory import Inventory


STORED: Final = (
    "shape of chunks",
    "shape of objects",
    "codecs",
    "chunk keys",
    "fill value",
    "other members",
)
"""What `stored_form` has of an array; nothing of it changes a value."""


@dataclass
class Side:
    """One of the archives that are compared."""

    name: str
    """As messages call it."""
    archive: Archive
    storage: Storage
    follow_links: bool = False

    @cached_property
    def raw(self) -> dict[str, Node]:
        """The nodes as they are described, by path."""
        return {node.path: node for node in self.archive.nodes}

    @cached_property
    def converted(self) -> dict[str, Node]:
        """The nodes as conventions would have them in Zarr v3, by path."""
        applied = apply_conventions(self.archive, self.storage, Recipe())
        nodes = {}
        for path, raw in self.raw.items():
            change, node = applied.change(path), applied.described(raw)
            if change.attributes is not None:
                node = replace(node, attributes=change.attributes)
            if change.dimension_names is not None and isinstance(node, ArrayNode) and node.layout:
                node = replace(node, layout=replace(node.layout, dimension_names=change.dimension_names))
            nodes[path] = node
        return nodes

    def inventory(self, path: str, layout: Layout) -> Inventory:
        """The objects of an array, listed now; StorageError."""
        below = self._children.get(path, frozenset())
        return take_inventory(self.storage, path, layout, children=below, follow_links=self.follow_links)

    @cached_property
    def _children(self) -> Mapping[str, frozenset[str]]:
        return names_below(self.raw)

    def trouble(self, problem: Problem, path: str | None = None) -> Problem:
        """A problem of this side."""
        return of_side(self.name, problem.at(node=path))


def of_side(name: str, problem: Problem) -> Problem:
    """A problem of one of the archives; its advice is for migrations."""
    return replace(problem, message=f"in {name}: {problem.message}", advice=None)


def may_need_conventions(one: Node, other: Node) -> bool:
    """Whether nodes may be equal as conventions have them, although they are not as they are described.

    Equal ones are not converted, because other nodes decide whether a convention applies.
    """
    if one.refused or other.refused or canonical(one.attributes) != canonical(other.attributes):
        return True
    layouts = [node.layout for node in (one, other) if isinstance(node, ArrayNode)]
    return len({layout and (named(layout.dimension_names), layout.data_type) for layout in layouts}) > 1


def stored_form(node: ArrayNode) -> tuple[Any, ...]:
    """What `STORED` names."""
    layout = node.layout
    assert layout is not None
    frame = "" if layout.frame is None else f"{layout.frame}: "
    return (
        list(layout.chunk_shape),
        list(layout.object_shape),
        f"{frame}{layout.chain}",
        str(layout.keys),
        "null" if node.fill_is_null else "a value",
        canonical(node.extra) if node.extra else None,
    )


def members(
    first: Any, second: Any, one: Node, other: Node
) -> Iterator[tuple[str, str | None, str | None, str | None]]:
    """(what, place, first, second) of each attribute that differs, and of the dimension names."""
    for place, mine, theirs in attribute_places(first, second):
        yield "attribute", place, mine, theirs
    if isinstance(one, ArrayNode) and isinstance(other, ArrayNode) and one.layout and other.layout:
        names = [named(layout.dimension_names) for layout in (one.layout, other.layout)]
        if names[0] != names[1]:
            texts = [None if each is None else canonical(each) for each in names]
            yield "dimension names", None, texts[0], texts[1]
