"""A bar chart as SVG, of plain text: one group of bars for each workload, each group with its own scale.

Readable on light and dark pages. Names and figures are text, to be searched and read aloud.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final, NamedTuple

from harness import Kind

WIDTH: Final = 760
LEFT, LONGEST = 190, WIDTH - 190 - 90
"""Where bars begin, and the length of the longest of a group."""
TITLE = "Seconds of whole commands: zarrlift, its peers and the machine's limits"
NOTE = "medians, shorter is better; each group has its own scale; dashed is the least that the machine needs"
STYLE: Final = """\
  svg { font: 12px system-ui, sans-serif; }
  .page { fill: #ffffff; } text { fill: #1f2328; } .small { fill: #59636e; font-size: 11px; }
  .title { font-size: 15px; font-weight: 600; } .group { font-weight: 600; }
  .own { fill: #0b63c5; } .peer { fill: #a3abb5; }
  .limit { fill: none; stroke: #59636e; stroke-dasharray: 3 2; }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117; } text { fill: #e6edf3; } .small { fill: #9da7b1; }
    .own { fill: #58a6ff; } .peer { fill: #5c6672; } .limit { stroke: #9da7b1; }
  }"""


class Bar(NamedTuple):
    """One contender."""

    name: str
    seconds: float
    kind: Kind


class Group(NamedTuple):
    """One workload."""

    name: str
    bars: Sequence[Bar]


def text(kind: str, x: float, y: float, words: str, more: str = "") -> str:
    """A line of text."""
    return f'<text class="{kind}" x="{x:.1f}" y="{y}"{more}>{escape(words)}</text>'


def draw(groups: Sequence[Group], *, circumstances: Sequence[str]) -> str:
    """The chart. `circumstances` are lines that say what was measured on: machine, versions, rounds."""
    below = 62 + sum(22 + 18 * len(group.bars) + 14 for group in groups)
    height = below + 15 * (len(circumstances) + 1)
    summary = " ".join(
        f"{group.name}: {', '.join(f'{bar.name} {bar.seconds:.2f} s' for bar in group.bars)}."
        for group in groups
    )
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    return "\n".join((
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="title summary">',
        f'<title id="title">{escape(TITLE)}</title>',
        f'<desc id="summary">{escape(summary)}</desc>',
        f"<style>\n{STYLE}\n</style>",
        f'<rect class="page" width="{WIDTH}" height="{height}"/>',
        text("title", 16, 26, TITLE),
        text("small", 16, 44, NOTE),
        *bars(groups),
        *(text("small", 16, below + 15 * number, line) for number, line in enumerate(circumstances, 1)),
        "</svg>\n",
    ))  # fmt: skip


def bars(groups: Sequence[Group]) -> Iterator[str]:
    """Each group below the one before."""
    y = 62
    for group in groups:
        longest = max(bar.seconds for bar in group.bars) or 1
        yield text("group", 16, y + 14, group.name)
        y += 22
        for bar in group.bars:
            length = max(bar.seconds / longest * LONGEST, 1)
            name = f"{bar.name} (limit)" if bar.kind == "limit" else bar.name
            yield text("name", LEFT - 8, y + 10, name, ' text-anchor="end"')
            yield f'<rect class="{bar.kind}" x="{LEFT}" y="{y}" width="{length:.1f}" height="12"/>'
            yield text("figure", LEFT + length + 6, y + 10, f"{bar.seconds:.2f} s")
            y += 18
        y += 14
