"""Lists the chunks of planned arrays in the source again, in the same way as for the plan."""

from __future__ import annotations

from functools import cached_property

from zarrstack.core.paths import names_below

from ..archive.chunk_inventory import Inventory, take_inventory
from ..storage.base import Storage
from .plans import ArrayPlan, Plan


class SourceInventory:
    """Lists arrays of one plan; the fingerprints are comparable with those in the plan."""

    def __init__(self, plan: Plan, source: Storage) -> None:
        self._plan = plan
        self._source = source

    def __call__(self, array: ArrayPlan) -> Inventory:
        """The chunks that exist now; StorageError."""
        return take_inventory(
            self._source,
            array.path,
            array.source,
            children=self._below.get(array.path, frozenset()),
            follow_links=self._plan.reading.follow_links,
        )

    @cached_property
    def _below(self) -> dict[str, frozenset[str]]:
        return names_below(node.path for node in self._plan.nodes)
