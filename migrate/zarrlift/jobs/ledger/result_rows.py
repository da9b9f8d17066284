"""What a job file knows of the objects at the destination besides the plan: documents, and objects of others.

While an update is under way, the `zarr.json` at the destination is the earlier one, the new one, or one of
an update that was interrupted before. All of them are the job's. Objects of others have a later modification
time than the document of their array until an update writes that again, so it records them first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from .plan_rows import as_stored, as_text
from .table import Table

DOCUMENTS: Final = """
CREATE TABLE document (
    path TEXT NOT NULL, digest TEXT NOT NULL, PRIMARY KEY (path, digest)) WITHOUT ROWID"""
OTHERS: Final = """
CREATE TABLE other (
    path TEXT NOT NULL, key TEXT NOT NULL, PRIMARY KEY (path, key)) WITHOUT ROWID"""


class DocumentRows(Table):
    """Reads and writes digests of `zarr.json` by node."""

    def add(self, path: str, digest: str) -> None:
        """Store the digest of a document of the node at `path`."""
        self._write("INSERT OR IGNORE INTO document VALUES (?, ?)", (as_stored(path), digest))

    def forget(self, path: str) -> None:
        """Remove the digests of a node: its document is the one of the plan, and no other."""
        self._write("DELETE FROM document WHERE path = ?", (as_stored(path),))

    def has(self, path: str, digest: str) -> bool:
        """Whether a document with this digest is one of the node."""
        query = "SELECT 1 FROM document WHERE path = ? AND digest = ?"
        return bool(self._rows(query, (as_stored(path), digest)))


class OtherRows(Table):
    """Reads and writes keys of objects that others have written, by the path of their array."""

    def keep(self, path: str, keys: Iterable[str]) -> None:
        """Store the keys of an array in place of earlier ones."""
        self._write("DELETE FROM other WHERE path = ?", (as_stored(path),))
        for key in keys:
            self._write("INSERT INTO other VALUES (?, ?)", (as_stored(path), as_stored(key)))

    def all(self) -> frozenset[str]:
        """The keys of all arrays."""
        return frozenset(as_text(key) for (key,) in self._rows("SELECT key FROM other", ()))


class LegacyRows(Table):
    """Reads and writes the legacy documents that `finish` removed, which `undo` restores, by key."""

    def keep(self, documents: Iterable[tuple[str, bytes]]) -> None:
        """Store documents that are about to be deleted."""
        for document in documents:
            self._write("INSERT OR REPLACE INTO legacy VALUES (?, ?)", document)

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        """(key, content) of the stored documents."""
        yield from self._rows("SELECT key, content FROM legacy ORDER BY key", ())
