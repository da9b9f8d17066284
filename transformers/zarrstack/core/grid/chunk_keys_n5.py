"""Chunk keys of N5, and the order in which an array shows its axes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np

from ..errors import MetadataError
from ..json_text import JSON, JSONObject, excerpt
from .chunk_keys_v3 import KeyEncoding

if TYPE_CHECKING:
    import numpy.typing as npt


Axes: TypeAlias = Literal["reversed", "kept"]


Shape: TypeAlias = tuple[int, ...]


def turned(lengths: Shape, axes: Axes) -> Shape:
    """Lengths or coordinates between N5's order and the one shown; its own inverse."""
    return lengths[::-1] if axes == "reversed" else lengths


_KEPT: Final = KeyEncoding("v2", "/")
"""N5's keys are v2's with `/`; the one block of a 0-d dataset is `0` (zarr-python 2.18, tensorstore)."""


@dataclass(frozen=True, slots=True)
class N5Keys:
    """How the blocks of a dataset are named: x/y/z, from coordinates in the order shown.

    The interface of `KeyEncoding`. With axes kept it is v2's encoding with `/`.
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
        """For saved plans; no v3 document holds it."""
        return {"name": "n5", "configuration": {"axes": self.axes}}

    def key(self, coordinates: Shape) -> str:
        """The key of a chunk."""
        return _KEPT.key(turned(coordinates, self.axes))

    def keys(self, coordinates: npt.NDArray[np.integer]) -> list[str]:
        """The keys of many chunks, from (n, ndim) coordinates; the same as `key` for each row."""
        return _KEPT.keys(coordinates[:, ::-1] if self.axes == "reversed" else coordinates)

    def coordinates(self, key: str, ndim: int) -> Shape | None:
        """The chunk a key names, or None if it names none of an `ndim`-dimensional dataset."""
        found = _KEPT.coordinates(key, ndim)
        return None if found is None else turned(found, self.axes)

    def depth(self, ndim: int) -> int:
        """How many names a key is made of, between slashes."""
        return _KEPT.depth(ndim)

    def __str__(self) -> str:
        return f"n5, axes {self.axes}"


def _is_n5(data: JSONObject) -> bool:
    return data.get("name") == "n5" and isinstance(data.get("configuration"), dict)
