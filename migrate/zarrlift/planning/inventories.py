"""The inventories made for a plan: in memory, or in the file of a job, where a resume finds them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from zarrstack.core.errors import UsageError

from ..archive.chunk_inventory import Inventory
from ..archive.inventory_file import InventoryFile
from ..archive.nodes import ArrayNode, Node
from ..archive.store_inventory import RoutedListing, StoreInventory
from ..storage.listed_versions import Timestamp
from .array_planner import digests
from .plans import ArrayPlan


class Inventories:
    """Inventories by array path; a run that follows the planning uses them."""

    def __init__(
        self, file: InventoryFile | None = None, earlier: Mapping[str, ArrayPlan] | None = None
    ) -> None:
        """`earlier` are the arrays whose inventories in `file` may be used instead of a new listing."""
        self.began = Timestamp()
        """Before anything is read for the plan."""
        self._file = file
        self._earlier = earlier or {}
        self._routed: RoutedListing | None = None
        self._held: dict[str, Inventory] = {}
        self._stored: set[str] = set()
        self.listed = 0
        """Number of objects listed so far, for a progress display."""
        self.unnoticed = 0
        """Number of arrays of which a rewritten chunk is not noticed."""

    def count(self, objects: int) -> None:
        """Add to the number of listed objects."""
        self.listed += objects

    def list_from(
        self,
        inventory: StoreInventory,
        url: str,
        nodes: Iterable[Node],
        children: Mapping[str, frozenset[str]],
    ) -> None:
        """Take the objects of these nodes from a store's own inventory instead of listing; UsageError.

        `children` are the names in directories that are no chunks.
        """
        routed = RoutedListing(
            (node.path, node.layout, children.get(node.path, frozenset()))
            for node in nodes
            if isinstance(node, ArrayNode) and node.layout is not None
        )
        for page in inventory.pages(url):
            routed.take(page)
            self.count(len(page.keys))
        if not routed.objects:
            raise UsageError(
                "the inventory has no object of the source",
                key=str(inventory.files[0]),
                expected=f"keys below {url}",
            )
        self._routed = routed

    def reuse(self, node: ArrayNode) -> Inventory | None:
        """The stored inventory of an array whose documents are unchanged since; None to list it."""
        if self._routed is not None:
            return self._routed.inventory(node.path)
        before = self._earlier.get(node.path)
        if before is None or before.source != node.layout or before.source_digests != digests(node.documents):
            return None
        return self.stored(before)

    def stored(self, plan: ArrayPlan) -> Inventory | None:
        """The inventory of which a plan was made, if it is in the file or was when the file was opened."""
        return None if self._file is None else self._file.get(plan.path, plan.fingerprint)

    def __setitem__(self, path: str, inventory: Inventory) -> None:
        self.unnoticed += not inventory.notices_rewriting
        if self._file is not None and self._file.put(path, inventory):
            self._stored.add(path)
        else:
            self._held[path] = inventory

    def get(self, path: str) -> Inventory | None:
        """The inventory of an array; None if there is none."""
        if path in self._stored and self._file is not None:
            return self._file.get(path)
        return self._held.get(path)

    def pop(self, path: str) -> Inventory | None:
        """The inventory of an array, which is not needed again."""
        inventory = self.get(path)
        self._stored.discard(path)
        self._held.pop(path, None)
        return inventory

    def complete(self) -> bool:
        """Make the file visible, whose job exists; False if there is none or if it is as it was."""
        return self._file is not None and self._file.complete()

    def to_keep(self) -> Iterator[bytes] | None:
        """The content of a file without a name, to store it elsewhere; None if there is none."""
        if self._file is None or self._file.path is not None or not self._file.complete():
            return None
        return self._file.pieces()

    def close(self) -> None:
        """Close the file; inventories in use remain valid."""
        if self._file is not None:
            self._file.close()
