"""The contract of a convention: what it sees, and what it says about an archive.

A convention is what an application lays on top of an archive: attributes with a meaning, names
of dimensions, texts that point to other nodes. It sees the whole described archive at once, and
says per node what that becomes in Zarr v3. It never moves data.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Final

from zarrstack.core.errors import Problem
from zarrstack.core.json_text import JSON
from zarrstack.core.paths import prefix_of

from ..archive.nodes import Archive, ArrayNode, GroupNode, Layout, Node
from ..recipe.recipe import Recipe
from ..storage.base import Storage

_DOCUMENTS: Final = frozenset({".zgroup", ".zattrs", ".zarray", ".zmetadata", "zarr.json"})


@dataclass(frozen=True, kw_only=True)
class View:
    """What a convention sees of an archive."""

    archive: Archive
    """As the conventions before this one left it: attributes and dimension names are theirs."""
    storage: Storage
    """For documents, or the chunks of small arrays; only read."""
    recipe: Recipe = field(default_factory=Recipe)
    """What else is asked for: a cast, say, changes what a fill value is."""
    in_place: bool = False
    """Whether chunks stay where and as they are."""
    wanted: Callable[[str], bool] = lambda _: True
    """Whether the convention is asked for at a path; what it says of other nodes is passed over."""

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
        return {path: tuple(found) for path, found in names.items()}

    def children(self, path: str) -> tuple[str, ...]:
        """The names of the nodes directly below a path."""
        return self._names.get(path, ())

    def files(self, path: str) -> tuple[str, ...]:
        """Keys of the files in a group that are no Zarr, sorted; none where the place cannot list."""
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
        """The array at a path, if there is one."""
        node = self.nodes.get(path)
        return node if isinstance(node, ArrayNode) else None

    def group(self, path: str) -> GroupNode | None:
        """The group at a path, if there is one."""
        node = self.nodes.get(path)
        return node if isinstance(node, GroupNode) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What one node becomes; None leaves what it has."""

    attributes: Mapping[str, JSON] | None = None
    """All attributes, those that stay as they were included."""
    dimension_names: tuple[str | None, ...] | None = None
    objects: str | None = None
    """Name of a reading that turns an array's object values into text; None is the recipe's own."""
    layout: Layout | None = None
    """How an array's stored bytes are to be read instead: what its values mean, not where they lie."""
    lifts: tuple[Problem, ...] = ()
    """What the reader had against the array, and no longer holds with that layout."""
    replaced: tuple[str, ...] = ()
    """Places of source attributes whose values are not found again, as JSON pointers (RFC 6901).

    What they said is said otherwise, or is said by Zarr v3 itself. `verify` looks for every other
    value of the source.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Recognised:
    """A convention's account of an archive."""

    summary: str
    """What was seen, in a few words: "2 images, 1 plate"."""
    changes: Mapping[str, Change] = field(default_factory=dict)
    """By path."""
    problems: tuple[Problem, ...] = ()
    """Each with its node. A refusal keeps back that node and all below it, as they stand: nothing is
    half-converted. They are migrated as plain data where the convention is not asked for.
    """
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Path of a group -> keys of files that are no Zarr and that the application reads (`View.files`).

    A copy takes them along as they lie, with that group.
    """


class Convention(ABC):
    """One convention. Register it as an entry point of the group `zarrlift.conventions`.

    It is made without arguments, for each archive anew. The first line of its docstring
    describes it in listings.
    """

    name: ClassVar[str]
    """As on the command line and in recipes."""
    auto: ClassVar[bool] = True
    """Whether `--conventions auto` includes it."""
    exclusive: ClassVar[bool] = False
    """Whether the nodes it says something of are its own: no convention after it is asked about them."""

    @abstractmethod
    def recognise(self, view: View) -> Recognised | None:
        """What the convention makes of an archive; None where it sees nothing of its own.

        Raises nothing because of what an archive holds: that is said in `problems`. Nothing an
        archive names is imported, run or followed out of the archive.
        """
