"""Local directories below storage transformers, safer than zarr's own `LocalStore`.

`LocalStore` writes `<key>.<random>.partial` next to each object, which a killed process leaves behind
permanently, and it blocks endlessly on a pipe in place of an object.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
import uuid
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from zarr.abc.store import ByteRequest
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.storage import LocalStore

from .files import not_regular
from .open_directories import OpenDirectories
from .scratch import LAYERED


class LayeredLocalStore(LocalStore):
    """A `LocalStore` that reads regular files only; BadObjectError for a pipe, a socket or a device.

    It writes objects to `LAYERED` in its root and renames them into place.
    """

    reads_as: ClassVar[type[LocalStore]] = LocalStore

    async def get(
        self, key: str, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        self._require_regular(key)
        return await super().get(key, prototype, byte_range)

    def _require_regular(self, key: str) -> None:
        try:
            mode = os.stat(self.root / key).st_mode
        except OSError:  # reported by the read too
            return
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise not_regular(mode)

    @cached_property
    def _directories(self) -> OpenDirectories:
        return OpenDirectories(str(self.root))

    @property
    def scratch(self) -> Path:
        """The directory for partial objects."""
        return self.root / LAYERED

    async def set(self, key: str, value: Buffer) -> None:
        """Write one whole object; OSError."""
        await self._ensure_open()
        writing = asyncio.ensure_future(asyncio.to_thread(self._write, key, value))
        try:
            await asyncio.shield(writing)
        except asyncio.CancelledError:  # a thread cannot be stopped: its partial object must be gone
            await asyncio.wait([writing])
            raise

    def set_sync(self, key: str, value: Buffer) -> None:
        """Like `set`, without an event loop."""
        self._write(key, value)

    def _write(self, key: str, value: Buffer) -> None:
        self._check_writable()
        directory, _, name = key.rpartition("/")
        scratch, temporary = self._directories.at(LAYERED, make=True), uuid.uuid4().hex
        descriptor = scratch.create(temporary)
        try:
            with open(descriptor, "wb") as file:
                file.write(value.as_buffer_like())
            scratch.rename(temporary, self._directories.at(directory, make=True, fresh=True), name)
        except BaseException:
            with contextlib.suppress(OSError):
                scratch.unlink(temporary)
            raise
