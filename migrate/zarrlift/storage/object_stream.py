"""Objects that are written piece by piece: shards, which may be larger than memory.

Nothing is visible before `finish`. What is left of a stream that was never finished lies in the job's
own directory, or in the system's temporary files.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from zarrstack.core.codecs.base import Buffer


class ObjectStream(ABC):
    """One object on its way; `size` is what is written so far, the reserved bytes among it."""

    size: int

    @abstractmethod
    def append(self, parts: Sequence[Buffer]) -> None:
        """Write some pieces behind one another; raises DestinationError."""

    def take(self, descriptor: int, size: int) -> bool:
        """Write the first bytes of an open file, inside the kernel; False where that is not possible.

        Raises DestinationError if there is no room; ChunkError and OSError leave open whose fault it is.
        """
        return False

    @abstractmethod
    def finish(self, head: bytes = b"") -> None:
        """Fill what was reserved at the start with `head`, and let the object appear; DestinationError."""

    @abstractmethod
    def discard(self) -> None:
        """Forget what was written."""
