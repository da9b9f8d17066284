"""The intermediate array of two passes, as stored in a plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from zarrstack.core.json_text import JSONObject

from ...archive.nodes import Layout, layout_from_json, layout_to_json


@dataclass(frozen=True, slots=True, kw_only=True)
class IntermediateArray:
    """The intermediate array of two passes, and the unit of work of its first pass."""

    layout: Layout
    block_shape: tuple[int, ...]
    buffer_shape: tuple[int, ...] | None
    sweep_shape: tuple[int, ...] | None
    bounds: tuple[int, ...]
    """Bounds of the first pass's tasks, like `ArrayPlan.bounds`."""

    def to_json(self) -> JSONObject:
        """The complete object as JSON."""
        return {
            "layout": layout_to_json(self.layout),
            "block_shape": list(self.block_shape),
            "piece_shape": shape_to_json(self.buffer_shape),
            "run_shape": shape_to_json(self.sweep_shape),
            "bounds": list(self.bounds),
        }

    @classmethod
    def from_json(cls, data: JSONObject) -> Self:
        """Inverse of `to_json`."""
        return cls(
            layout=layout_from_json(data["layout"]),
            block_shape=tuple(data["block_shape"]),
            buffer_shape=shape_from_json(data["piece_shape"]),
            sweep_shape=shape_from_json(data.get("run_shape")),
            bounds=tuple(data["bounds"]),
        )


def shape_to_json(shape: tuple[int, ...] | None) -> list[int] | None:
    """An optional shape as JSON."""
    return None if shape is None else list(shape)


def shape_from_json(data: list[int] | None) -> tuple[int, ...] | None:
    """Inverse of `shape_to_json`."""
    return None if data is None else tuple(data)
