"""The objects of a listing, page by page, and their receiver."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class ListedPage:
    """Some objects of a listing, as columns: a Python object for each would cost more than the listing."""

    keys: Sequence[str]
    sizes: Sequence[int | None] | npt.NDArray[np.int64] | None = None
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

    def shown(self, hidden: str) -> ListedPage:
        """Without keys that end with "/" or start with `hidden`."""
        # One search in all keys: a call for each takes as long as the rest of the listing.
        text = "\n".join(["", *self.keys, ""])
        if "/\n" not in text and f"\n{hidden}" not in text:
            return self
        return self.only(not (key.endswith("/") or key.startswith(hidden)) for key in self.keys)


class ListingReceiver(Protocol):
    """Receives the objects of a listing page by page, and keeps what it needs."""

    def take(self, page: ListedPage) -> None:
        """Receive the next objects."""


L = TypeVar("L", bound=ListingReceiver)
