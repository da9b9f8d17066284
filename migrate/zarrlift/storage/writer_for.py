"""Selects the writer for a storage."""

from __future__ import annotations

from .base import Storage
from .local.storage import LocalStorage
from .local.writer import LocalWriter
from .writer import Writer


def writer_for(storage: Storage, job_id: str, *, fsync: bool, in_place: bool = False) -> Writer:
    """The fastest writer for a storage."""
    if isinstance(storage, LocalStorage):
        return LocalWriter(storage, job_id, fsync=fsync, in_place=in_place)
    from .remote.store_writer import StoreWriter

    return StoreWriter(storage)
