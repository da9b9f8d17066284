"""The requests that a migration makes to stores, as data: stores charge for them by class."""

from __future__ import annotations

from dataclasses import dataclass

from ..core.json_fields import FieldsAsJSON


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCounts(FieldsAsJSON):
    """Requests of a migration to the store at one of its ends, from planning to its last document."""

    list: int = 0
    """Pages of listings, of 1,000 objects each."""
    get: int = 0
    """Reads of objects, of parts of them, and of documents that turn out to be missing."""
    head: int = 0
    """Requests for the state of an object without its content."""
    put: int = 0
    """Writes of objects; of a large one, of each part, and two more."""
    copy: int = 0
    """Copies that the store itself makes."""
    delete: int = 0
    bytes_read: int = 0
    """Bytes of chunks and shards that leave the store; documents are not counted."""
    bytes_written: int = 0
    """Bytes of chunks and shards that are sent to the store, without its own copies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestForecast(FieldsAsJSON):
    """What a migration asks of the stores at its two ends."""

    source: RequestCounts | None = None
    """None if the source is not in a store; in place, all requests."""
    destination: RequestCounts | None = None
    """None if the result is not in a store."""
    objects: int
    """Objects that the migration has added to the destination in the end."""
