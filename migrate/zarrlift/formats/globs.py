"""Globs over directories: `*`, `?` and `[]` within a name, `**` for any number of directories."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import translate
from pathlib import Path
from typing import Final, TypeAlias

from ..storage.open_storage import is_url

Positions: TypeAlias = frozenset[int]
"""The numbers of components that may match the next name of a path; empty if no path below it matches."""
_MAGIC: Final = re.compile(r"[*?[]")
_MAGIC_IN_URL: Final = re.compile(r"[*[]")
"""In a URL, a question mark starts a query."""
_ANY_DEPTH: Final = "**"


@dataclass(frozen=True, slots=True)
class Glob:
    """The components of a glob below its constant part."""

    names: tuple[re.Pattern[str] | None, ...]
    """None matches any number of directories."""

    @classmethod
    def of(cls, names: Sequence[str]) -> Glob:
        """The glob with these components."""
        return cls(tuple(None if name == _ANY_DEPTH else re.compile(translate(name)) for name in names))

    @property
    def start(self) -> Positions | None:
        """The positions of the constant part itself; None if that matches."""
        return self._at({0})

    def after(self, positions: Positions, name: str) -> Positions | None:
        """The positions after the next name of a path; None if the path matches."""
        reached: set[int] = set()
        for position in positions:
            pattern = self.names[position]
            if pattern is None:
                reached.add(position)
            elif pattern.match(name):
                reached.add(position + 1)
        return self._at(reached)

    def any_depth(self, positions: Positions | None) -> bool:
        """Whether the path matches, or `**` may match here."""
        return positions is None or any(self.names[position] is None for position in positions)

    def _at(self, positions: Iterable[int]) -> Positions | None:
        reached: set[int] = set()
        for position in positions:
            reached.add(position)
            while position < len(self.names) and self.names[position] is None:
                position += 1  # noqa: PLW2901 - `**` matches nothing as well
                reached.add(position)
        return None if len(self.names) in reached else frozenset(reached)


def divided(place: str) -> tuple[str, Glob | None]:
    """The constant part of a glob and the rest; the place itself if it is not a glob."""
    if is_url(place):
        scheme, slashes, rest = place.partition("://")
        names = rest.split("/")
        at = _first(names, _MAGIC_IN_URL)
        if at is None or "::" in place:
            return place, None
        return scheme + slashes + "/".join(names[:at]), Glob.of([name for name in names[at:] if name])
    names = list(Path(place).parts)
    at = _first(names, _MAGIC)
    if at is None or os.path.lexists(os.path.expanduser(place)):
        return place, None
    return str(Path(*names[:at])), Glob.of(names[at:])


def _first(names: Sequence[str], magic: re.Pattern[str]) -> int | None:
    """The number of the first component that is not constant."""
    return next((at for at, name in enumerate(names) if magic.search(name)), None)
