"""What a reader returns: an archive described in Zarr v3 terms.

A reader converts nothing. It describes what lies in storage, so that source and
destination are the same kind of thing and the route falls out of comparing them.
Everything here is frozen, picklable data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from zarrstack.core.chain.chain import Chain
from zarrstack.core.data_types.v3 import DataType
from zarrstack.core.errors import Problem, any_refusal
from zarrstack.core.grid.chunk_keys import ChunkKeys
from zarrstack.core.grid.frames import Frame, Shards
from zarrstack.core.grid.grid import Grid
from zarrstack.core.json_text import JSON, JSONObject
from zarrstack.core.paths import prefix_of

Format: TypeAlias = Literal["zarr1", "zarr2", "zarr3", "zarr3-draft", "n5"]

_ITEM: Final = 64
"""Bytes of an item of variable length, roughly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How the values of one array lie in storage, in Zarr v3 terms."""

    shape: tuple[int, ...]
    data_type: DataType
    fill_value: JSON
    """In the v3 JSON form of the data type."""
    chunk_shape: tuple[int, ...]
    """Shape of a leaf chunk, in elements."""
    chain: Chain
    """From the array to the stored bytes of a leaf; in normal form."""
    keys: ChunkKeys
    """How objects are named, from their place in the grid of objects."""
    frame: Frame | None = None
    """What stands around the payloads in an object; None: an object is the payload of one leaf."""
    root: str | None = None
    """Where the objects lie, if not below the array's own path (`data/root/a/b` in the 2022 draft)."""
    dimension_names: tuple[str | None, ...] | None = None

    @property
    def grid(self) -> Grid:
        """The grid of leaf chunks."""
        return Grid(self.shape, self.chunk_shape)

    @property
    def object_shape(self) -> tuple[int, ...]:
        """Shape of what one stored object holds, in elements: a leaf chunk, or a shard."""
        if not isinstance(self.frame, Shards):
            return self.chunk_shape
        counts = self.frame.chunks_per_shard
        return tuple(length * count for length, count in zip(self.chunk_shape, counts, strict=True))

    @property
    def item_bytes(self) -> int:
        """Bytes of a value; a guess where their length varies."""
        return self.data_type.itemsize or _ITEM

    @property
    def objects(self) -> Grid:
        """The grid of stored objects."""
        return Grid(self.shape, self.object_shape)

    def prefix(self, path: str) -> str:
        """What the keys of its objects begin with, for the array at `path`: "" or a place and "/"."""
        place = path if self.root is None else self.root
        return prefix_of(place)

    def key(self, path: str, place: tuple[int, ...]) -> str:
        """The key of an object, relative to the archive's root."""
        return self.prefix(path) + self.keys.key(place)


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A metadata document as it lies in the source."""

    key: str
    """Relative to the archive's root, such as `a/b/.zarray`."""
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupNode:
    """A group: attributes and children; `implicit` if nothing but its children says it exists."""

    path: str
    """"" for the root, else names joined by "/"."""
    attributes: Mapping[str, JSON] = field(default_factory=dict)
    documents: tuple[Document, ...] = ()
    implicit: bool = False
    problems: tuple[Problem, ...] = ()

    @property
    def refused(self) -> bool:
        """Whether a problem keeps this node back."""
        return any_refusal(self.problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayNode:
    """An array; `layout` is None exactly where a problem refuses it."""

    path: str
    attributes: Mapping[str, JSON] = field(default_factory=dict)
    layout: Layout | None = None
    fill_is_null: bool = False
    """The source defines no fill value (`null`): what missing chunks hold is undefined."""
    documents: tuple[Document, ...] = ()
    extra: JSONObject = field(default_factory=dict)
    """Unknown members of the source's array document, kept so that nothing is lost."""
    problems: tuple[Problem, ...] = ()
    bare: bool = False
    """Nothing but documents was seen in its directory, so that there is no chunk to look for."""

    @property
    def refused(self) -> bool:
        """Whether a problem keeps this node back."""
        return self.layout is None or any_refusal(self.problems)


Node: TypeAlias = GroupNode | ArrayNode


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenConvention:
    """A convention of an application that was recognised."""

    name: str
    summary: str
    """What of it was seen: "2 images, 1 plate"."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Archive:
    """A tree of nodes and what was found on the way."""

    url: str
    format: Format
    nodes: tuple[Node, ...]
    """Sorted by path; the root is first, and every parent is there (implicit groups too)."""
    consolidated: bool = False
    """Whether the source had consolidated metadata."""
    documents: tuple[Document, ...] = ()
    """Documents that belong to no node, such as `.zmetadata`."""
    problems: tuple[Problem, ...] = ()
    """Problems of the archive as a whole; those of a node are with the node."""
    conventions: tuple[SeenConvention, ...] = ()
    """What applications laid on top; filled in by `inspect`, not by readers."""

    def __repr__(self) -> str:
        counts = f"{len(self.nodes)} nodes, {len(self.all_problems())} problems"
        return f"<Archive {self.url!r} ({self.format}): {counts}>"

    def all_problems(self) -> tuple[Problem, ...]:
        """Every problem, the archive's first, then by node."""
        return (*self.problems, *(p for node in self.nodes for p in node.problems))
