"""What an update moves of an array whose result is at the destination already."""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from zarrstack.core.json_text import JSONObject

if TYPE_CHECKING:
    from ..archive.chunk_columns import Indexes


@dataclass(frozen=True, kw_only=True)
class Changes:
    """The objects of a result that are made again; small and picklable."""

    packed: bytes
    """Differences of their ascending linear indexes in the destination's grid, compressed."""
    shape_before: tuple[int, ...] | None = None
    """The shape of the earlier result, if some of its objects are outside the present grid."""

    @classmethod
    def of(cls, objects: Indexes, shape_before: tuple[int, ...] | None) -> Self:
        """`objects` are ascending."""
        steps = np.diff(objects, prepend=0).astype("<i8")
        return cls(packed=zlib.compress(steps.tobytes(), 1), shape_before=shape_before)

    @property
    def objects(self) -> Indexes:
        """The linear indexes, ascending."""
        steps = np.frombuffer(zlib.decompress(self.packed), "<i8")
        return np.cumsum(steps, dtype=np.int64)

    def to_json(self) -> JSONObject:
        """The complete object as JSON."""
        shape = None if self.shape_before is None else list(self.shape_before)
        return {"objects": base64.b64encode(self.packed).decode(), "shape_before": shape}

    @classmethod
    def from_json(cls, data: JSONObject) -> Self:
        """Inverse of `to_json`."""
        shape = data["shape_before"]
        return cls(
            packed=base64.b64decode(data["objects"]), shape_before=None if shape is None else tuple(shape)
        )
