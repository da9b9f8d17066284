"""What is asked for an archive of a batch, as stored in its file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zarrstack.core.json_text import JSONObject

from ...archive.read_options import ReadOptions
from ...recipe.options import Format, Link, VerifyLevel
from ...recipe.recipe import Recipe
from ...storage.open_storage import is_url
from ...storage.reference_options import of_references
from ..archive_run import ArchiveRequest
from ..endpoints import Options
from .rows import BatchRow

_SAME = (
    "in_place",
    "format",
    "link",
    "overwrite",
    "source_through",
    "dest_through",
    "provenance",
    "ro_crate",
)
_PLAIN = (*_SAME, "inventory", "verify", "digest")
_OF_ARCHIVE = (*_SAME, "recipe", "reading")
"""What a row and an `ArchiveRequest` have alike."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRequest:
    """The options of `migrate` for an archive, without its places and without storage options."""

    recipe: Recipe = field(default_factory=Recipe)
    reading: ReadOptions = field(default_factory=ReadOptions)
    in_place: bool = False
    format: Format | None = None
    link: Link = "auto"
    overwrite: bool = False
    inventory: str | None = None
    source_through: str | None = None
    dest_through: str | None = None
    provenance: bool = False
    ro_crate: bool = False
    verify: VerifyLevel = "sample"
    digest: bool = False

    def to_json(self) -> JSONObject:
        """JSON for the file; equal requests are stored once."""
        return {
            **{name: getattr(self, name) for name in _PLAIN},
            "recipe": self.recipe.to_json(),
            "reading": self.reading.to_json(),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RowRequest:
        """Inverse of `to_json`."""
        return cls(
            **{name: data[name] for name in _PLAIN},
            recipe=Recipe.from_json(data["recipe"]),
            reading=ReadOptions.from_json(data["reading"]),
        )

    def of(
        self, row: BatchRow, storage_options: Options = None, dest_storage_options: Options = None
    ) -> ArchiveRequest:
        """The request for one archive."""
        return ArchiveRequest(
            source=row.source,
            destination=None if self.in_place else row.destination,
            **{name: getattr(self, name) for name in _OF_ARCHIVE},
            inventory=None if self.inventory is None else Path(self.inventory),
            storage_options=storage_options if is_url(row.source) else of_references(storage_options),
            dest_storage_options=dest_storage_options if is_url(row.destination) else None,
        )
