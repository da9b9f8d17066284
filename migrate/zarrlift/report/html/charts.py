"""The line of rates over time, which the templates draw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from ...jobs.units import bytes_text, duration_text, rate_text
from ..blocks import Block

if TYPE_CHECKING:
    from ...jobs.ledger.throughput import Reached

_MIN_POINTS: Final = 5
"""Fewer points are no line."""
_WIDTH: Final = 1000
_HEIGHT: Final = 150


@dataclass(frozen=True, slots=True, kw_only=True)
class Line(Block):
    """A line of rates over time, as paths of SVG."""

    area: str
    edge: str
    most: str
    seconds: float
    text: str
    """The same in words."""


def line_of(points: Sequence[Reached]) -> Line | None:
    """Bytes read a second over the time of moving; None if there are too few points."""
    if len(points) < _MIN_POINTS:
        return None
    rates = [
        (before.seconds, after.seconds, (after.bytes_in - before.bytes_in) / (after.seconds - before.seconds))
        for before, after in pairwise(points)
        if after.seconds > before.seconds
    ]
    most, seconds = max((rate for _, _, rate in rates), default=0.0), points[-1].seconds
    if not most:
        return None
    places = (
        f"L{_WIDTH * time / seconds:.1f} {_y(rate, most):.1f}"
        for begin, end, rate in rates
        for time in (begin, end)
    )
    steps = " ".join(places)
    edge = "M" + steps[1:]
    total = points[-1].bytes_in
    text = (
        f"{bytes_text(total)} read in {duration_text(seconds)}: {rate_text(total, seconds)} on average, "
        f"{bytes_text(round(most))}/s at most."
    )
    return Line(
        area=f"M0 {_HEIGHT} {steps} L{_WIDTH} {_HEIGHT}Z",
        edge=edge,
        most=f"{bytes_text(round(most))}/s",
        seconds=seconds,
        text=text,
    )


def _y(rate: float, most: float) -> float:
    return _HEIGHT - (_HEIGHT - 4) * rate / most
