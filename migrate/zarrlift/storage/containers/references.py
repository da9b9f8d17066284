"""References to parts of other files on this machine: kerchunk JSON and kerchunk Parquet."""

from __future__ import annotations

from zarrstack.core.errors import UsageError

from ..base import Storage
from ..local.presence import is_dir
from ..local.storage import LocalStorage
from .places import ContainerPlace


def open_container(place: ContainerPlace) -> Storage:
    """The archive of a document or directory of references; UsageError, MetadataError, StorageError."""
    from ..open_storage import open_below
    from ..references.opening import open_directory, open_document

    if place.inside is not None:
        raise UsageError(f"no such directory: {place.path}/{place.inside}")
    text = str(place.path)
    if is_dir(place.path):
        return open_directory(LocalStorage(place.path), text, place.options, open_below)
    return open_document(text, place.options, open_below)
