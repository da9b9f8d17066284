"""The contract of writers: a reader never sees a partial object."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from zarrstack.core.errors import StorageError

from ..core.codecs.base import Buffer, HeadAndTail
from .base import Storage

if TYPE_CHECKING:
    from .object_stream import ObjectStream


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

    def close(self, *, alone: bool = True) -> None:  # noqa: B027
        """Remove temporary files; `alone`: also those that writers of other processes may have."""
