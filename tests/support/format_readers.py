"""The reader of each format, as tests call it: without detection."""

from __future__ import annotations

from typing import Any

from zarrlift.archive.nodes import Archive
from zarrlift.formats import table
from zarrlift.formats.tree.reader import read
from zarrlift.recipe.options import Reading
from zarrlift.storage.base import Storage


class FormatReader:
    """Reads archives of one format."""

    def __init__(self, name: str) -> None:
        self.name = name

    def read(self, storage: Storage, *, only: bool = False, **options: Any) -> Archive:
        """The archive in a storage; `options` are those of `Reading`."""
        return read(storage, table.FORMATS[self.name], Reading(**options), only=only)


zarr_v1, zarr_v2, zarr_v3, n5, zarr_v3_draft = map(
    FormatReader, ("zarr1", "zarr2", "zarr3", "n5", "zarr3-draft")
)
