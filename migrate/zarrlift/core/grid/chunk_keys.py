"""The chunk key encodings of all formats: v3's, N5's, the 2022 draft's, and keys by patterns.

All share one interface: `key`, `keys`, `coordinates`, `depth` and `to_json`. A v3 document can only have a
`KeyEncoding`.

Source of the draft's: https://github.com/zarr-developers/zarr-specs/blob/71b92bb/docs/core/v3.0.rst, "Regular
grids".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from zarrstack.core.chunk_keys_v3 import KeyEncoding, Separator
from zarrstack.core.errors import MetadataError
from zarrstack.core.json_text import JSON, JSONObject, excerpt

from ..shapes import Shape
from .pattern_keys import PatternKeys

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class DraftKeys:
    """The chunk keys of one array, relative to the array: `c0/1/2`, or `c0.1.2`.

    Same interface as `KeyEncoding`. Section "Regular grids"; the 0-d key depends on the dialect.
    """

    separator: Separator = "/"
    scalar_key: str = "c"

    @classmethod
    def from_json(cls, data: JSON) -> DraftKeys:
        """The inverse of `to_json`; MetadataError for anything else."""
        configuration = data.get("configuration") if isinstance(data, dict) else None
        if isinstance(configuration, dict) and data.get("name") == "draft":
            separator, scalar = configuration.get("separator"), configuration.get("scalar_key")
            if separator in (".", "/") and scalar in ("c", "c0"):
                return cls(separator, scalar)
        raise MetadataError("not the draft's keys", found=excerpt(data), expected='{"name": "draft", ...}')

    def to_json(self) -> JSONObject:
        """JSON for saved plans; not used in v3 documents."""
        configuration = {"separator": self.separator, "scalar_key": self.scalar_key}
        return {"name": "draft", "configuration": configuration}

    def key(self, coordinates: tuple[int, ...]) -> str:
        """The key of a chunk."""
        return "c" + self._plain.key(coordinates) if coordinates else self.scalar_key

    def keys(self, coordinates: npt.NDArray[np.integer]) -> list[str]:
        """The keys of many chunks, from (n, ndim) coordinates; equal to `key` for each row."""
        if coordinates.shape[1] == 0:
            return [self.scalar_key] * len(coordinates)
        return ["c" + key for key in self._plain.keys(coordinates)]

    def coordinates(self, key: str, ndim: int) -> tuple[int, ...] | None:
        """The coordinates of a key's chunk in an `ndim`-dimensional array, or None."""
        if ndim == 0:
            return () if key == self.scalar_key else None
        return self._plain.coordinates(key[1:], ndim) if key.startswith("c") else None

    def depth(self, ndim: int) -> int:
        """Number of path segments in a key."""
        return self._plain.depth(ndim)

    @property
    def _plain(self) -> KeyEncoding:
        return KeyEncoding("v2", self.separator)

    def __str__(self) -> str:
        return f"draft {self.separator!r}"


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


ChunkKeys: TypeAlias = KeyEncoding | N5Keys | DraftKeys | PatternKeys


def chunk_keys_from_json(data: JSON) -> ChunkKeys:
    """The inverse of `to_json`; MetadataError for an unknown encoding."""
    name = data.get("name") if isinstance(data, dict) else None
    if name == "n5":
        return N5Keys.from_json(data)
    if name == "draft":
        return DraftKeys.from_json(data)
    if name == "patterns":
        return PatternKeys.from_json(data)
    return KeyEncoding.from_json(data)
