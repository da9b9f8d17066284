"""Writes objects to a store, several at a time and without waiting for each.

An object in pieces is collected in memory or in a temporary file.
"""

from __future__ import annotations

import contextlib
import io
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import IO, TYPE_CHECKING

from zarrstack.core.errors import StorageError

from ...core.codecs.base import Buffer, memory
from ..base import SPOOLED, Storage
from ..local.files import temporary_file
from ..local.own_names import LAYERED, directory_of
from ..local.storage import LocalStorage
from ..local.writer import LocalWriter
from ..writer import DestinationError, ObjectStream, Writer, at_destination

if TYPE_CHECKING:
    from ..base import Storage
    from .async_requests import WriteBehind


class SpooledStream(ObjectStream):
    """An object for a store that takes whole objects; a large one is sent from a temporary file."""

    def __init__(
        self,
        storage: Storage,
        key: str,
        reserve: int,
        put: Callable[[str, Buffer], None] | None = None,
    ) -> None:
        """`put` writes an object collected in memory; None uses the storage's own method."""
        self.size = reserve
        self._put = put or storage.put
        self._storage = storage
        self._key = key
        self._file: IO[bytes] = io.BytesIO()
        self._file.write(bytes(reserve))

    def append(self, parts: Sequence[Buffer]) -> None:
        try:
            for part in parts:
                view = memory(part).cast("B")
                self._file.write(view)
                self.size += len(view)
            if self.size > SPOOLED and isinstance(self._file, io.BytesIO):
                onto_disk = temporary_file()
                onto_disk.write(self._file.getbuffer())
                self._file = onto_disk
        except OSError as error:
            raise self._failed(error) from error

    def finish(self, head: bytes = b"") -> None:
        try:
            if head:
                self._file.seek(0)
                self._file.write(head)
            with at_destination():
                if isinstance(self._file, io.BytesIO):
                    self._put(self._key, self._file.getvalue())
                    return
                self._file.flush()
                self._file.seek(0)
                self._storage.put_file(self._key, self._file, self.size)
        except OSError as error:
            raise self._failed(error) from error
        finally:
            self.discard()

    def discard(self) -> None:
        with contextlib.suppress(OSError):  # closing writes again what a full disk refused
            self._file.close()

    def _failed(self, error: OSError) -> DestinationError:
        return DestinationError(
            "cannot write a temporary file",
            key=self._key,
            found=error.strerror or str(error),
            advice="Free some space in the directory for temporary files (TMPDIR) and resume.",
        )


class StoreWriter(Writer):
    """A writer to any storage with an atomic `put`."""

    def __init__(self, storage: Storage, job_id: str) -> None:
        self.storage = storage
        self._own = directory_of(job_id)
        self._local = threading.local()

    def write(self, key: str, data: Buffer) -> None:
        self.write_many([(key, data)])

    def settle(self) -> None:
        """Make what a worker wrote last, if the storage needs that."""
        with at_destination():
            self.storage.settle()

    def prepare(self) -> None:
        """Make the job's own directory below layers, without which workers elsewhere write nothing."""
        if self.storage.layered is not None:
            with at_destination():
                self.storage.layered.make_directory(self._own)

    def close(self) -> None:
        """Remove partial files of a killed run, whose directory all processes share."""
        if self.storage.layered is not None:
            for name in (LAYERED, self._own):
                with contextlib.suppress(StorageError):
                    self.storage.layered.delete_tree(name)

    def stream(self, key: str, *, reserve: int = 0) -> ObjectStream:
        """An object collected in memory, or in a file if it is large; written when it is complete."""
        return SpooledStream(self.storage, key, reserve, self.write)

    def write_many(self, items: Sequence[tuple[str, Buffer]]) -> None:
        sending: WriteBehind | None = getattr(self._local, "sending", None)
        with at_destination():
            if sending is None:
                self.storage.put_many([(key, bytes(data)) for key, data in items])
                return
            for key, data in items:
                sending.send(key, bytes(data))

    @contextlib.contextmanager
    def behind(self) -> Iterator[None]:
        if self.storage.requests is None:
            yield
            return
        from .async_requests import WriteBehind

        sending = self._local.sending = WriteBehind(self.storage.requests)
        try:
            yield
            with at_destination():
                sending.finish()
        finally:
            self._local.sending = None
            sending.settle()


def writer_for(storage: Storage, job_id: str, *, fsync: bool, in_place: bool = False) -> Writer:
    """The fastest writer for a storage."""
    if isinstance(storage, LocalStorage):
        return LocalWriter(storage, job_id, fsync=fsync, in_place=in_place)

    return StoreWriter(storage, job_id)
