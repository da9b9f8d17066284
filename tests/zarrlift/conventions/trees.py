"""Small archives made in memory, for tests of conventions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tests.support.documents import layout

from zarrlift.archive.nodes import Archive, ArrayNode, GroupNode, Node
from zarrlift.conventions.apply import ConventionChanges, apply_conventions
from zarrlift.recipe.recipe import ArrayRecipe, Recipe
from zarrstack.core.paths import parents


def array(
    path: str,
    ndim: int,
    names: tuple[str | None, ...] | None = None,
    *,
    shape: tuple[int, ...] | None = None,
) -> ArrayNode:
    """An array of `ndim` dimensions, each two long unless `shape` says otherwise."""
    chunks = (2,) * ndim
    of = layout(shape=shape or chunks, chunks=chunks, data_type="uint16", dimension_names=names)
    return ArrayNode(path=path, layout=of)


def archive(groups: Mapping[str, Mapping[str, Any]], *arrays: ArrayNode) -> Archive:
    """An archive of groups (attributes by path) and arrays; the groups above them come by themselves."""
    nodes: dict[str, Node] = {path: GroupNode(path=path, attributes=dict(a)) for path, a in groups.items()}
    nodes.update({node.path: node for node in arrays})
    for path in list(nodes):
        for parent in parents(path):
            nodes.setdefault(parent, GroupNode(path=parent))
    return Archive(url="x", format="zarr2", nodes=tuple(nodes[path] for path in sorted(nodes)))


class Storage:
    """A place with these files and nothing else."""

    can_list = True

    def __init__(self, keys: Iterable[str]) -> None:
        self.keys = tuple(keys)

    def list_prefix(self, prefix: str) -> Iterator[str]:
        return (key for key in self.keys if key.startswith(prefix))


def applied(
    one: Archive, conventions: str = "auto", *, files: Iterable[str] = (), **sections: str
) -> ConventionChanges:
    """What conventions make of an archive; `sections` choose others below a path ("/" as "__")."""
    recipe = Recipe(
        base=ArrayRecipe(conventions=conventions),
        sections=tuple(
            (path.replace("__", "/") + "/**", (("conventions", names),)) for path, names in sections.items()
        ),
    )
    return apply_conventions(one, Storage(files), recipe)
