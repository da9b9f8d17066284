"""Conventions of applications, one module or folder each, and the contract for conventions of your own.

A convention is what an application adds to an archive: attributes with a meaning, dimension names, texts that
refer to other nodes. It receives the whole described archive at once and returns the form of each node in
Zarr v3. It never moves data.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Final

from zarrstack.core.errors import Problem, Severity
from zarrstack.core.json_text import JSON
from zarrstack.core.paths import prefix_of

from ..archive.nodes import Archive, ArrayNode, GroupNode, Layout, Node
from ..recipe.recipe import ArrayRecipe, Recipe
from ..storage.base import Storage

__all__ = ["Change", "Convention", "Recognised", "View"]
_DOCUMENTS: Final = frozenset({".zgroup", ".zattrs", ".zarray", ".zmetadata", "zarr.json"})


@dataclass(frozen=True, kw_only=True)
class View:
    """The input of a convention."""

    archive: Archive
    """The archive with the attributes and dimension names set by the previous conventions."""
    storage: Storage
    """For reading documents, or the chunks of small arrays; read-only."""
    recipe: Recipe = field(default_factory=Recipe)
    """The other requested changes: a cast, for example, changes the fill value."""
    in_place: bool = False
    """Whether chunks remain unchanged where they are."""
    wanted: Callable[[str], bool] = lambda _: True
    """Whether the convention is requested at a path; its results for other nodes are ignored."""

    @cached_property
    def nodes(self) -> Mapping[str, Node]:
        """Every node by path."""
        return {node.path: node for node in self.archive.nodes}

    @cached_property
    def _names(self) -> Mapping[str, tuple[str, ...]]:
        names: dict[str, list[str]] = {}
        for path in self.nodes:
            if path:
                parent, _, name = path.rpartition("/")
                names.setdefault(parent, []).append(name)
        return {path: tuple(children) for path, children in names.items()}

    @cached_property
    def migrated(self) -> frozenset[str]:
        """The paths of the nodes that the recipe selects, and of the groups above them."""
        return self.recipe.needed(self.nodes)

    def children(self, path: str) -> tuple[str, ...]:
        """The names of the nodes directly below a path."""
        return self._names.get(path, ())

    def files(self, path: str) -> tuple[str, ...]:
        """Keys of the extra files in a group, sorted; empty if the storage cannot list."""
        prefix = prefix_of(path)
        if not self.storage.can_list:
            return ()
        below = tuple(f"{prefix}{name}/" for name in self.children(path))
        return tuple(
            sorted(
                key
                for key in self.storage.list_prefix(prefix)
                if not key.startswith(below) and key.rpartition("/")[2] not in _DOCUMENTS
            )
        )

    def array(self, path: str) -> ArrayNode | None:
        """The array at a path, if any."""
        node = self.nodes.get(path)
        return node if isinstance(node, ArrayNode) else None

    def group(self, path: str) -> GroupNode | None:
        """The group at a path, if any."""
        node = self.nodes.get(path)
        return node if isinstance(node, GroupNode) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The change of one node; None keeps the present value."""

    attributes: Mapping[str, JSON] | None = None
    """All attributes, including the unchanged ones."""
    dimension_names: tuple[str | None, ...] | None = None
    objects: str | None = None
    """Name of a reading that converts an array's object values to text; None uses the recipe's."""
    layout: Layout | None = None
    """Another layout for an array's stored bytes, with another interpretation of the values but the same
    location.
    """
    lifts: tuple[Problem, ...] = ()
    """Problems of the reader with the array that do not apply to this layout."""
    replaced: tuple[str, ...] = ()
    """Locations of source attributes whose values are absent from the result, as JSON pointers (RFC 6901).

    Their meaning is expressed in another way or by Zarr v3 itself. `verify` searches for all other values of
    the source.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Recognised:
    """The result of a convention for an archive."""

    summary: str
    """A short summary of what was recognized: "2 images, 1 plate"."""
    changes: Mapping[str, Change] = field(default_factory=dict)
    """Changes by path."""
    problems: tuple[Problem, ...] = ()
    """Each with its node. A refusal excludes that node and all nodes below it, unchanged: no node is
    converted in part. They can be migrated as plain data by not requesting the convention; see
    `Convention.refuses`.
    """
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Path of a group -> keys of extra files that the application reads (`View.files`).

    A copy includes them unchanged with that group.
    """


def finding(
    severity: Severity,
    node: str,
    message: str,
    found: str | None = None,
    expected: str | None = None,
    *,
    key: str | None = None,
    advice: str | None = None,
    kind: str = "convention",
) -> Problem:
    """A problem of a node's convention; the recipe's if it is of this kind."""
    return Problem(
        kind=kind,
        severity=severity,
        node=node,
        key=key,
        message=message,
        found=found,
        expected=expected,
        advice=advice,
    )


class Convention(ABC):
    """A convention. A recipe names it by its class: `zarrlift.ArrayRecipe(conventions=["auto", Labels])`.

    The class is instantiated without arguments for each archive.
    """

    name: ClassVar[str]
    """Name on the command line and in recipes."""
    exclusive: ClassVar[bool] = False
    """Whether later conventions skip the nodes that this one changes."""

    @classmethod
    def refuses(cls, recipe: ArrayRecipe) -> bool:
        """Whether a node that the convention cannot convert is refused, with the recipe of that node.

        If not, it and all nodes below are migrated as plain data, with their old metadata, and the refusal is
        reported as a warning. By default, always: without the conversion, something may be lost.
        """
        return True

    @abstractmethod
    def recognise(self, view: View) -> Recognised | None:
        """The convention's account of an archive; None if it does not apply.

        Raises nothing because of the archive's content; report that in `problems`. Nothing named in an
        archive may be imported, executed or followed to a target outside the archive.
        """
