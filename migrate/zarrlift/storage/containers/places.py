"""Files and directories that may be containers, on this machine and in stores."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ..remote.backend import ObjectState
    from ..remote.zarr_store import StoreStorage

HEAD: Final = 4096
"""Bytes from the start of a file by which its kind is recognized."""


@dataclass(frozen=True, slots=True)
class ContainerPlace:
    """Where a container is on this machine."""

    path: Path
    inside: str | None = None
    """The directory within it that is the archive; None to look for it."""


@dataclass(frozen=True, slots=True)
class StoredContainer:
    """A file in a store that may be a container."""

    storage: StoreStorage
    """The store at its URL; its path is the key of the file."""
    head: bytes = field(repr=False)
    """Its first bytes (`HEAD` or fewer)."""
    state: ObjectState
    inside: str | None = None
    """As above."""
