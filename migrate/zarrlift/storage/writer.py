"""The contract of writers: a reader never sees half of an object."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from zarrstack.core.codecs.base import Buffer, Ends
from zarrstack.core.errors import StorageError

from .base import Storage

if TYPE_CHECKING:
    from .object_stream import ObjectStream


class Look(Protocol):
    """What looks at payloads that move undecoded; a compiled chain does."""

    @property
    def most_stored(self) -> int:
        """Bytes that an object may have."""

    def check(self, ends: Ends) -> bool:
        """ChunkError where the ends cannot fit; False where only the whole can tell."""

    def check_whole(self, data: Buffer) -> None:
        """ChunkError where the payload does not decode."""


class DestinationError(StorageError):
    """The destination cannot be written; no other array will fare better."""


class Writer(ABC):
    """Puts objects into a destination; safe to share between threads."""

    storage: Storage
    """The destination."""

    @abstractmethod
    def write(self, key: str, data: Buffer) -> None:
        """Write one whole object; raises DestinationError."""

    def write_many(self, items: Sequence[tuple[str, Buffer]]) -> None:
        """Write several whole objects."""
        for key, data in items:
            self.write(key, data)

    @abstractmethod
    def stream(self, key: str, *, reserve: int = 0) -> ObjectStream:
        """An object that is written piece by piece, and there only once it is finished.

        The first `reserve` bytes are left open, to be filled when all else is written. A thread
        writes one stream at a time.
        """

    def behind(self) -> AbstractContextManager[None]:
        """Within, this thread's objects may be still on their way when a call returns; at its end none is.

        Raises the DestinationError of whichever could not be written, from any call or at the end.
        """
        return contextlib.nullcontext()

    def settle(self) -> None:  # noqa: B027 - most places have nothing to settle
        """Make what this thread wrote since the last call as durable as was asked for."""

    def forked(self) -> None:  # noqa: B027
        """Called in a process that was made by `fork`, before it writes: its names must be its own."""

    def close(self) -> None:  # noqa: B027
        """Remove whatever is temporary."""
