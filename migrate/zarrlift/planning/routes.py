"""(Layout, Layout) -> Route: the cheapest correct route, from their differences; and what a worker needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, Self, TypeAlias

from zarrstack.core.chunk_keys_v3 import KeyEncoding
from zarrstack.core.json_text import JSONObject

from ..archive.nodes import Layout, layout_from_json, layout_to_json
from ..core.grid.chunk_keys import N5Keys
from ..core.grid.frames import N5Blocks, Shards
from ..core.json_fields import json_of_fields
from ..recipe.recipe import ValueOptions

_SHAPES: Final = ("block_shape", "piece_shape", "run_shape")

RouteName: TypeAlias = Literal["stay", "pass", "relink", "reframe", "recode", "rewrite", "regrid"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The route of one array's chunks to the destination.

    `shared` is the number of codecs, from the array side, that both chains have in common: payloads are
    decoded down to there and encoded again from there.
    """

    name: RouteName
    shared: int
    reason: str
    """The differences, in the wording of the plan."""

    @property
    def decodes(self) -> bool:
        """Whether payloads are decoded."""
        return self.name in ("recode", "rewrite", "regrid")

    @property
    def copies(self) -> bool:
        """Whether objects are copied unchanged."""
        return self.name in ("pass", "relink")


def route_between(
    source: Layout,
    destination: Layout,
    *,
    same_place: bool,
    values: ValueOptions = ValueOptions(),  # noqa: B008 - a tuple
) -> Route:
    """The route from one layout to another; `same_place` if chunks remain where they are stored.

    If empty chunks are omitted, each must be checked, which requires `rewrite`.
    """
    shared = source.chain.common_prefix(destination.chain)
    place = "keys" if same_place else "place"
    if source.chunk_shape != destination.chunk_shape:
        return Route(name="regrid", shared=shared, reason="chunk shape")
    if source.data_type != destination.data_type:
        return Route(name="rewrite", shared=0, reason="data type")
    if values.drop_empty:
        return Route(name="rewrite", shared=0, reason="empty chunks are left out")
    if source.chain == destination.chain:
        if source.frame != destination.frame:
            return Route(name="reframe", shared=shared, reason=_frames(source, destination))
        if same_place and _same_keys(source, destination):
            return Route(name="stay", shared=shared, reason="metadata only")
        return Route(name="relink", shared=shared, reason=place)
    if shared > source.chain.middle and shared > destination.chain.middle:
        return Route(name="recode", shared=shared, reason="bytes codecs")
    return Route(name="rewrite", shared=shared, reason="array codecs")


def _same_keys(source: Layout, destination: Layout) -> bool:
    """Whether every chunk has the same key in the destination's encoding."""
    if source.root != destination.root:
        return False
    equivalent = KeyEncoding("v2", "/") if source.keys == N5Keys("kept") else source.keys
    return destination.keys in (equivalent, source.keys)


def _frames(source: Layout, destination: Layout) -> str:
    if isinstance(source.frame, N5Blocks):
        return "block headers"
    if isinstance(source.frame, Shards) and isinstance(destination.frame, Shards):
        return "shard index"
    return "shards"


class Move(NamedTuple):
    """Everything needed to move chunks of one array; small and picklable, sent to workers."""

    path: str
    source: Layout
    destination: Layout
    route: Route
    values: ValueOptions = ValueOptions()
    block_shape: tuple[int, ...] | None = None
    """If the objects do not correspond to the source's: the unit of work, in whole objects of the
    destination; None if each is made from the source object at the same grid position.
    """
    piece_shape: tuple[int, ...] | None = None
    """If the values of a block exceed the memory: the part assembled at a time."""
    run_shape: tuple[int, ...] | None = None
    """Several consecutive pieces within a block, for which decoded source chunks are kept as far as needed.
    """
    source_is_destination: bool = False
    """Whether the source's objects are at the destination: the second of two passes."""
    replaces: bool = False
    """Whether earlier objects are replaced, so that those that are not made any more are deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IntermediateArray:
    """The intermediate array of two passes, and the unit of work of its first pass."""

    layout: Layout
    block_shape: tuple[int, ...]
    piece_shape: tuple[int, ...] | None
    run_shape: tuple[int, ...] | None
    bounds: tuple[int, ...]
    """Bounds of the first pass's tasks, like `ArrayPlan.bounds`."""

    def to_json(self) -> JSONObject:
        """The complete object as JSON."""
        return {"layout": layout_to_json(self.layout), **json_of_fields(self, "layout")}

    @classmethod
    def from_json(cls, data: JSONObject) -> Self:
        """Inverse of `to_json`."""
        layout = layout_from_json(data["layout"])
        return cls(layout=layout, bounds=tuple(data["bounds"]), **shapes_from_json(data))


def shapes_to_json(move: Move) -> JSONObject:
    """The shapes of a move's units of work as JSON."""
    return {name: None if (shape := getattr(move, name)) is None else list(shape) for name in _SHAPES}


def shapes_from_json(data: JSONObject) -> dict[str, Any]:
    """The shapes in a plan's JSON, by the name of the field."""
    return {name: None if (shape := data.get(name)) is None else tuple(shape) for name in _SHAPES}
