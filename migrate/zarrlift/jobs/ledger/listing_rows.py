"""The listing of a source in a job file, for updates: compressed, in pieces."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np

from .table import Table

LISTING: Final = "CREATE TABLE listing (part INTEGER PRIMARY KEY, content BLOB NOT NULL)"


class ListingRows(Table):
    """Reads and writes the listing; what is written is durable at the job's next commit."""

    def keep(self, pieces: Iterable[bytes]) -> None:
        """Store a listing in place of an earlier one; the length of each piece is a multiple of 8."""
        self._write("DELETE FROM listing", ())
        for part, piece in enumerate(pieces):
            # Columns of positions and times: their differences are small numbers.
            numbers = np.frombuffer(piece, "<u8")
            steps = np.diff(numbers, prepend=numbers.dtype.type(0))
            self._write("INSERT INTO listing VALUES (?, ?)", (part, zlib.compress(steps.tobytes(), 1)))

    def pieces(self) -> Iterator[bytes]:
        """The pieces of the listing; none if there is no listing. ValueError or zlib.error if damaged."""
        for (part,) in self._rows("SELECT part FROM listing ORDER BY part", ()):
            ((content,),) = self._rows("SELECT content FROM listing WHERE part = ?", (part,))
            yield np.cumsum(np.frombuffer(zlib.decompress(content), "<u8"), dtype="<u8").tobytes()
