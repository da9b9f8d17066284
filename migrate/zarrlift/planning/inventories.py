"""The inventories made for a plan: in memory, or in the file of a job, where a resume finds them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping

from ..archive.chunk_inventory import Inventory
from ..archive.inventory_file import InventoryFile
from ..archive.nodes import ArrayNode, SourceDocument
from ..storage.versions import Timestamp
from .plans import ArrayPlan


def digest(content: bytes) -> str:
    """The digest that identifies a metadata document."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def digests(documents: tuple[SourceDocument, ...]) -> tuple[tuple[str, str], ...]:
    """(key, digest) of each document."""
    return tuple([(document.key, digest(document.content)) for document in documents])


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
        self._held: dict[str, Inventory] = {}
        self._stored: set[str] = set()
        self.listed = 0
        """Number of objects listed so far, for a progress display."""

    def count(self, objects: int) -> None:
        """Add to the number of listed objects."""
        self.listed += objects

    def reuse(self, node: ArrayNode) -> Inventory | None:
        """The stored inventory of an array whose documents are unchanged since; None to list it."""
        before = self._earlier.get(node.path)
        if before is None or before.source != node.layout or before.source_digests != digests(node.documents):
            return None
        return self.stored(before)

    def stored(self, plan: ArrayPlan) -> Inventory | None:
        """The inventory of which a plan was made, if it is in the file or was when the file was opened."""
        return None if self._file is None else self._file.get(plan.path, plan.fingerprint)

    def __setitem__(self, path: str, inventory: Inventory) -> None:
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
