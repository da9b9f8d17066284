"""Problems, grouped by what happened."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from ..jobs.units import count_text

if TYPE_CHECKING:
    from zarrstack.core.errors import Problem

MAX_PLACES: Final = 20
"""Maximum number of places of a group on a page; the rest is counted."""
ORDER: Final = ("refusal", "warning", "note")
"""Severities, the gravest first."""
_TONES: Final = {"refusal": "bad", "warning": "warn", "note": ""}


class Where(NamedTuple):
    """Where a problem was found."""

    archive: str | None
    node: str | None
    key: str | None
    found: str | None
    """If it is not the same everywhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemGroup:
    """Problems that differ by their places."""

    first: Problem
    found: str | None
    """If it is the same everywhere."""
    count: int
    places: tuple[Where, ...]
    more: int
    """Number of problems whose places are not shown."""
    archives: int | None = None
    """Number of archives, if there are others than those of the places."""

    @classmethod
    def of(
        cls,
        members: Sequence[tuple[str | None, Problem]],
        *,
        most: int | None,
        count: int | None = None,
        archives: int | None = None,
    ) -> ProblemGroup:
        """The group of these problems and their archives, with others if `count` is larger."""
        first = members[0][1]
        same = len({problem.found for _, problem in members}) == 1 and count in (None, len(members))
        excerpt = members[:most]
        return cls(
            first=first,
            found=first.found if same else None,
            count=len(members) if count is None else count,
            places=tuple(
                Where(archive, problem.node, problem.key, None if same else problem.found)
                for archive, problem in excerpt
                if archive is not None or problem.node is not None or problem.key is not None or not same
            ),
            more=(len(members) if count is None else count) - len(excerpt),
            archives=archives,
        )

    @property
    def count_text(self) -> str:
        """`12 times`, with the number of archives if it is known; "" for one problem."""
        if self.count == 1:
            return ""
        archives = "" if self.archives is None else f" in {count_text(self.archives, 'archive')}"
        return count_text(self.count, "time") + archives

    @property
    def tone(self) -> str:
        """How a page colours it."""
        return _TONES[self.first.severity]


def groups_of(problems: Iterable[tuple[str | None, Problem]], *, most: int | None) -> list[ProblemGroup]:
    """Groups of problems and their archives, each with at most `most` places."""
    groups: dict[tuple[str | None, ...], list[tuple[str | None, Problem]]] = {}
    for archive, problem in problems:
        key = (problem.severity, problem.kind, problem.message, problem.expected, problem.advice)
        groups.setdefault(key, []).append((archive, problem))
    return [ProblemGroup.of(members, most=most) for members in groups.values()]


def grouped(problems: Iterable[tuple[str | None, Problem]]) -> list[ProblemGroup]:
    """The groups for a page: by severity and kind, the largest first."""
    return sorted(
        groups_of(problems, most=MAX_PLACES),
        key=lambda group: (ORDER.index(group.first.severity), group.first.kind, -group.count),
    )
