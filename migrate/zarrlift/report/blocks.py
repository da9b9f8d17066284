"""What is shown of a result, as data: the function `blocks` in the module of a result makes it once.

`text` prints blocks on a terminal; `html` writes them on pages and in notebooks. Texts from an archive have
passed `zarrlift.core.units.safe`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, NamedTuple, TypeAlias, TypeVar

from ..core.units import count_text

if TYPE_CHECKING:
    from zarrstack.core.errors import Problem

MAX_PLACES: Final = 20
"""Maximum number of places of a group on a page; the rest is counted."""
FEW: Final = 3
"""Maximum number of messages that differ by numbers, and are shown each."""
_NUMBER: Final = re.compile(r"(?:[0-9]+(?:[.,][0-9]+)*(?: x )?)+(?: [kMGTPE]?B\b)?")
ORDER: Final = ("refusal", "warning", "note")
"""Severities, the gravest first."""
_MAKERS: Final = {
    "Archive": "archive.",
    "Plan": "plan.",
    "Status": "status.",
    "UpdatePlan": "plan.update_",
    "VerificationReport": "outcome.verification_",
}
"""Result -> the module with its `blocks` and `brief_lines`, if it has some, and how their names begin."""
ROUTES: Final = {
    "stay": "metadata only; chunks are unchanged and stay in place",
    "pass": "not described here; document and objects copied unchanged",
    "relink": "chunks copied unchanged",
    "reframe": "chunks copied into another frame, not decoded",
    "recode": "outer codecs changed",
    "rewrite": "decoded and re-encoded",
    "regrid": "rechunked",
}
"""What each route does, in a few words."""


class Where(NamedTuple):
    """Where a problem was found."""

    archive: str | None
    node: str | None
    key: str | None
    found: str | None
    """If it is not the same everywhere."""
    message: str | None
    """The same of the message and what was expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemGroup:
    """Problems that differ by their places, and by numbers."""

    first: Problem
    """With "..." for numbers that differ in its message."""
    found: str | None
    """If it is the same everywhere."""
    count: int
    places: tuple[Where, ...]
    more: int
    """Number of problems whose places are not shown."""

    @classmethod
    def of(cls, members: Sequence[tuple[str | None, Problem]], *, most: int | None) -> ProblemGroup:
        """The group of these problems and their archives."""
        first = members[0][1]
        same = len({problem.found for _, problem in members}) == 1
        message = _in_common([problem.message for _, problem in members])
        expected = _in_common([problem.expected or "" for _, problem in members])
        varies = (message, expected) != (first.message, first.expected or "")
        excerpt = members[:most]
        places = [
            Where(
                archive,
                problem.node,
                problem.key,
                None if same else problem.found,
                "; expected ".join(filter(None, (problem.message, problem.expected))) if varies else None,
            )
            for archive, problem in excerpt
        ]
        return cls(
            first=replace(first, message=message, expected=expected or None) if varies else first,
            found=first.found if same else None,
            count=len(members),
            places=tuple(place for place in places if any(part is not None for part in place)),
            more=len(members) - len(excerpt),
        )

    @property
    def count_text(self) -> str:
        """`12 times`; "" for one problem."""
        return "" if self.count == 1 else count_text(self.count, "time")


def groups_of(problems: Iterable[tuple[str | None, Problem]], *, most: int | None) -> list[ProblemGroup]:
    """Groups of problems and their archives, each with at most `most` places.

    Those that differ by numbers are in one group if they are many.
    """
    groups: dict[tuple[str | None, ...], dict[tuple[str | None, ...], list[tuple[str | None, Problem]]]] = {}
    for archive, problem in problems:
        texts = (problem.message, problem.expected)
        key = (problem.severity, problem.kind, *(text and _NUMBER.sub("0", text) for text in texts))
        groups.setdefault((*key, problem.advice), {}).setdefault(texts, []).append((archive, problem))
    return [
        ProblemGroup.of(members, most=most)
        for alike in groups.values()
        for members in (alike.values() if len(alike) <= FEW else [[*chain.from_iterable(alike.values())]])
    ]


def _in_common(texts: Sequence[str]) -> str:
    """Texts that differ by numbers at most, as one."""
    numbers = zip(*(_NUMBER.findall(text) for text in texts), strict=True)
    return _NUMBER.sub(lambda match: match[0] if len({*next(numbers)}) == 1 else "...", texts[0])


T = TypeVar("T")
Tone: TypeAlias = Literal["title", "good", "warning", "bad", "quiet"]


class Block:
    """Base class of all blocks.

    Each is itself alone: dataclasses would compile the comparison of all while a short command waits.
    """


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Section(Block):
    """Begins a group of blocks: text has an empty line before it, a page a frame around it."""

    title: str = ""
    """For pages and notebooks."""
    heads_text: bool = False
    """Whether text has the title too."""
    on: Literal["text", "pages", "both"] = "both"
    """Where it is shown; a notebook is a page."""
    folded: bool = False
    """Whether a notebook shows its title alone at first."""


@dataclass(frozen=True, eq=False, repr=False)
class Title(Block):
    """The headline."""

    text: str
    tone: Tone = "title"
    hang: int = 2
    """Indentation of further lines."""


@dataclass(frozen=True, eq=False, repr=False)
class Text(Block):
    """A paragraph."""

    text: str
    indent: int = 0
    hang: int = 0


@dataclass(frozen=True, eq=False, repr=False)
class Summary(Block):
    """The result in one sentence: near the prompt at the end of a text, and at the start of a page."""

    text: str


@dataclass(frozen=True, eq=False, repr=False)
class Lines(Block):
    """Lines to search or to copy, which are never wrapped."""

    lines: Sequence[str]
    indent: int = 2
    most: int | None = None
    """Maximum number of lines."""
    tone: Tone | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Pairs(Block):
    """Names and values; pairs without a value are omitted."""

    rows: Sequence[tuple[str, str]]


@dataclass(frozen=True, eq=False, repr=False)
class Names(Block):
    """Names of nodes in one paragraph; consecutive numbers are a range, and the rest is counted."""

    head: str
    paths: Sequence[str]
    most: int
    """Maximum number of names."""


@dataclass(frozen=True, eq=False, repr=False)
class Document(Block):
    """JSON that folds out on pages."""

    label: str
    value: Any


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Column:
    """Title and layout of a column."""

    title: str
    right: bool = False
    """Align right, for numbers."""
    wraps: bool = False
    """Cells may take several lines if the table is too wide."""
    spare: int = 0
    """If nonzero, the column may be left out of a table that is too wide, the highest number first.

    One with 1 is left out only if cutting words is not enough.
    """
    once: bool = False
    """If all cells that are not empty are equal, they may stand once below the table instead."""
    folded: bool = False
    """On pages, a row shows it when it folds out."""
    is_state: bool = False
    """Whether pages colour it."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Table(Block, Generic[T]):
    """A row for each item; the first ones are shown, the others counted."""

    columns: Sequence[Column]
    items: Sequence[T]
    row: Callable[..., Sequence[str]]
    """The cells of an item, or of several that are alike."""
    most: int | None = None
    """Maximum number of rows of a text."""
    what: str = ""
    """What an item is."""
    indent: int = 2
    alike: Callable[[T], object] | None = None
    """Items for which this is equal have a row together in a text for which there are too many."""
    rest: Callable[[Sequence[T]], Sequence[str]] | None = None
    """The cells of a last row for the items that are not shown; without it, a line counts them."""
    shared: slice | None = None
    """Columns that stand in a table of their own if most rows share them and the table is too wide."""
    paths: Callable[[T], str] | None = None
    """The paths of items that are nodes of a tree."""
    more: Callable[[T], Iterable[Block]] | None = None
    """What a row folds out on a page."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Problems(Block):
    """Problems, each with its archive if there are several; equal ones are grouped."""

    problems: Sequence[tuple[str | None, Problem]] = ()
    refusal: str = "refusal"
    """The word for problems that exclude a node: "refused", "failed", "differs"."""

    @classmethod
    def of(cls, problems: Iterable[Problem], refusal: str = "refusal") -> Problems:
        """The problems of one archive."""
        return cls(problems=[(None, problem) for problem in problems], refusal=refusal)

    def grouped(self, most: int | None) -> Sequence[ProblemGroup]:
        """The groups, each with at most `most` places."""
        return groups_of(self.problems, most=most)


@dataclass(frozen=True, eq=False, repr=False)
class Advice(Block):
    """What to do next, and the command for it."""

    text: str
    command: str


def blocks_of(result: object) -> Iterator[Block]:
    """The blocks of a result."""
    return iter(_made("blocks", result))


def brief_lines_of(result: object) -> Iterator[str]:
    """What is wrong with a result, a line each."""
    return iter(_made("brief_lines", result))


def _made(what: str, result: object) -> Iterable[Any]:
    module, _, start = _MAKERS[type(result).__name__].partition(".")
    maker = getattr(import_module(f".{module}", __package__), start + what, lambda _: ())
    made: Iterable[Any] = maker(result)
    return made
