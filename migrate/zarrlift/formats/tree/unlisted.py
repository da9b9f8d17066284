"""Archives in stores that cannot list: documents are requested by name."""

from __future__ import annotations

from collections.abc import Sequence

from ...storage.base import Storage
from .walk import Found


def root_alone(storage: Storage, documents: Sequence[str]) -> Found:
    """The documents at the root."""
    contents = zip(documents, storage.get_many(documents), strict=True)
    return Found(path="", documents={name: content for name, content in contents if content is not None})


def unlisted_advice(storage: Storage) -> str:
    """Advice for archives in which no document names the nodes."""
    return (
        f"{storage.url} cannot be listed, and nothing else names its nodes: consolidate its metadata"
        " (zarr.consolidate_metadata), name one node by its own URL, or copy the archive to a place that"
        " can list."
    )
