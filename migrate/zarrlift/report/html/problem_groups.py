"""Problems of many archives, grouped by what happened."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from zarrstack.core.errors import Problem

_MAX_PLACES: Final = 20
"""Maximum number of places of a group; the rest is counted."""
_ORDER: Final = {"refusal": 0, "warning": 1, "note": 2}
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

    severity: str
    kind: str
    message: str
    found: str | None
    expected: str | None
    advice: str | None
    count: int
    places: tuple[Where, ...]
    more: int

    @property
    def tone(self) -> str:
        """How a page colours it."""
        return _TONES[self.severity]


def grouped(problems: Iterable[tuple[str | None, Problem]]) -> list[ProblemGroup]:
    """Groups of problems, each with the name of its archive if there are several; the largest first."""
    groups: dict[tuple[str | None, ...], list[tuple[str | None, Problem]]] = {}
    for archive, problem in problems:
        key = (problem.severity, problem.kind, problem.message, problem.expected, problem.advice)
        groups.setdefault(key, []).append((archive, problem))
    made = [_group(members) for members in groups.values()]
    return sorted(made, key=lambda group: (_ORDER[group.severity], group.kind, -group.count))


def _group(members: list[tuple[str | None, Problem]]) -> ProblemGroup:
    first = members[0][1]
    same = len({problem.found for _, problem in members}) == 1
    places = tuple(
        Where(archive, problem.node, problem.key, None if same else problem.found)
        for archive, problem in members[:_MAX_PLACES]
        if archive is not None or problem.node is not None or problem.key is not None or not same
    )
    return ProblemGroup(
        severity=first.severity,
        kind=first.kind,
        message=first.message,
        found=first.found if same else None,
        expected=first.expected,
        advice=first.advice,
        count=len(members),
        places=places,
        more=len(members) - min(len(members), _MAX_PLACES),
    )
