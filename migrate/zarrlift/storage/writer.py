"""The contract of writers: a reader never sees a partial object.

Objects written in pieces, such as shards, may be larger than memory. Nothing is visible before `finish`. The
remains of an unfinished stream are in the job's own directory, or in the system's temporary files.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from zarrstack.core.errors import StorageError

from ..core.codecs.base import Buffer, HeadAndTail
from .base import Storage


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


class PayloadCheck(Protocol):
    """Checks payloads that are moved without decoding; implemented by compiled chains."""

    @property
    def most_stored(self) -> int:
        """Maximum size of an object in bytes."""

    def check(self, ends: HeadAndTail) -> bool:
        """Raise ChunkError for invalid ends; returns False if only the whole payload can be checked."""

    def check_whole(self, data: Buffer) -> Buffer:
        """Like `check` for a whole payload, which is decoded if necessary; returns what is to be stored.

        This is the payload, without bytes behind the end that its header states.
        """


class DestinationError(StorageError):
    """The destination cannot be written, which affects all other arrays too."""


@contextlib.contextmanager
def at_destination() -> Iterator[None]:
    """Raise a StorageError in this context as a DestinationError."""
    try:
        yield
    except StorageError as error:
        raise DestinationError.of(error.problem) from error


class Writer(ABC):
    """Writes objects to a destination; thread-safe."""

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
        """An object that is written in pieces and appears only when it is finished.

        The first `reserve` bytes are reserved and filled last.
        """

    def behind(self) -> AbstractContextManager[None]:
        """Let this thread's writes complete in the background in this context; all are complete at its end.

        Raises the DestinationError of any failed write, from any call or at the end.
        """
        return contextlib.nullcontext()

    def settle(self) -> None:  # noqa: B027 - most places have nothing to settle
        """Make this thread's writes since the last call as durable as requested."""

    def forked(self) -> None:  # noqa: B027
        """Prepare a process made by `fork`, before it writes: it needs its own temporary names."""

    def prepare(self) -> None:  # noqa: B027
        """Make what workers elsewhere need to recognize the destination; DestinationError."""

    def close(self) -> None:  # noqa: B027
        """Remove temporary files, also those of a killed run."""
