"""Short lists of nodes and of numbers: consecutive ones are a range."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from ..jobs.units import count_text, node_text, safe

_NUMBERED: Final = re.compile("(.*?)([0-9]{1,18})", re.DOTALL)


def _ranges(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """(first, last) of each run of consecutive numbers, sorted."""
    ranges: list[tuple[int, int]] = []
    for number in sorted(numbers):
        first = ranges.pop()[0] if ranges and ranges[-1][1] == number - 1 else number
        ranges.append((first, number))
    return ranges


def index_ranges(indexes: Iterable[int]) -> str:
    """Indexes in the notation of job arrays, such as `0-2,7`."""
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in _ranges(indexes))


def node_names(paths: Iterable[str], most: int | None, *, hint: str = "") -> str:
    """`/a/s0 to s7, /b and 3 more`: at most `most` names and ranges, if not None; the rest is counted.

    `hint` follows the number of the others, if there are any.
    """
    numbered: dict[tuple[str, bool], dict[int, str]] = {}
    for path in paths:
        match = _NUMBERED.fullmatch(path)
        prefix, number = (match[1], int(match[2])) if match else (path, 0)
        members = numbered.setdefault((prefix, match is not None), {})
        if number in members:  # `s1` and `s01`
            members = numbered.setdefault((path, False), {})
        members[number] = path
    names: list[str] = []
    counts: list[int] = []
    for members in numbered.values():
        for first, last in _ranges(members):
            until = f" to {safe(members[last].rpartition('/')[2])}" if first != last else ""
            names.append(node_text(members[first]) + until)
            counts.append(last - first + 1)
    rest = 0 if most is None else sum(counts[most:])
    return ", ".join(names[:most]) + (f" and {count_text(rest)} more{hint}" if rest else "")
