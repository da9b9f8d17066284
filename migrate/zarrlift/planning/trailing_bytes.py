"""Detects chunks with bytes behind the end that their header states, during planning.

A copy omits these bytes (`Pipeline.check_whole`); in place they remain, and some readers refuse such a chunk.
Writers that leave them do so in every chunk of an array, so the first one shows it. In a store, where it is
a request, only the first arrays are checked until one has such bytes.
"""

from __future__ import annotations

from typing import Final

from zarrstack.core.errors import Problem, ZarrstackError

from ..archive.chunk_inventory import Inventory
from ..archive.nodes import Layout
from ..core.codecs.blosc import HEADER_BYTES, trailing_bytes
from ..core.problems import note
from ..recipe.recipe import ArrayRecipe
from ..storage.base import Storage
from ..storage.local.storage import LocalStorage

_TRIED: Final = 4
"""Number of arrays of a store that are checked if none has such bytes."""
REFUSING: Final = ("tensorstore", "zarrs")
"""Readers that refuse a chunk with trailing bytes (0.1.86, 0.2.3), by their names in the table of readers."""


class TrailingBytes:
    """Looks for trailing bytes in the arrays of one archive."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._left = _TRIED
        """Number of arrays that may still be checked in a store."""

    def problem(
        self, path: str, source: Layout, inventory: Inventory, recipe: ArrayRecipe, *, stay: bool
    ) -> Problem | None:
        """A note if the first chunk has trailing bytes; a refusal if they stay and `--for` names a reader."""
        if source.chain.codecs[-1].name != "blosc" or source.frame is not None:
            return None
        if self._left <= 0 and not isinstance(self._storage, LocalStorage):
            return None
        key = source.key(path, source.objects.coordinates(int(inventory.indexes[0])))
        self._left -= 1
        try:
            count = self._count(source, inventory, key)
        except ZarrstackError:  # reported by the move
            return None
        if not count:
            return None
        self._left += _TRIED
        found = f"{count} byte{'s' * (count > 1)} in the first chunk"
        if not stay:
            message = "chunks have bytes behind the end that their header states, which are not copied"
            return note("trailing-bytes", message, node=path, key=key, found=found)
        names = [reader.partition("==")[0].split()[0].lower() for reader in recipe.readers]
        return Problem(
            kind="trailing-bytes",
            severity="refusal" if set(names) & set(REFUSING) else "note",
            node=path,
            key=key,
            message="chunks have bytes behind the end that their header states, which stay: "
            f"{' and '.join(REFUSING)} refuse such chunks",
            found=found,
            advice="A migration to a new destination omits them.",
        )

    def _count(self, source: Layout, inventory: Inventory, key: str) -> int:
        """The number of trailing bytes of the first chunk."""
        head = self._storage.get_part(key, 0, HEADER_BYTES)
        size = self._storage.size(key) if inventory.sizes is None else int(inventory.sizes[0])
        return 0 if head is None or size is None else trailing_bytes(head, size)
