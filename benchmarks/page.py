"""Puts the figures of `peers` into docs/explanation/speed.md, and the chart beside it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from chart import Group, draw
from harness import without_verdicts
from main_job import PAGE

MARK = "<!-- figures: benchmarks/peers.py --write -->"
CHART_START, CHART_END = "<!-- chart: benchmarks/peers.py --write -->", "<!-- end of chart -->"
NOT_YET = "not measured yet"
"""What the page says before the first measurement."""
_TABLE = re.compile(rf"(?s)({re.escape(MARK)}\n\n)```text\n(.*?)\n```")
_CHART = re.compile(rf"(?s)({re.escape(CHART_START)}\n).*?({re.escape(CHART_END)})")


def write(text: str, groups: Sequence[Group], circumstances: Sequence[str], page: Path = PAGE) -> None:
    """Table and chart together, so that they cannot differ; SystemExit where the page has no place."""
    old = page.read_text()
    if _TABLE.search(old) is None or _CHART.search(old) is None:
        raise SystemExit(f"{page} has no place for the figures: {MARK} and {CHART_START} ... {CHART_END}")
    chart = page.with_name("speed-peers.svg")
    image = f"![Seconds of each workload: zarrlift, its peers and the machine's limits]({chart.name})"
    block = f"```text\n{without_verdicts(text)}\n```"
    new = _TABLE.sub(lambda match: match[1] + block, old, count=1)
    new = _CHART.sub(lambda match: f"{match[1]}\n{image}\n\n{match[2]}", new, count=1)
    chart.write_text(draw(groups, circumstances=circumstances))
    page.write_text(new)


def table_of(page: Path = PAGE) -> str:
    """What stands in the page's table; SystemExit where it has none."""
    found = _TABLE.search(page.read_text())
    if found is None:
        raise SystemExit(f"{page} has no table after {MARK}")
    return found[2]
