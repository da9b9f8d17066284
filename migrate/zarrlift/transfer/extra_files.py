"""Copies files that an application stores in an archive next to its arrays, such as Parquet or XML.

They are unknown to Zarr. They are copied unchanged, in pieces, before the document of their group; each
appears only when it is complete.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from zarrstack.core.errors import StorageError

from ..storage.base import Storage
from ..storage.writer import Writer

_PIECE: Final = 16 << 20
"""Bytes in memory at a time."""


def copy_file(source: Storage, writer: Writer, key: str) -> None:
    """Copy one file under the same key; StorageError if the source cannot be read."""
    stream = writer.stream(key)
    try:
        for part in _parts(source, key):
            stream.append([part])
        stream.finish()
    except BaseException:
        stream.discard()
        raise


def difference(source: Storage, destination: Storage, key: str) -> str | None:
    """A description of the first difference between a file and its copy; None if they are equal."""
    expected, size = source.size(key), destination.size(key)
    if size is None:
        return "nothing"
    if size != expected:
        return f"{size} of {expected} bytes"
    start = 0
    for part in _parts(source, key):
        if destination.get_part(key, start, len(part)) != part:
            return f"other bytes after byte {start}"
        start += len(part)
    return None


def _parts(source: Storage, key: str) -> Iterator[bytes]:
    size = source.size(key)
    if size is None:
        raise StorageError("a listed file is gone", key=key)
    for start in range(0, size, _PIECE):
        part = source.get_part(key, start, min(_PIECE, size - start))
        if part is None or len(part) != min(_PIECE, size - start):
            raise StorageError("a file was changed while it was copied", key=key)
        yield part
