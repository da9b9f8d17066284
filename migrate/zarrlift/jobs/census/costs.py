"""What a migration of all archives takes: requests, bytes, and time at a rate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from ...core.json_fields import FieldsAsJSON

_PAGE: Final = 1000
"""Number of objects in an answer to a listing request, in S3 and most other stores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost(FieldsAsJSON):
    """Amounts of a migration to a new place, without verification beyond the default sample."""

    lists: int = 0
    """Requests that list the source, of 1,000 objects each."""
    reads: int = 0
    """Requests that read chunks, shards and documents of the source."""
    writes: int = 0
    """Requests that write objects and documents of the result."""
    bytes_read: int = 0
    bytes_written: int = 0
    """An estimate, unless chunks are copied unchanged."""
    bytes_known: bool = True
    """Whether `bytes_written` is not an estimate."""
    rate: float | None = None
    """Bytes read per second; None if none was given."""
    seconds: float | None = None
    """Time at this rate."""

    def at(self, rate: float | None) -> Cost:
        """The same with the time."""
        return replace(self, rate=rate, seconds=None if rate is None else self.bytes_read / rate)


def listing_requests(objects: int) -> int:
    """The number of requests that list the objects of one array."""
    return max(1, -(-objects // _PAGE))
