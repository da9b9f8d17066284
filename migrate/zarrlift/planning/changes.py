"""What an update moves of an array whose result is at the destination already."""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from zarrstack.core.json_text import JSONObject

if TYPE_CHECKING:
    from ..archive.chunk_columns import Indexes


class Whole(NamedTuple):
    """Amounts of a whole array."""

    chunks: int
    """Stored chunks of the source."""
    bytes_in: int | None
    """Their stored bytes; None if they are not known."""
    objects_out: int
    """Objects of the result, empty ones included."""


@dataclass(frozen=True, kw_only=True)
class Changes:
    """The objects of a result that are made again; small and picklable."""

    packed: bytes
    """Differences of their ascending linear indexes in the destination's grid, compressed."""
    shape_before: tuple[int, ...] | None = None
    """The shape of the earlier result, if some of its objects are outside the present grid."""
    packed_outside: bytes
    """As `packed`, in the grid of the larger of both shapes: objects outside the present grid that updates
    which were interrupted may have written.
    """
    whole: Whole
    """The whole array, of which the plan has only what is moved."""

    @classmethod
    def of(
        cls, objects: Indexes, shape_before: tuple[int, ...] | None, outside: Indexes, whole: Whole
    ) -> Self:
        """`objects` and `outside` are ascending."""
        return cls(
            packed=_packed(objects),
            shape_before=shape_before,
            packed_outside=_packed(outside),
            whole=whole,
        )

    @property
    def objects(self) -> Indexes:
        """The linear indexes, ascending."""
        return _unpacked(self.packed)

    @property
    def outside(self) -> Indexes:
        """The linear indexes of `packed_outside`, ascending."""
        return _unpacked(self.packed_outside)

    def to_json(self) -> JSONObject:
        """The complete object as JSON."""
        return {
            "objects": base64.b64encode(self.packed).decode(),
            "shape_before": None if self.shape_before is None else list(self.shape_before),
            "outside": base64.b64encode(self.packed_outside).decode(),
            "whole": list(self.whole),
        }

    @classmethod
    def from_json(cls, data: JSONObject) -> Self:
        """Inverse of `to_json`."""
        shape = data["shape_before"]
        return cls(
            packed=base64.b64decode(data["objects"]),
            shape_before=None if shape is None else tuple(shape),
            packed_outside=base64.b64decode(data["outside"]),
            whole=Whole(*data["whole"]),
        )


def _packed(objects: Indexes) -> bytes:
    return zlib.compress(np.diff(objects, prepend=0).astype("<i8").tobytes(), 1)


def _unpacked(packed: bytes) -> Indexes:
    return np.cumsum(np.frombuffer(zlib.decompress(packed), "<i8"), dtype=np.int64)
