"""Objects written in pieces, such as shards, which may be larger than memory.

Nothing is visible before `finish`. The remains of an unfinished stream are in the job's own directory, or in
the system's temporary files.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from ..core.codecs.base import Buffer


class ObjectStream(ABC):
    """An object being written; `size` is the number of bytes so far, including reserved ones."""

    size: int

    @abstractmethod
    def append(self, parts: Sequence[Buffer]) -> None:
        """Append pieces in order; raises DestinationError."""

    def take(self, descriptor: int, size: int) -> bool:
        """Append the first bytes of an open file inside the kernel; False if that is impossible.

        Raises DestinationError if there is no space; ChunkError and OSError do not tell which side failed.
        """
        return False

    @abstractmethod
    def finish(self, head: bytes = b"") -> None:
        """Fill the space reserved at the start with `head`, and publish the object; DestinationError."""

    @abstractmethod
    def discard(self) -> None:
        """Discard what was written."""
