"""The description of an archive by a reader, in Zarr v3 terms.

A reader converts nothing. It describes the stored form, so that source and destination have the same
representation and the route results from their comparison. Everything here is frozen, picklable data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final, TypeAlias

from zarrstack.core.errors import Problem, UsageError
from zarrstack.core.json_text import JSON, JSONObject
from zarrstack.core.paths import parents, prefix_of
from zarrstack.core.similar_names import did_you_mean

from ..core.chain.chain import Chain
from ..core.codec_spec import CodecSpec
from ..core.data_types.v3 import DataType, fill_to_json
from ..core.frozen_json import frozen
from ..core.grid.chunk_keys import ChunkKeys, chunk_keys_from_json
from ..core.grid.frames import Frame, Shards, frame_from_json
from ..core.grid.grid import Grid
from ..core.grid.pattern_keys import PatternKeys
from ..core.problems import any_refusal
from ..recipe.changes import ZeroFill
from ..recipe.options import Format
from .notebook import NotebookResult

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


_ITEM: Final = 64
"""Estimated bytes of an item of variable length."""


# Without `__slots__`, for the cached grids.
@dataclass(frozen=True, kw_only=True)
class Layout:
    """How the values of one array are stored, in Zarr v3 terms.

    Examples
    --------
    >>> [array] = [node for node in zarrlift.inspect("ocean.zarr").nodes if node.path == "sst"]
    >>> array.layout.chunk_shape, array.layout.key("sst", (0, 1, 0))
    ((4, 45, 90), 'sst/0.1.0')
    """

    shape: tuple[int, ...]
    data_type: DataType
    fill_value: JSON
    """Fill value in the v3 JSON form of the data type."""
    chunk_shape: tuple[int, ...]
    """Shape of an inner chunk, in elements."""
    chain: Chain
    """Codec chain from the array to the stored bytes of an inner chunk; in normal form."""
    keys: ChunkKeys
    """Encoding of object keys from positions in the grid of objects."""
    frame: Frame | None = None
    """Structure around the payloads in an object; None if an object is the payload of one inner chunk."""
    root: str | None = None
    """Location of the objects if not below the array's own path (`data/root/a/b` in the 2022 draft)."""
    dimension_names: tuple[str | None, ...] | None = None
    opaque: bool = False
    """Whether only the keys of the objects are known, of an array that is passed through."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "fill_value", frozen(self.fill_value))

    @classmethod
    def of_objects(cls, keys: ChunkKeys, counts: tuple[int, ...] | None = None) -> Layout:
        """The layout of an array that is passed through: a grid of objects, each of which is one byte here.

        `counts` are the objects along each axis, unless the keys are listed.
        """
        assert counts is not None or isinstance(keys, PatternKeys)
        shape = (keys.total,) if isinstance(keys, PatternKeys) else counts
        assert shape is not None
        return cls(
            shape=shape,
            data_type=DataType("uint8"),
            fill_value=0,
            chunk_shape=(1,) * len(shape),
            chain=Chain((CodecSpec("bytes"),)),
            keys=keys,
            opaque=True,
        )

    @cached_property
    def grid(self) -> Grid:
        """The grid of inner chunks."""
        return Grid(self.shape, self.chunk_shape)

    @property
    def object_shape(self) -> tuple[int, ...]:
        """Shape of one stored object in elements: an inner chunk or a shard."""
        if not isinstance(self.frame, Shards):
            return self.chunk_shape
        counts = self.frame.chunks_per_shard
        return tuple(length * count for length, count in zip(self.chunk_shape, counts, strict=True))

    @property
    def item_bytes(self) -> int:
        """Bytes of a value; an estimate for variable length."""
        return self.data_type.itemsize or _ITEM

    @cached_property
    def objects(self) -> Grid:
        """The grid of stored objects."""
        return Grid(self.shape, self.object_shape)

    def prefix(self, path: str) -> str:
        """Key prefix of the objects of the array at `path`: "" or a path with "/" at its end."""
        place = path if self.root is None else self.root
        return prefix_of(place)

    def object_keys(self, path: str, places: npt.NDArray[np.int64]) -> list[str]:
        """The keys of objects at (n, ndim) positions in their grid, relative to the archive's root."""
        prefix = self.prefix(path)
        return [prefix + key for key in self.keys.keys(places)]

    def key(self, path: str, place: tuple[int, ...]) -> str:
        """The key of an object, relative to the archive's root."""
        return self.prefix(path) + self.keys.key(place)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceDocument:
    """A metadata document of the source."""

    key: str
    """Key relative to the archive's root, such as `a/b/.zarray`."""
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupNode:
    """A group: attributes and children; `implicit` if it has no document.

    Examples
    --------
    >>> zarrlift.inspect("ocean.zarr").nodes[0].attributes
    {'title': 'A year of the sea, made up'}
    """

    path: str
    """"" for the root, otherwise names joined by "/"."""
    attributes: Mapping[str, JSON] = field(default_factory=dict)
    documents: tuple[SourceDocument, ...] = ()
    implicit: bool = False
    problems: tuple[Problem, ...] = ()

    @property
    def refused(self) -> bool:
        """Whether a problem excludes this node."""
        return any_refusal(self.problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class PassedThrough:
    """An array of Zarr v3 that is valid as far as it is known, and whose bytes are never changed."""

    unknown: str
    """What is unknown of it here, such as "unknown codec 'packbits'"."""
    document: JSONObject
    objects: Layout | None = None
    """Where its objects are, if its grid and its keys are known; otherwise a listing finds them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayNode:
    """An array; `layout` is None if and only if a problem refuses it, or if it is passed through.

    Examples
    --------
    >>> [array] = [node for node in zarrlift.inspect("ocean.zarr").nodes if node.path == "lat"]
    >>> array.attributes["units"], array.layout.shape
    ('degrees_north', (90,))
    """

    path: str
    attributes: Mapping[str, JSON] = field(default_factory=dict)
    layout: Layout | None = None
    fill_is_null: bool = False
    """Whether the source's fill value is `null`, so that the values of missing chunks are undefined."""
    number_as_text: str | None = None
    """If the source's fill value is 0 or NaN, although the values are text: "0" or "nan".

    Some versions of zarr-python show this text, others show no text; `layout` has the second. See
    `layout_with`.
    """
    documents: tuple[SourceDocument, ...] = ()
    extra: JSONObject = field(default_factory=dict)
    """Unknown members of the source's array document, preserved in the result."""
    problems: tuple[Problem, ...] = ()
    chunk_names: tuple[str, ...] | None = None
    """Names of all files but documents in its directory, if these are few and there is nothing else: the
    directory need not be listed again. Only of a local archive.
    """
    passed: PassedThrough | None = None
    """Of an array that cannot be described, because a part of it is unknown here."""

    @property
    def refused(self) -> bool:
        """Whether a problem excludes this node."""
        return (self.layout is None and self.passed is None) or any_refusal(self.problems)

    def layout_with(self, zero_fill: ZeroFill | None) -> Layout | None:
        """The layout with the chosen meaning of a fill value that is not text, if the node has such a one."""
        if self.layout is None or self.number_as_text is None or zero_fill != "text":
            return self.layout
        data_type = self.layout.data_type
        text = self.number_as_text
        if data_type.numpy.kind == "U":
            text = text[: data_type.numpy.itemsize // 4]
        is_bytes = data_type.name in ("bytes", "null_terminated_bytes")
        value = text.encode()[: data_type.itemsize] if is_bytes else text
        return replace(self.layout, fill_value=fill_to_json(value, data_type))


Node: TypeAlias = GroupNode | ArrayNode


@dataclass(frozen=True, slots=True, kw_only=True)
class RecognizedConvention:
    """A recognized convention of an application."""

    name: str
    summary: str
    """Summary of what was recognized: "2 images, 1 plate"."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Archive(NotebookResult):
    """A tree of nodes, with problems.

    Examples
    --------
    >>> archive = zarrlift.inspect("cells.n5")
    >>> archive.format, len(archive.nodes), sorted({problem.kind for problem in archive.all_problems()})
    ('n5', 5, ['axes', 'convention'])
    """

    url: str
    format: Format
    nodes: tuple[Node, ...]
    """Sorted by path; the root comes first, and every parent is included (implicit groups too)."""
    consolidated: bool = False
    """Whether the source had consolidated metadata."""
    documents: tuple[SourceDocument, ...] = ()
    """Documents that belong to no node, such as `.zmetadata`."""
    problems: tuple[Problem, ...] = ()
    """Problems of the archive as a whole; those of a node are in the node."""
    conventions: tuple[RecognizedConvention, ...] = ()
    """Recognized conventions; set by `inspect`, not by readers."""

    def __repr__(self) -> str:
        counts = f"{len(self.nodes)} nodes, {len(self.all_problems())} problems"
        return f"<Archive {self.url!r} ({self.format}): {counts}>"

    def all_problems(self) -> tuple[Problem, ...]:
        """All problems, the archive's first, then by node."""
        return (*self.problems, *(p for node in self.nodes for p in node.problems))

    def part(self, path: str) -> Archive:
        """A node, what is below it, and their problems; UsageError if there is no such node."""
        path = path.strip("/")
        nodes = tuple(node for node in self.nodes if not path or path in (node.path, *parents(node.path)))
        if not nodes:
            near = did_you_mean(path, [node.path for node in self.nodes])
            raise UsageError("the archive has no such node", node=path, found=self.url, advice=near)
        paths = {node.path for node in nodes}
        return replace(self, nodes=nodes, problems=tuple(p for p in self.problems if p.node in paths))


def layout_to_json(layout: Layout) -> JSONObject:
    """A layout, complete; the chain is in normal form, unlike in `zarr.json`."""
    return {
        "shape": list(layout.shape),
        "data_type": layout.data_type.to_json(),
        "fill_value": layout.fill_value,
        "chunk_shape": list(layout.chunk_shape),
        "codecs": [codec.to_json() for codec in layout.chain.codecs],
        "chunk_key_encoding": layout.keys.to_json(),
        "frame": None if layout.frame is None else layout.frame.to_json(),
        "root": layout.root,
        "dimension_names": None if layout.dimension_names is None else list(layout.dimension_names),
        **({"opaque": True} if layout.opaque else {}),
    }


def layout_from_json(data: JSONObject) -> Layout:
    """Inverse of `layout_to_json`."""
    names = data["dimension_names"]
    return Layout(
        shape=tuple(data["shape"]),
        data_type=DataType.from_json(data["data_type"]),
        fill_value=data["fill_value"],
        chunk_shape=tuple(data["chunk_shape"]),
        chain=Chain(tuple(CodecSpec.from_json(codec) for codec in data["codecs"])),
        keys=chunk_keys_from_json(data["chunk_key_encoding"]),
        frame=frame_from_json(data.get("frame")),
        root=data.get("root"),
        dimension_names=None if names is None else tuple(names),
        opaque=data.get("opaque", False),
    )
