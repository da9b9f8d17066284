"""The objects of a fixture that is a directory, by key, for tests of zarrstack: those do without zarrlift."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class FixtureObjects:
    """Reads what lies below a folder."""

    folder: Path

    def get(self, key: str) -> bytes | None:
        """The bytes under a key; None where no file is."""
        path = self.folder / key
        return path.read_bytes() if path.is_file() else None
