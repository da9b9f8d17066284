"""What is asked for an archive of a batch, as stored in its file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from zarrstack.core.json_text import JSONObject

from ...recipe.options import Places, Request, values
from ...recipe.recipe import Recipe
from ...storage.open_storage import is_url
from ...storage.reference_options import of_references
from ..archive_run import ArchiveRequest
from .rows import BatchRow


@dataclass(frozen=True, kw_only=True)
class RowRequest(Request):
    """What is asked for an archive, without its places and without storage options, which may be secret."""

    recipe: Recipe = field(default_factory=Recipe)

    def to_json(self) -> JSONObject:
        """JSON for the file; equal requests are stored once."""
        return {**values(self, Request), **self.reading.to_json(), "recipe": self.recipe.to_json()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RowRequest:
        """Inverse of `to_json`."""
        return cls(**{**data, "recipe": Recipe.from_json(data["recipe"])})

    def of(self, row: BatchRow, places: Places = Places()) -> ArchiveRequest:  # noqa: B008 - frozen
        """The request for one archive."""
        given = places.storage_options
        return ArchiveRequest.of(
            row.source,
            None if self.in_place else row.destination,
            self.recipe,
            self,
            Places(
                storage_options=given if is_url(row.source) else of_references(given),
                dest_storage_options=places.dest_storage_options if is_url(row.destination) else None,
            ),
        )
