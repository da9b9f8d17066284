"""Everything that a worker needs to move the chunks of one array."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ..archive.nodes import Layout
from .routes import Route

if TYPE_CHECKING:
    from ..core.data_types.cast import Casting


# Move and ArrayPlan have no `__slots__`: a frozen dataclass with slots is pickled by generated methods, field
# by field, which takes twice as long for the plans sent to other processes.
@dataclass(frozen=True, kw_only=True)
class Move:
    """Everything needed to move chunks of one array; small and picklable, sent to workers."""

    path: str
    source: Layout
    destination: Layout
    route: Route
    casting: Casting = "exact"
    objects: Literal["refuse", "json"] = "refuse"
    allow_pickle: bool = False
    drop_empty: bool = False
    block_shape: tuple[int, ...] | None = None
    """If the objects do not correspond to the source's: the unit of work, in whole objects of the
    destination; None if each is made from the source object at the same grid position.
    """
    buffer_shape: tuple[int, ...] | None = None
    """If the values of a block exceed the memory: the part assembled at a time."""
    sweep_shape: tuple[int, ...] | None = None
    """Several consecutive pieces within a block, for which decoded source chunks are kept as far as needed.
    """
    source_is_destination: bool = False
    """Whether the source's objects are at the destination: the second of two passes."""
    replaces: bool = False
    """Whether earlier objects are replaced, so that those that are not made any more are deleted."""
