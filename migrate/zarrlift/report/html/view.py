"""What a page or a notebook shows of blocks, and how much."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias

from zarrstack.core.errors import short

from ...jobs.units import count_text
from .. import blocks as b
from ..names import node_names
from ..problem_groups import MAX_PLACES, ORDER, ProblemGroup
from .pictures import Pictures

SectionBlocks: TypeAlias = tuple[b.Section, list[b.Block]]
_TONES: Final = {
    "done": "good",
    "finished": "good",
    "failed": "bad",
    "refused": "bad",
    "REFUSED": "bad",
    "incomplete": "warn",
    "running": "warn",
}
"""The tones of states."""
_LONGEST: Final = 400
"""Maximum number of characters of a text in a notebook, or of a line of a document."""
_MAX_LINES: Final = 60
"""Maximum number of lines of a document."""
_MAX_GROUPS: Final = 20
"""Maximum number of groups of problems in a notebook."""
_DEEPEST: Final = 6
"""Nodes of a tree that are deeper are indented no further."""


class View:
    """What a page or a notebook has room for."""

    def __init__(self, *, is_page: bool, rows: int, characters: int) -> None:
        """`rows` of a table, and `characters` of all documents together."""
        self.is_page = is_page
        self.most = rows
        self._room = characters

    def text(self, text: str) -> str:
        """A text that is not too long."""
        return text if self.is_page else short(text, _LONGEST)

    def tone(self, state: str) -> str:
        """The tone of a state."""
        return _TONES.get(state, "")

    def depth(self, path: str | None) -> int:
        """How far a node is indented."""
        return min(path.count("/") + 1, _DEEPEST) if path else 0

    def names(self, block: b.Names) -> str:
        """The names of nodes in a sentence."""
        return f"{block.head}: {node_names(block.paths, block.most)}"

    def pairs(self, block: b.Pairs) -> list[tuple[str, str]]:
        """The pairs with a value."""
        return [pair for pair in block.rows if pair[1]]

    def groups(self, block: b.Problems) -> list[ProblemGroup]:
        """The groups of problems, by severity and kind, the largest first."""
        return sorted(
            block.grouped(MAX_PLACES),
            key=lambda group: (ORDER.index(group.first.severity), group.first.kind, -group.count),
        )[: None if self.is_page else _MAX_GROUPS]

    def columns(self, table: b.Table[Any], rows: Sequence[Sequence[str]]) -> list[tuple[int, b.Column]]:
        """The columns with a title and any text, by their places."""
        return [
            (place, column)
            for place, column in enumerate(table.columns)
            if column.title and any(row[place] for row in rows)
        ]

    def document(self, block: b.Document) -> list[str]:
        """The lines of a document; the rest of a long one is counted, and too many of them are left out."""
        if self._room <= 0:
            return ["not shown: there is too much; see --json"]
        lines = json.dumps(block.value, indent=2, ensure_ascii=False, default=str).splitlines()
        cut = [line if len(line) <= _LONGEST else line[:_LONGEST] + "…" for line in lines[:_MAX_LINES]]
        if len(lines) > _MAX_LINES:
            cut.append(f"… and {count_text(len(lines) - _MAX_LINES, 'more line')}")
        self._room -= sum(map(len, cut))
        return cut

    def shown(self, blocks: Iterable[b.Block]) -> list[b.Block]:
        """The blocks that have something to show."""
        return [block for block in blocks if not _is_empty(block)]

    def sections(self, blocks: Iterable[b.Block]) -> list[SectionBlocks]:
        """The sections that have something to show; after the first one, those with refusals."""
        found: list[SectionBlocks] = [(b.Section(), [])]
        for block in self.shown(blocks):
            if isinstance(block, b.Section):
                found.append((block, []))
            elif found[-1][0].on != "text":
                found[-1][1].append(block)
        first, *others = found
        others = [(section, content) for section, content in others if content]
        return [first, *sorted(others, key=lambda section: not any(map(_is_refusal, section[1])))]


def _is_empty(block: b.Block) -> bool:
    match block:
        case b.Pairs():
            return not any(value for _, value in block.rows)
        case b.Table():
            return not block.items
        case b.Problems():
            return not block.problems and not block.groups
        case b.Failures():
            return not block.rows
        case b.Lines():
            return not block.lines
        case b.Document():
            return not block.value
        case Pictures():
            return not block.shown and not block.notes
    return False


def _is_refusal(block: b.Block) -> bool:
    return isinstance(block, b.Problems) and any(
        group.first.severity == "refusal" for group in block.grouped(1)
    )
