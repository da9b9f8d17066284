"""Opens references as their readers do, without zarrlift."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.support.store_servers import KEY, SECRET
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
    return _opened(destination, {prefix(source): access})


def prefix(source: Path) -> str:
    """The nearest directory whose URL needs no escapes: Icechunk finds no other container."""
    while quote(str(source)) != str(source):
        source = source.parent
    return f"file://{source}/"


def opened_icechunk_bucket(destination: str, prefix: str) -> Store:
    """The same, with access to the objects of a bucket below `prefix`."""
    import icechunk

    who = icechunk.s3_credentials(access_key_id=KEY, secret_access_key=SECRET)
    return _opened(destination, {prefix: who})


def _opened(destination: str, access: dict[str, Any]) -> Store:
    import icechunk

    who = icechunk.containers_credentials(access)
    place = icechunk.local_filesystem_storage(destination.removeprefix("icechunk://"))
    repository = icechunk.Repository.open(place, authorize_virtual_chunk_access=who)
    return repository.readonly_session("main").store
