"""Zip files with an archive inside, at their root or in a directory."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from typing import Final

from zarrstack.core.errors import StorageError, UsageError

from ..base import Storage
from ..documents import METADATA
from .table import ContainerPlace

_PACKING: Final = frozenset({"__MACOSX", ".DS_Store"})
"""Names that archivers add next to an archive."""


def open_container(place: ContainerPlace) -> Storage:
    """The archive inside a zip file; UsageError if it is none, StorageError if it cannot be read."""
    from zarr.storage import ZipStore

    from ..remote.zarr_store import StoreStorage

    path, inside = place.path, place.inside
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except zipfile.BadZipFile as error:
        from ..open_errors import no_zip

        raise no_zip(path) from error
    except OSError as error:
        raise StorageError("cannot read the zip file", found=f"{path}: {error.strerror}") from error
    if inside is not None and not any(name.startswith(f"{inside}/") for name in names):
        raise UsageError(f"no such directory in the zip file: {path}/{inside}")
    prefix = archive_root(names) if inside is None else inside
    url = str(path) if not prefix else f"{path}/{prefix}"
    return StoreStorage(ZipStore(path, mode="r", read_only=True), prefix, url=url)


def archive_root(names: Iterable[str]) -> str:
    """The directory within a container that is the archive: its root, or a single directory at the root."""
    paths = [name.split("/") for name in names]
    prefix: list[str] = []
    while True:
        depth = len(prefix)
        below = [parts for parts in paths if parts[:depth] == prefix and len(parts) > depth and parts[depth]]
        here = {parts[depth]: len(parts) > depth + 1 for parts in below if parts[depth] not in _PACKING}
        if METADATA & here.keys():
            return "/".join(prefix)
        # A root without documents and with a single child is probably an archive packed with its directory;
        # in either case, the child with everything in it is an archive.
        if len(here) != 1 or not all(here.values()):
            return ""
        prefix.append(next(iter(here)))
