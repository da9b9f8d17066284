"""Problems of each severity, several of them as one text, and commands that solve them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeVar, Unpack

from zarrstack.core.errors import LONGEST, Details, Problem, WholeText, ZarrstackError, short

from .units import quoted

T = TypeVar("T")
_BRIEFLY: Final = 10
"""Maximum number of problems in `JoinedProblems.brief`."""


def refusal(kind: str, message: str, **details: Unpack[Details]) -> Problem:
    """A problem that excludes the node."""
    return Problem(kind=kind, message=message, **details)


def warning(kind: str, message: str, **details: Unpack[Details]) -> Problem:
    """A problem with which the node is read."""
    return Problem(kind=kind, severity="warning", message=message, **details)


def note(kind: str, message: str, **details: Unpack[Details]) -> Problem:
    """A harmless deviation."""
    return Problem(kind=kind, severity="note", message=message, **details)


def any_refusal(problems: Iterable[Problem]) -> bool:
    """Whether any problem is a refusal."""
    for problem in problems:  # noqa: SIM110 - usually there are none, and `any` would create a generator
        if problem.severity == "refusal":
            return True
    return False


def attempt(problems: list[Problem], step: Callable[[], T]) -> T | None:
    """The result of a step, or None if it fails; its problem is then added."""
    try:
        return step()
    except ZarrstackError as error:
        problems.append(error.problem)
    except RecursionError:
        problems.append(refusal("metadata", "the document is nested too deeply"))
    return None


def command(*words: str) -> str:
    """A command line of zarrlift that can be pasted into a shell."""
    return " ".join(["zarrlift", *map(quoted, words)])


class JoinedProblems(WholeText):
    """Several problems as one text: each is truncated, their list is not."""

    __slots__ = ("brief",)
    brief: JoinedProblems
    """The same with the first problems and the number of the others, for one line."""

    @classmethod
    def of(cls, problems: Iterable[object], *, before: str = "", after: str = "") -> JoinedProblems:
        """Join the problems, between two other texts."""
        texts = [short(str(problem), LONGEST) for problem in problems]
        joined = cls(before + "; ".join(texts) + after)
        more = [f"and {len(texts) - _BRIEFLY} more"] if len(texts) > _BRIEFLY else []
        joined.brief = cls(before + "; ".join([*texts[:_BRIEFLY], *more]) + after)
        return joined
