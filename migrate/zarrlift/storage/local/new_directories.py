"""Writes small objects into directories that do not exist yet: each appears with its objects, by one rename.

A rename of every file takes a fifth of the time of copying 3 KB (docs/design/decisions.md).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import TYPE_CHECKING

from ...core.codecs.base import Buffer
from .file_copy import write_all
from .files import CREATING

if TYPE_CHECKING:
    from .writer import LocalWriter


def writing(writer: LocalWriter) -> AbstractContextManager[Callable[[str, Buffer], None]]:
    """Write many small objects in one thread, like `writer.write`; those of a directory come together.

    They have their names when the context ends. With `fsync` or in place, each is renamed by itself.
    """
    return nullcontext(writer.write) if writer.fsync or writer.in_place else _NewDirectories(writer)


class _NewDirectories:
    """Fills a directory in the job's own directory, and renames it when the next one begins.

    If the name is taken by then, its objects are renamed one by one. After an error nothing is renamed.
    """

    def __init__(self, writer: LocalWriter) -> None:
        self._writer = writer
        self._filling = f"{writer.temporary()}-new"
        self._directory: str | None = None
        self._new = False

    def __enter__(self) -> Callable[[str, Buffer], None]:
        return self._write

    def __exit__(self, kind: type[BaseException] | None, _: object, __: TracebackType | None) -> None:
        if kind is None:
            self._publish()
        elif self._new:
            shutil.rmtree(self._filling, ignore_errors=True)

    def _write(self, key: str, data: Buffer) -> None:
        """Write one whole object; raises DestinationError, here or at the end."""
        directory, _, name = self._writer.storage.path(key).rpartition(os.sep)
        if directory != self._directory:
            self._begin(directory, key)
        if not self._new:
            self._writer.write(key, data)
            return
        path = f"{self._filling}/{name}"
        try:
            descriptor = os.open(path, CREATING, 0o666)
            try:
                write_all(descriptor, data)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise self._writer.failed(path, key, error) from error

    def _begin(self, directory: str, key: str) -> None:
        self._publish()
        self._directory = directory
        try:
            if not os.path.lexists(directory):
                os.mkdir(self._filling)
                self._new = True
        except OSError as error:
            raise self._writer.failed(None, key, error) from error

    def _publish(self) -> None:
        """Give the directory its name; another task may have made it in the meantime."""
        if not self._new:
            return
        target = self._directory
        assert target is not None
        try:
            self._writer.make_directory(os.path.dirname(target))
            try:
                os.rename(self._filling, target)
            except OSError:
                self._writer.make_directory(target)
                for name in os.listdir(self._filling):
                    os.replace(f"{self._filling}/{name}", f"{target}{os.sep}{name}")
                os.rmdir(self._filling)
            self._new = False
        except OSError as error:
            key = os.path.relpath(target, self._writer.storage.root).replace(os.sep, "/")
            shutil.rmtree(self._filling, ignore_errors=True)
            raise self._writer.failed(None, key, error) from error
