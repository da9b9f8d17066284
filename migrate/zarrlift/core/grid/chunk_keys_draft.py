"""Chunk keys of the 2022 draft of Zarr v3. Pure.

Separate from `draft_v3.nodes`, because every plan imports all key encodings.

Source: https://github.com/zarr-developers/zarr-specs/blob/71b92bb/docs/core/v3.0.rst, "Regular grids".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zarrstack.core.chunk_keys_v3 import KeyEncoding, Separator
from zarrstack.core.errors import MetadataError
from zarrstack.core.json_text import JSON, JSONObject, excerpt

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
