"""The objects of a listing, and their receiver."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol, TypeVar


class ListedObject(NamedTuple):
    """One object of a listing."""

    key: str
    size: int | None = None
    """Size in bytes; None if not provided."""
    version: str | None = None
    """A text that changes if the object is rewritten: an ETag, a checksum or a time."""


class ListingReceiver(Protocol):
    """Receives the objects of a listing in batches, and keeps what it needs."""

    def take(self, objects: Iterable[ListedObject]) -> None:
        """Receive the next objects."""


L = TypeVar("L", bound=ListingReceiver)
