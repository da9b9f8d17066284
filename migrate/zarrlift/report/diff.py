"""The output of `zarrlift diff`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from ..jobs.units import bytes_text, count_text, node_names, node_text, safe
from . import blocks as b
from .outcome import share_compared

if TYPE_CHECKING:
    from ..verification.archive_diff import ArchiveDiff, NodeDifference

_ROWS: Final = 40
"""Maximum number of rows of differences."""
_PLACES: Final = 3
"""Maximum number of values shown of an array."""
_FORMS: Final = 12
"""Maximum number of rows of what is stored differently."""
_NAMES: Final = 6
"""Maximum number of names and ranges of nodes that share a row."""
_NOTHING: Final = "-"
_VARIOUS: Final = "various"
_LONGEST: Final = 160
"""Characters shown of a value; JSON has more."""
_COLUMNS: Final = (
    b.Column(title="node"),
    b.Column(title="difference", wraps=True),
    b.Column(title="A", wraps=True),
    b.Column(title="B", wraps=True),
)
_STORED: Final = (
    b.Column(title="stored differently", wraps=True),
    b.Column(title="A", wraps=True),
    b.Column(title="B", wraps=True),
    b.Column(title="nodes", wraps=True),
)


class _Row(NamedTuple):
    node: str
    difference: str
    first: str
    second: str


def blocks(outcome: ArchiveDiff) -> Iterator[b.Block]:
    """The result, every difference, and what could not be compared."""
    tone: b.Tone = "good" if outcome.ok else "bad"
    yield b.Title(f"{_headline(outcome)} {_extent(outcome)}", tone=tone)
    yield b.Pairs(
        (
            ("A", f"{safe(outcome.first)} ({outcome.first_format})"),
            ("B", f"{safe(outcome.second)} ({outcome.second_format})"),
        )
    )
    yield b.Section(title="Differences")
    rows = [row for difference in outcome.differences for row in _rows(difference)]
    yield b.Table(columns=_COLUMNS, items=rows, row=tuple, most=_ROWS, what="row")
    yield b.Section(title="Stored differently", folded=True)
    forms: dict[str, list[NodeDifference]] = {}
    for difference in outcome.stored:
        forms.setdefault(_what(difference), []).append(difference)
    yield b.Table(columns=_STORED, items=list(forms.items()), row=_form, most=_FORMS, what="row")
    yield b.Section(title="Problems")
    yield b.Problems.of(outcome.problems, "not compared")
    if not outcome.full:
        yield b.Section()
        yield b.Text("Use --full to compare every value.")


def brief_lines(outcome: ArchiveDiff) -> Iterator[str]:
    """One line if the archives are not the same."""
    if not outcome.ok:
        yield _headline(outcome)


def _headline(outcome: ArchiveDiff) -> str:
    nodes = len({difference.node for difference in outcome.differences})
    text = f"Different: {count_text(len(outcome.differences), 'difference')} at {count_text(nodes, 'node')}."
    if not outcome.problems:
        return text if outcome.differences else "Same."
    problems = f"Not all could be compared: {count_text(len(outcome.problems), 'problem')}."
    return f"{text} {problems}" if outcome.differences else problems


def _extent(outcome: ArchiveDiff) -> str:
    counts = [count_text(outcome.arrays, "array"), count_text(outcome.groups, "group")]
    amount = f"{bytes_text(outcome.bytes)} of values"
    if not outcome.full and outcome.bytes:
        amount += f" ({share_compared(outcome.share)} of the stored values)"
    how = "every value" if outcome.full else "metadata and a sample of chunks"
    return f"Compared {how}: {', '.join([*counts, count_text(outcome.chunks, 'chunk'), amount])}."


def _rows(difference: NodeDifference) -> Iterator[_Row]:
    """The rows of a difference: of values, one for each of the first that differ."""
    path, what = node_text(difference.node), _what(difference)
    if not difference.values:
        yield _Row(path, what, *_sides(difference))
    for value in difference.values[:_PLACES]:
        place = f"at {list(value.index)}"
        yield _Row(path, f"{what} {place}" if what else place, _excerpt(value.first), _excerpt(value.second))
        path = what = ""


def _form(form: tuple[str, list[NodeDifference]]) -> tuple[str, str, str, str]:
    """The row of what several nodes store differently."""
    what, nodes = form
    sides = map(set, zip(*map(_sides, nodes), strict=True))
    first, second = (side.pop() if len(side) == 1 else _VARIOUS for side in sides)
    return what, first, second, node_names((node.node for node in nodes), _NAMES)


def _what(difference: NodeDifference) -> str:
    if difference.what == "values":
        return f"{count_text(difference.count, 'value')}, first" if difference.count > 1 else "value"
    if difference.what == "node" and None in (difference.first, difference.second):
        return "only in A" if difference.second is None else "only in B"
    if difference.place is None:
        return difference.what
    return f"{difference.what} {safe(difference.place)}"


def _sides(difference: NodeDifference) -> tuple[str, str]:
    sides = (difference.first, difference.second)
    first, second = (_NOTHING if side is None else _excerpt(side) for side in sides)
    return first, second


def _excerpt(text: str) -> str:
    return safe(text if len(text) <= _LONGEST else text[:_LONGEST] + "...")
