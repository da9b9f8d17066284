"""A bar chart as SVG, of plain text: one group of bars for each workload, each group with its own scale.

Readable on light and dark pages: it brings its own background, and its colours follow
`prefers-color-scheme`. Names and figures are text, so they can be searched, copied and read aloud;
what tells zarrlift, peers and limits apart is written, not only coloured.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final, Literal

Kind = Literal["own", "peer", "limit"]

WIDTH: Final = 760
_LEFT: Final = 190
"""Where bars begin; names end before."""
_LONGEST: Final = WIDTH - _LEFT - 90
_BAR, _STEP, _HEAD, _GAP, _TOP, _LINE = 12, 18, 22, 14, 62, 15
"""Pixels: a bar, from bar to bar, a group's title, between groups, above all, a line of small print."""
_STYLE: Final = """\
  svg { font: 12px system-ui, sans-serif; }
  .page { fill: #ffffff; } text { fill: #1f2328; } .small { fill: #59636e; font-size: 11px; }
  .title { font-size: 15px; font-weight: 600; } .group { font-weight: 600; }
  .own { fill: #0b63c5; } .peer { fill: #a3abb5; }
  .limit { fill: none; stroke: #59636e; stroke-dasharray: 3 2; }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117; } text { fill: #e6edf3; } .small { fill: #9da7b1; }
    .own { fill: #58a6ff; } .peer { fill: #5c6672; } .limit { stroke: #9da7b1; }
  }"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One contender."""

    name: str
    seconds: float
    kind: Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """One workload."""

    name: str
    bars: Sequence[Bar]


def draw(groups: Sequence[Group], *, circumstances: Sequence[str]) -> str:
    """The chart. `circumstances` are lines that say what was measured on: machine, versions, rounds."""
    below = _TOP + sum(_HEAD + _STEP * len(group.bars) + _GAP for group in groups)
    height = below + _LINE * (len(circumstances) + 1)
    title = "Seconds of whole commands: zarrlift, its peers and the machine's limits"
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    note = (
        "medians, shorter is better; each group has its own scale; dashed is the least that the machine needs"
    )
    return "\n".join((
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="title summary">',
        f'<title id="title">{escape(title)}</title>',
        f'<desc id="summary">{escape(summary(groups))}</desc>',
        f"<style>\n{_STYLE}\n</style>",
        f'<rect class="page" width="{WIDTH}" height="{height}"/>',
        f'<text class="title" x="16" y="26">{escape(title)}</text>',
        f'<text class="small" x="16" y="44">{escape(note)}</text>',
        *_bars(groups),
        *(
            f'<text class="small" x="16" y="{below + _LINE * (number + 1)}">{escape(line)}</text>'
            for number, line in enumerate(circumstances)
        ),
        "</svg>",
        "",
    ))  # fmt: skip


def summary(groups: Sequence[Group]) -> str:
    """All figures in words, for those who do not see the bars."""
    return " ".join(
        f"{group.name}: {', '.join(f'{bar.name} {seconds(bar)}' for bar in group.bars)}." for group in groups
    )


def seconds(bar: Bar) -> str:
    """As in the table."""
    return f"{bar.seconds:.2f} s"


def _bars(groups: Sequence[Group]) -> Iterator[str]:
    y = _TOP
    for group in groups:
        longest = max((bar.seconds for bar in group.bars), default=0) or 1
        yield f'<text class="group" x="16" y="{y + 14}">{escape(group.name)}</text>'
        y += _HEAD
        for bar in group.bars:
            length = max(bar.seconds / longest * _LONGEST, 1)
            name = f"{bar.name} (limit)" if bar.kind == "limit" else bar.name
            yield (
                f'<text x="{_LEFT - 8}" y="{y + _BAR - 2}" text-anchor="end">{escape(name)}</text>'
                f'<rect class="{bar.kind}" x="{_LEFT}" y="{y}" width="{length:.1f}" height="{_BAR}"/>'
                f'<text x="{_LEFT + length + 6:.1f}" y="{y + _BAR - 2}">{seconds(bar)}</text>'
            )
            y += _STEP
        y += _GAP
