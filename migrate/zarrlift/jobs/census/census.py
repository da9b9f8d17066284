"""A census as plain data, which is printed, written as JSON and shown as a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Self

from zarrstack.core.errors import Problem

from ...core.json_fields import FieldsAsJSON
from ...core.problems import any_refusal

_NAMES: Final = 100
"""Maximum number of names of a tally that are kept; the others are only counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally(FieldsAsJSON):
    """How often each of some names occurs, the most frequent first."""

    counts: Mapping[str, int] = field(default_factory=dict)
    others: int = 0
    """Occurrences of further names."""

    @classmethod
    def of(cls, counter: Counter[str]) -> Self:
        """The tally of what was counted; names of equal counts are sorted."""
        ordered = sorted(counter.items(), key=lambda item: (-item[1], item[0]))
        return cls(counts=dict(ordered[:_NAMES]), others=sum(count for _, count in ordered[_NAMES:]))


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeClass(FieldsAsJSON):
    """The arrays whose decoded chunks have a size in a range."""

    at_least: int
    """In bytes."""
    below: int | None
    """In bytes; None for the largest."""
    arrays: int
    chunks: int
    """Stored chunks of these arrays; 0 without a listing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Example(FieldsAsJSON):
    """One of several problems, and the archive in which it was found."""

    archive: str
    problem: Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemGroup(FieldsAsJSON):
    """Problems with the same message."""

    kind: str
    severity: str
    message: str
    count: int = 0
    archives: int = 0
    examples: tuple[Example, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteTotals(FieldsAsJSON):
    """The arrays that a migration would move by one route."""

    route: str
    archives: int
    arrays: int
    chunks: int
    bytes_in: int
    bytes_read: int
    bytes_out: int
    objects_out: int
    codecs: Tally
    """Codecs before and after, such as "bytes, zlib -> bytes, gzip", by arrays."""


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


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Census(FieldsAsJSON):
    """What the archives in a place contain, and what a migration of all would do and cost.

    Examples
    --------
    >>> census = zarrlift.census(".")
    >>> census.arrays, census.refused, census.complete
    (6, 0, True)
    """

    place: str
    """Path, URL or glob, without credentials."""
    archives: int
    """Archives found, those that are `broken` too."""
    current: int
    """Archives that are Zarr v3 already; routes and cost do not include them."""
    groups: int
    arrays: int
    """Refused ones included."""
    refused: int
    """Nodes that would not be migrated."""
    listed: bool
    """Whether chunks were listed; without, amounts are 0 and `cost` is None."""
    objects: int
    """Stored chunks or shards, and metadata documents."""
    bytes: int
    """Of stored chunks or shards."""
    bytes_known: bool
    """Whether every store gave the sizes of its objects."""
    formats: Mapping[str, int]
    """Format -> archives."""
    writers: Tally
    """Software -> archives; an archive may have several, or none that is recognized."""
    data_types: Tally
    """Zarr v3 data type -> arrays."""
    codecs: Tally
    """Codec by its name in Zarr v3 -> arrays."""
    chunk_shapes: Tally
    """Chunk shape -> arrays."""
    conventions: Tally
    """Convention -> archives."""
    chunk_sizes: tuple[SizeClass, ...]
    """Sizes of decoded chunks."""
    routes: tuple[RouteTotals, ...]
    problems: tuple[ProblemGroup, ...]
    """Refusals first, then warnings and notes, each by count."""
    broken: tuple[Example, ...]
    """Every archive that cannot be read at all, with the reason."""
    unsearched: tuple[Problem, ...]
    """Places that could not be searched for archives; their nodes are paths in the place."""
    nested: tuple[str, ...]
    """Archives inside others that are not part of their trees; they are not counted."""
    cost: Cost | None

    def __repr__(self) -> str:
        counts = f"{self.archives} archives, {self.arrays} arrays, {len(self.broken)} broken"
        return f"<Census {self.place!r}: {counts}>"

    @property
    def complete(self) -> bool:
        """Whether every archive could be read, and would be migrated as a whole."""
        return not (self.broken or self.refused or any_refusal(self.unsearched))
