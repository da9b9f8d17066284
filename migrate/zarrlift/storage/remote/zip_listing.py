"""Lists the members of a zip file with their properties."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import AsyncIterator
from functools import lru_cache
from operator import itemgetter

from ..listing import Listed


async def members(path: str | os.PathLike[str], prefix: str) -> AsyncIterator[list[Listed]]:
    """The objects below a prefix; the directory is read again if the file has been replaced."""
    facts = os.stat(path)
    found = _directory(os.fspath(path), facts.st_ino, facts.st_size, facts.st_mtime_ns)
    at = end = bisect_left(found, prefix, key=itemgetter(0))
    while end < len(found) and found[end].key.startswith(prefix):
        end += 1
    yield found[at:end]


@lru_cache(maxsize=2)
def _directory(path: str, *_: int) -> list[Listed]:
    """The objects in a zip file, by key; the checksum of each is its version."""
    import zipfile

    with zipfile.ZipFile(path) as archive:
        found = {
            item.filename: Listed(item.filename, item.file_size, f"{item.CRC:08x}")
            for item in archive.infolist()
        }
    return sorted(found.values())
