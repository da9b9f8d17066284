"""Readers: one module per source format, each of which describes an archive as `Archive`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..archive import Archive, Format
    from ..storage import Storage

__all__ = ["describe"]


def describe(storage: Storage, *, format: Format | None = None, follow_links: bool = False) -> Archive:
    """The archive that lies in a place, its format found out unless `format` names it.

    Raises UsageError where there is none, or where its format is not one that is read; problems
    of nodes are with the nodes.
    """
    from . import zarr_v2
    from .detection import detect

    detect(storage, format=format)
    return zarr_v2.read(storage, follow_links=follow_links, only=format is not None)
