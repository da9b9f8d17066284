"""An object for a store, collected in memory or in a temporary file."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Sequence
from typing import IO, TYPE_CHECKING

from zarrstack.core.errors import StorageError

from ...core.codecs.base import Buffer, memory
from ..limits import SPOOLED
from ..local.files import temporary_file
from ..object_stream import ObjectStream
from ..writer import DestinationError

if TYPE_CHECKING:
    from ..base import Storage


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
        """Append pieces in order."""
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
        """Publish the object."""
        try:
            if head:
                self._file.seek(0)
                self._file.write(head)
            if isinstance(self._file, io.BytesIO):
                self._put(self._key, self._file.getvalue())
                return
            self._file.flush()
            self._file.seek(0)
            self._storage.put_file(self._key, self._file, self.size)
        except DestinationError:
            raise
        except StorageError as error:
            raise DestinationError(
                error.problem.message, key=error.problem.key, found=error.problem.found
            ) from error
        except OSError as error:
            raise self._failed(error) from error
        finally:
            self.discard()

    def discard(self) -> None:
        """Discard what was written."""
        with contextlib.suppress(OSError):  # closing writes again what a full disk refused
            self._file.close()

    def _failed(self, error: OSError) -> DestinationError:
        return DestinationError(
            "cannot write a temporary file",
            key=self._key,
            found=error.strerror or str(error),
            advice="Free some space in the directory for temporary files (TMPDIR) and resume.",
        )
