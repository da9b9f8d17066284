"""Writes objects to a store, several at a time and without waiting for each."""

from __future__ import annotations

import contextlib
import shutil
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from zarrstack.core.errors import StorageError

from ...core.codecs.base import Buffer
from ..base import Storage
from ..writer import DestinationError, Writer

if TYPE_CHECKING:
    from ..object_stream import ObjectStream
    from .async_requests import WriteBehind


class StoreWriter(Writer):
    """A writer to any storage with an atomic `put`."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self._local = threading.local()

    def write(self, key: str, data: Buffer) -> None:
        """Write one object."""
        self.write_many([(key, data)])

    def settle(self) -> None:
        """Make what a worker wrote last, if the storage needs that."""
        with _at_destination():
            self.storage.settle()

    def close(self, *, alone: bool = True) -> None:
        """Remove partial files of a killed run, whose directory all processes share."""
        if alone and self.storage.scratch is not None:
            shutil.rmtree(self.storage.scratch, ignore_errors=True)

    def stream(self, key: str, *, reserve: int = 0) -> ObjectStream:
        """An object collected in memory, or in a file if it is large; written when it is complete."""
        from .spooled_stream import SpooledStream

        return SpooledStream(self.storage, key, reserve, self.write)

    def write_many(self, items: Sequence[tuple[str, Buffer]]) -> None:
        """Write several objects, concurrently if the store supports it."""
        sending: WriteBehind | None = getattr(self._local, "sending", None)
        with _at_destination():
            if sending is None:
                self.storage.put_many([(key, bytes(data)) for key, data in items])
                return
            for key, data in items:
                sending.send(key, bytes(data))

    @contextlib.contextmanager
    def behind(self) -> Iterator[None]:
        """As `Writer.behind`, if the store has latency."""
        if self.storage.requests is None:
            yield
            return
        from .async_requests import WriteBehind

        sending = self._local.sending = WriteBehind(self.storage.requests)
        try:
            yield
            with _at_destination():
                sending.finish()
        finally:
            self._local.sending = None
            sending.settle()


@contextlib.contextmanager
def _at_destination() -> Iterator[None]:
    """Convert errors in this context to errors of the destination."""
    try:
        yield
    except StorageError as error:
        raise DestinationError(
            error.problem.message, key=error.problem.key, found=error.problem.found
        ) from error
