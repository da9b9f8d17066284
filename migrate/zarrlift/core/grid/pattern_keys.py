"""The keys of an array that cannot be described, whose objects are known from a listing only.

A name is a pattern and the numbers in it: `c/0/12` and `c/3/4` have the pattern `c/%d/%d`. Each pattern has a
range for each number, so that the keys of 10^9 objects take no more memory than those of ten, and every
object has an index.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import accumulate
from math import prod
from typing import TYPE_CHECKING, Final, Self, TypeAlias

from zarrstack.core.errors import MetadataError, UnsupportedError
from zarrstack.core.json_text import JSON, JSONObject, excerpt

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Ranges: TypeAlias = tuple[tuple[int, int], ...]
"""The least and the greatest value of each number in a pattern."""

_NUMBER: Final = re.compile("[0-9]+")
_MAX_DIGITS: Final = 18
"""Decimal digits that always fit an int64; longer numbers are text."""
_MAX_PATTERNS: Final = 10_000


def _parse(name: str) -> tuple[str, tuple[int, ...]]:
    """The pattern and the numbers of a name. The pattern states the digits of one with leading zeros."""
    numbers: list[int] = []

    def placeholder(match: re.Match[str]) -> str:
        digits = match[0]
        if len(digits) > _MAX_DIGITS:
            return digits
        numbers.append(int(digits))
        return f"%0{len(digits)}d" if digits[0] == "0" and len(digits) > 1 else "%d"

    pattern = _NUMBER.sub(placeholder, name.replace("%", "%%"))
    return pattern, tuple(numbers)


@dataclass(frozen=True, slots=True)
class PatternKeys:
    """The keys of objects along one axis, whatever the shape of their array is.

    Same interface as `KeyEncoding`.
    """

    patterns: tuple[tuple[str, Ranges], ...] = ()
    _starts: tuple[int, ...] = field(init=False, repr=False, compare=False)
    """The first index of each pattern, and the end of the last one."""
    _places: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        sizes = [prod(high - low + 1 for low, high in ranges) for _, ranges in self.patterns]
        object.__setattr__(self, "_starts", (0, *accumulate(sizes)))
        places = {pattern: place for place, (pattern, _) in enumerate(self.patterns)}
        object.__setattr__(self, "_places", places)

    @property
    def total(self) -> int:
        """Number of possible keys, at least that of the objects."""
        return self._starts[-1]

    @classmethod
    def from_json(cls, data: JSON) -> Self:
        """The inverse of `to_json`; MetadataError for anything else."""
        match data:
            case {"name": "patterns", "configuration": {"patterns": list() as patterns}}:
                return cls(
                    tuple((text, tuple((low, high) for low, high in ranges)) for text, ranges in patterns)
                )
        raise MetadataError("not keys by patterns", found=excerpt(data), expected='{"name": "patterns", ...}')

    def to_json(self) -> JSONObject:
        """JSON for saved plans; not used in v3 documents."""
        patterns = [[text, [list(pair) for pair in ranges]] for text, ranges in self.patterns]
        return {"name": "patterns", "configuration": {"patterns": patterns}}

    def key(self, coordinates: tuple[int, ...]) -> str:
        """The key of an object."""
        place = bisect_right(self._starts, coordinates[0]) - 1
        pattern, ranges = self.patterns[place]
        rest = coordinates[0] - self._starts[place]
        numbers: list[int] = []
        for low, high in reversed(ranges):
            rest, number = divmod(rest, high - low + 1)
            numbers.append(low + number)
        return pattern % tuple(reversed(numbers))

    def keys(self, coordinates: npt.NDArray[np.integer]) -> list[str]:
        """The keys of many objects, from (n, 1) coordinates; equal to `key` for each row."""
        return [self.key((index,)) for index in coordinates[:, 0].tolist()]

    def coordinates(self, key: str, ndim: int) -> tuple[int, ...] | None:
        """The coordinates of a key's object, or None."""
        pattern, numbers = _parse(key)
        place = self._places.get(pattern)
        if place is None:
            return None
        index = 0
        for (low, high), number in zip(self.patterns[place][1], numbers, strict=True):
            if not low <= number <= high:
                return None
            index = index * (high - low + 1) + number - low
        return (self._starts[place] + index,)

    def depth(self, ndim: int) -> int:
        """Maximum number of path segments in a key."""
        return max((pattern.count("/") + 1 for pattern, _ in self.patterns), default=1)

    def __str__(self) -> str:
        return "as listed"


class NamePatterns:
    """Collects the patterns of names, and the ranges of the numbers in them."""

    def __init__(self) -> None:
        self._patterns: dict[str, Ranges] = {}

    def add(self, name: str) -> None:
        """Add a name; UnsupportedError for too many patterns."""
        pattern, numbers = _parse(name)
        ranges = self._patterns.get(pattern)
        if ranges is None:
            ranges = tuple((number, number) for number in numbers)
            if len(self._patterns) >= _MAX_PATTERNS:
                raise UnsupportedError(
                    "the names of the array's objects follow no pattern",
                    found=f"{name}, and {_MAX_PATTERNS} names that differ in more than numbers",
                )
        self._patterns[pattern] = tuple(
            (min(low, number), max(high, number)) for (low, high), number in zip(ranges, numbers, strict=True)
        )

    def keys(self) -> PatternKeys:
        """Keys that include all of the names."""
        return PatternKeys(tuple(sorted(self._patterns.items())))
