"""The keys of an array's objects, with what they have in common computed once."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from ..archive.nodes import Layout


class ObjectKeys:
    """Keys relative to the archive's root, of the array at `path`."""

    def __init__(self, layout: Layout, path: str) -> None:
        self._prefix = layout.prefix(path)
        self._keys = layout.keys

    def __call__(self, places: npt.NDArray[np.int64]) -> list[str]:
        """The keys of objects, from (n, ndim) positions in the grid of objects."""
        return [self._prefix + key for key in self._keys.keys(places)]

    def at(self, place: tuple[int, ...]) -> str:
        """The key of one object."""
        return self._prefix + self._keys.key(place)
