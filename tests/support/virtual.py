"""Opens references as their readers do, without zarrlift."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

from zarr.abc.store import Store
from zarr.storage import FsspecStore


def opened_kerchunk(destination: str, source: Path, **options: Any) -> Store:
    """The store of references in JSON, resolved by fsspec."""
    import fsspec

    files = fsspec.filesystem(
        "reference",
        fo=destination,
        remote_protocol="file",
        asynchronous=True,
        skip_instance_cache=True,
        **options,
    )
    return FsspecStore(files, read_only=True, path="")


def opened_icechunk(destination: str, source: Path) -> Store:
    """The main branch of a local repository, with access to the files below `source`."""
    import icechunk

    # 2.x deprecates None; 1.x has nothing else.
    access = getattr(icechunk.credentials, "LocalFileSystemAccess", None)
    who = icechunk.containers_credentials({f"file://{quote(str(source))}/": access})
    place = icechunk.local_filesystem_storage(destination.removeprefix("icechunk://"))
    repository = icechunk.Repository.open(place, authorize_virtual_chunk_access=who)
    return repository.readonly_session("main").store
