"""Tables of a job file with a class each; what is written is durable at the job's next commit.

While an update is under way, the `zarr.json` at the destination is the earlier one, the new one, or one of
an update that was interrupted before. All of them are the job's (`document`). Objects of others have a later
modification time than the document of their array until an update writes that again, so it records them
first (`other`).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator

import numpy as np

from .database import Database
from .rows import as_stored, as_text


class Table:
    """A table of an open job file."""

    def __init__(self, db: Database) -> None:
        self._db = db


class ListingRows(Table):
    """The listing of a source, for updates: compressed, in pieces."""

    def keep(self, pieces: Iterable[bytes]) -> None:
        """Store a listing in place of an earlier one; the length of each piece is a multiple of 8."""
        self._db.write("DELETE FROM listing")
        for part, piece in enumerate(pieces):
            # Columns of positions and times: their differences are small numbers.
            numbers = np.frombuffer(piece, "<u8")
            steps = np.diff(numbers, prepend=numbers.dtype.type(0))
            self._db.write("INSERT INTO listing VALUES (?, ?)", (part, zlib.compress(steps.tobytes(), 1)))

    def pieces(self) -> Iterator[bytes]:
        """The pieces of the listing; none if there is no listing. ValueError or zlib.error if damaged."""
        for (part,) in self._db.rows("SELECT part FROM listing ORDER BY part"):
            ((content,),) = self._db.rows("SELECT content FROM listing WHERE part = ?", (part,))
            yield np.cumsum(np.frombuffer(zlib.decompress(content), "<u8"), dtype="<u8").tobytes()


class DocumentRows(Table):
    """Digests of earlier `zarr.json`, by node."""

    def add(self, path: str, digest: str) -> None:
        """Store the digest of a document of the node at `path`."""
        self._db.write("INSERT OR IGNORE INTO document VALUES (?, ?)", (as_stored(path), digest))

    def forget(self, path: str) -> None:
        """Remove the digests of a node: its document is the one of the plan, and no other."""
        self._db.write("DELETE FROM document WHERE path = ?", (as_stored(path),))

    def has(self, path: str, digest: str) -> bool:
        """Whether a document with this digest is one of the node."""
        query = "SELECT 1 FROM document WHERE path = ? AND digest = ?"
        return bool(self._db.rows(query, (as_stored(path), digest)))


class OtherRows(Table):
    """Keys of objects that others have written, by the path of their array."""

    def keep(self, path: str, keys: Iterable[str]) -> None:
        """Store the keys of an array in place of earlier ones."""
        self._db.write("DELETE FROM other WHERE path = ?", (as_stored(path),))
        for key in keys:
            self._db.write("INSERT INTO other VALUES (?, ?)", (as_stored(path), as_stored(key)))

    def all(self) -> frozenset[str]:
        """The keys of all arrays."""
        return frozenset(as_text(key) for (key,) in self._db.rows("SELECT key FROM other"))


class LegacyRows(Table):
    """The legacy documents that `finish` removed, which `undo` restores, by key."""

    def keep(self, documents: Iterable[tuple[str, bytes]]) -> None:
        """Store documents that are about to be deleted."""
        self._db.write_many("INSERT OR REPLACE INTO legacy VALUES (?, ?)", documents)

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        """(key, content) of the stored documents."""
        yield from self._db.rows("SELECT key, content FROM legacy ORDER BY key")
