"""What a listing tells of objects, and what takes it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol, TypeVar


class Listed(NamedTuple):
    """One object of a listing."""

    key: str
    size: int | None = None
    """Bytes; None where the place does not tell."""
    version: str | None = None
    """A text that is another one once the object is written again: an ETag, a checksum or a time."""


class Listing(Protocol):
    """What takes the objects of a listing, some at a time, and keeps what it needs of them."""

    def take(self, objects: Iterable[Listed]) -> None:
        """The next objects."""


L = TypeVar("L", bound=Listing)
