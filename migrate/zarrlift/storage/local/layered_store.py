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
from pathlib import Path
from typing import Any, ClassVar, Self

from zarr.abc.buffer import Buffer, BufferPrototype
from zarr.abc.store import ByteRequest, Store
from zarr.storage import LocalStore

from .files import not_regular
from .own_names import LAYERED
from .storage import LocalStorage


class LayeredLocalStore(LocalStore):
    """A `LocalStore` that reads regular files only; BadObjectError for a pipe, a socket or a device.

    It writes objects to `LAYERED` in its root and renames them into place. What it writes and deletes goes
    through the open directories of `files`.
    """

    reads_as: ClassVar[type[LocalStore]] = LocalStore

    def __init__(self, root: Path | str, *, read_only: bool = False) -> None:
        super().__init__(root, read_only=read_only)
        self.files = LocalStorage(self.root)

    @classmethod
    def of(cls, files: LocalStorage) -> Self:
        """The store of a storage, with whose open directories it works."""
        store = cls(files.root)
        store.files = files
        return store

    async def _open(self, *, mode: Any = None) -> None:
        if not self.read_only:
            self.files.opened.root(make=True)
        elif not self.root.exists():
            raise FileNotFoundError(f"{self.root} does not exist")
        await Store._open(self)  # noqa: SLF001 - without the mkdir of LocalStore

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

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Write one whole object unless there is one; StorageError."""
        self._check_writable()
        await asyncio.to_thread(self.files.create, key, value.to_bytes())

    async def delete(self, key: str) -> None:
        """Delete an object, or a directory with what is in it; StorageError."""
        self._check_writable()
        await asyncio.to_thread(self._delete, key)

    async def delete_dir(self, prefix: str) -> None:
        """Delete a directory with what is in it; StorageError."""
        await self.delete(prefix)

    async def clear(self) -> None:
        """Delete everything; StorageError."""
        for name in os.listdir(self.files.opened.root(make=True).listed):
            await self.delete(name)

    def _delete(self, key: str) -> None:
        key = key.rstrip("/")
        (self.files.delete_tree if os.path.isdir(self.root / key) else self.files.delete)(key)

    def _write(self, key: str, value: Buffer) -> None:
        self._check_writable()
        directory, _, name = key.rpartition("/")
        directories, temporary = self.files.opened, uuid.uuid4().hex
        scratch = directories.at(LAYERED, make=True)
        descriptor = scratch.create(temporary)
        try:
            with open(descriptor, "wb") as file:
                file.write(value.as_buffer_like())
            scratch.rename(temporary, directories.at(directory, make=True, fresh=True), name)
        except BaseException:
            with contextlib.suppress(OSError):
                scratch.unlink(temporary)
            raise
