"""Chunk keys of N5, and the order of an array's axes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np

from zarrstack.core.chunk_keys_v3 import KeyEncoding
from zarrstack.core.errors import MetadataError
from zarrstack.core.json_text import JSON, JSONObject, excerpt

from ..shapes import Shape

if TYPE_CHECKING:
    import numpy.typing as npt


Axes: TypeAlias = Literal["reversed", "kept"]


def reverse_axes(lengths: Shape, axes: Axes) -> Shape:
    """Convert lengths or coordinates between N5's order and the displayed one; its own inverse."""
    return lengths[::-1] if axes == "reversed" else lengths


_KEPT: Final = KeyEncoding("v2", "/")
"""N5's keys are v2's with `/`; the only block of a 0-d dataset is `0` (zarr-python 2.18, tensorstore)."""


@dataclass(frozen=True, slots=True)
class N5Keys:
    """The block keys of a dataset: x/y/z, from coordinates in the displayed order.

    Same interface as `KeyEncoding`. With axes kept it is v2's encoding with `/`.
    """

    axes: Axes = "reversed"

    @classmethod
    def from_json(cls, data: JSON) -> N5Keys:
        """The inverse of `to_json`; MetadataError for anything else."""
        axes = data["configuration"].get("axes") if isinstance(data, dict) and _is_n5(data) else None
        if axes not in ("reversed", "kept"):
            raise MetadataError("not N5's keys", found=excerpt(data), expected='{"name": "n5", ...}')
        return cls(axes)

    def to_json(self) -> JSONObject:
        """JSON for saved plans; not used in v3 documents."""
        return {"name": "n5", "configuration": {"axes": self.axes}}

    def key(self, coordinates: Shape) -> str:
        """The key of a chunk."""
        return _KEPT.key(reverse_axes(coordinates, self.axes))

    def keys(self, coordinates: npt.NDArray[np.integer]) -> list[str]:
        """The keys of many chunks, from (n, ndim) coordinates; equal to `key` for each row."""
        return _KEPT.keys(coordinates[:, ::-1] if self.axes == "reversed" else coordinates)

    def coordinates(self, key: str, ndim: int) -> Shape | None:
        """The coordinates of a key's chunk in an `ndim`-dimensional dataset, or None."""
        place = _KEPT.coordinates(key, ndim)
        return None if place is None else reverse_axes(place, self.axes)

    def depth(self, ndim: int) -> int:
        """Number of path segments in a key."""
        return _KEPT.depth(ndim)

    def __str__(self) -> str:
        return f"n5, axes {self.axes}"


def _is_n5(data: JSONObject) -> bool:
    return data.get("name") == "n5" and isinstance(data.get("configuration"), dict)
