"""What is set once, when a job is created."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self, cast

from ...recipe.options import Link
from ..provenance import Provenance


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """What a job was created with besides its plan; each is a note of the job file."""

    link: Link = "auto"
    overwrite: bool = False
    parts: int | None = None
    """The number of its parts; None for a job that is not divided."""
    source_through: str | None = None
    dest_through: str | None = None
    """Layers over either side."""
    provenance: Provenance | None = None

    @classmethod
    def of(cls, notes: Mapping[str, str]) -> Self:
        """The record of a job with these notes."""
        return cls(
            link=cast("Link", notes.get("link", "auto")),
            overwrite="overwrite" in notes,
            parts=int(notes["parts"]) if "parts" in notes else None,
            source_through=notes.get("source_through"),
            dest_through=notes.get("dest_through"),
            provenance=Provenance.from_text(notes.get("provenance")),
        )

    def to_notes(self) -> dict[str, str]:
        """Inverse of `of`."""
        notes = {
            "link": self.link,
            "overwrite": "yes" if self.overwrite else None,
            "parts": None if self.parts is None else str(self.parts),
            "source_through": self.source_through,
            "dest_through": self.dest_through,
            "provenance": None if self.provenance is None else self.provenance.to_text(),
        }
        return {name: text for name, text in notes.items() if text is not None}
