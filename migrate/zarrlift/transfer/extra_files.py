"""Copies files that an application stores in an archive next to its arrays, such as Parquet or XML.

They are unknown to Zarr. They are copied unchanged, in pieces, before the document of their group; each
appears only when it is complete.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from zarrstack.core.errors import StorageError

from ..errors import SourceChangedError
from ..storage.base import ObjectPart, Storage
from ..storage.versions import Version
from ..storage.writer import Writer

_PIECE: Final = 16 << 20
"""Bytes in memory at a time."""


def copy_file(source: Storage, writer: Writer, key: str, *, version: Version | None = None) -> int | None:
    """Copy one file under the same key; its size, or None if it is missing.

    StorageError if the source cannot be read, or not in this version; DestinationError.
    """
    start = _start(source, key, version)
    if start is None:
        return None
    if start.size == len(start.data):
        writer.write(key, start.data)
        return start.size
    stream = writer.stream(key)
    try:
        for part in _parts(source, key, start, version):
            stream.append([part])
        stream.finish()
    except BaseException:
        stream.discard()
        raise
    return start.size


def require_copy(source: Storage, writer: Writer, key: str) -> None:
    """Copy one file under the same key; StorageError if it cannot be read or is missing, DestinationError."""
    if copy_file(source, writer, key) is None:
        raise StorageError("a listed file is gone", key=key)


def difference(source: Storage, destination: Storage, key: str) -> str | None:
    """A description of the first difference between a file and its copy; None if they are equal."""
    start, size = _start(source, key), destination.size(key)
    if start is None or size is None:
        return None if start is None and size is None else "nothing" if size is None else f"{size} bytes"
    if size != start.size:
        return f"{size} of {start.size} bytes"
    at = 0
    for part in _parts(source, key, start):
        if destination.get_part(key, at, len(part)) != part:
            return f"other bytes after byte {at}"
        at += len(part)
    return None


def _start(source: Storage, key: str, version: Version | None = None) -> ObjectPart | None:
    """The first bytes of a file, with its size; None if it is missing."""
    try:
        return source.get_end(key, 0, _PIECE, version=version)
    except SourceChangedError:
        raise
    except StorageError:
        if source.size(key) != 0:
            raise
        return ObjectPart(b"", 0, None)  # some stores have no first byte of an empty object


def _parts(source: Storage, key: str, start: ObjectPart, version: Version | None = None) -> Iterator[bytes]:
    if start.data:
        yield start.data
    for at in range(len(start.data), start.size, _PIECE):
        length = min(_PIECE, start.size - at)
        part = source.get_part(key, at, length, version=version or start.version)
        if part is None or len(part) != length:
            raise StorageError("a file was changed while it was copied", key=key)
        yield part
