"""DANDI's checksum of a Zarr archive: a tree of MD5 digests and sizes, which depends on every stored byte.

The package zarr-checksum, with which DANDI computes it, defines the form: `MD5-COUNT--SIZE`. Bytes are read:
ETags are MD5 digests only of some objects.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from zarrstack.core.errors import StorageError, UsageError
from zarrstack.core.paths import join

from ..storage.base import Storage
from ..storage.listing import ListedPage
from ..storage.local.storage import LocalStorage
from ..storage.open_storage import Place, open_storage

_EXCLUDED: Final = frozenset({".dandi", ".datalad", ".git", ".gitattributes", ".gitmodules"})
"""Names that the DANDI client (0.74, `exclude_from_zarr`) never uploads."""
_PIECE: Final = 16 << 20
"""Bytes of an object that are in memory at a time."""
_AT_ONCE: Final = 16


def dandi_checksum(source: Place, *, storage_options: Mapping[str, Any] | None = None) -> str:
    """DANDI's checksum of an archive of any format, as it is stored.

    `source` is a path, a URL (with `storage_options`) or a zarr store.

    Raises
    ------
    UsageError
        If there is nothing, nothing can be listed, or zarr-checksum is not installed.
    StorageError
        If an object cannot be read.

    Examples
    --------
    >>> len(zarrlift.dandi_checksum("ocean.zarr").partition("-")[0])
    32
    """
    try:
        from zarr_checksum.tree import ZarrChecksumTree
    except ImportError as error:
        raise UsageError(
            "DANDI's checksum needs a package that is not installed",
            expected="zarr-checksum",
            advice="Install the extra dandi of zarrlift.",
        ) from error
    storage = open_storage(source, storage_options=storage_options)
    if not storage.can_list:
        raise UsageError(
            "DANDI's checksum covers every object, and this place cannot be listed", found=storage.url
        )
    tree = ZarrChecksumTree()
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="zarrlift-dandi") as threads:
        for key, size, digest in threads.map(lambda item: _digest(storage, *item), _objects(storage)):
            tree.add_leaf(Path(key), size, digest)
    if tree.empty:
        raise UsageError("there is nothing to compute a checksum of", found=storage.url)
    return str(tree.process().digest)


def _objects(storage: Storage) -> Iterator[tuple[str, int | None]]:
    """Key and size of each object, None if the listing does not tell it."""
    if isinstance(storage, LocalStorage):
        for key in _local_files(storage, ""):
            yield key, None
        return
    found = storage.list_objects("", _Listed)
    for key, size in found.objects:
        if not _EXCLUDED.intersection(key.split("/")):
            yield key, size


def _local_files(storage: LocalStorage, directory: str) -> Iterator[str]:
    for entry in storage.list_dir(directory):
        key = join(directory, entry.name)
        if entry.name in _EXCLUDED:
            continue
        if entry.is_dir and entry.link is not None:
            raise UsageError(
                "a link to a directory has no place in DANDI's checksum", key=key, found=entry.link
            )
        if entry.is_dir:
            yield from _local_files(storage, key)
        else:
            yield key


class _Listed:
    """Collects keys and sizes."""

    def __init__(self) -> None:
        self.objects: list[tuple[str, int | None]] = []

    def take(self, page: ListedPage) -> None:
        """Add the objects of a page."""
        sizes = [None] * len(page.keys) if page.sizes is None else page.sizes
        self.objects += [
            (key, None if size is None else int(size)) for key, size in zip(page.keys, sizes, strict=True)
        ]


def _digest(storage: Storage, key: str, size: int | None) -> tuple[str, int, str]:
    """Key, size in bytes and MD5 digest of an object; StorageError."""
    if size is None:
        size = storage.size(key)
    digest, at = hashlib.md5(usedforsecurity=False), 0
    while size is not None and at < size:
        part = storage.get_part(key, at, min(_PIECE, size - at))
        if not part:
            size = None
            break
        digest.update(part)
        at += len(part)
    if size is None:
        raise StorageError("a listed object is gone or became shorter", key=key)
    return key, size, digest.hexdigest()
