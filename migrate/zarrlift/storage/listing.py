"""The objects of a listing, page by page, and their receiver."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Protocol, TypeVar


@dataclass(frozen=True, slots=True)
class ListedPage:
    """Some objects of a listing, as columns: a Python object for each would cost more than the listing."""

    keys: Sequence[str]
    sizes: Sequence[int | None] | None = None
    """Size of each in bytes; None if not provided."""
    versions: Sequence[str | None] | None = None
    """For each a text that changes if it is rewritten: ETag, checksum or time; None if not provided."""

    def relative(self, start: int) -> ListedPage:
        """The same with keys that begin at their character `start`."""
        return replace(self, keys=[key[start:] for key in self.keys]) if start else self

    def only(self, wanted: Iterable[bool]) -> ListedPage:
        """Some of the objects; `wanted` has a value for each."""
        marks = list(wanted)
        if all(marks):
            return self
        return ListedPage(
            list(compress(self.keys, marks)),
            None if self.sizes is None else list(compress(self.sizes, marks)),
            None if self.versions is None else list(compress(self.versions, marks)),
        )


class ListingReceiver(Protocol):
    """Receives the objects of a listing page by page, and keeps what it needs."""

    def take(self, page: ListedPage) -> None:
        """Receive the next objects."""


L = TypeVar("L", bound=ListingReceiver)
