"""Divides the tasks of a plan between parts, in the same way on every machine.

Tasks are put in a row, array by array, each as long as its bytes. The row is cut into pieces of equal length,
and a part has the tasks whose middle is in its piece: at most one task more or less than its share. Second
passes have their own row, because they run after all first passes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ...planning.plans import ArrayPlan
from ...transfer.tasks import pass_numbers

_NONE: Final = range(0)


@dataclass(frozen=True, slots=True)
class _Piece:
    """The tasks of one pass of an array, in the row."""

    numbers: range
    start: int
    """Where they begin."""
    length: int


class Division:
    """The tasks of each part."""

    def __init__(self, arrays: Iterable[ArrayPlan], parts: int) -> None:
        """`arrays`: all of a plan, sorted by path."""
        self._parts = parts
        self._rows: dict[bool, dict[str, _Piece]] = {False: {}, True: {}}
        """By whether it is the row of second passes, then by path."""
        self._lengths = {False: 0, True: 0}
        for plan in arrays:
            passes = (False,) if plan.between is None else (True, False)
            for first_pass in passes:
                numbers = pass_numbers(plan, first_pass=first_pass)
                if not numbers:
                    continue
                second = plan.between is not None and not first_pass
                length = max(plan.bytes_in if first_pass else plan.bytes_read, plan.bytes_out, len(numbers))
                self._rows[second][plan.path] = _Piece(numbers, self._lengths[second], length)
                self._lengths[second] += length

    def numbers(self, plan: ArrayPlan, part: int, *, first_pass: bool) -> range:
        """The task numbers of a part in one pass of an array; `part` counts from 0."""
        second = plan.between is not None and not first_pass
        piece = self._rows[second].get(plan.path)
        if piece is None:
            return _NONE
        return piece.numbers[self._first(piece, part, second) : self._first(piece, part + 1, second)]

    def part_of(self, plan: ArrayPlan, number: int) -> int:
        """The part that has a task, counted from 0."""
        second = plan.between is not None and number >= 0
        piece = self._rows[second][plan.path]
        place, count = piece.numbers.index(number), len(piece.numbers)
        middle = 2 * count * piece.start + piece.length * (2 * place + 1)
        return middle * self._parts // (2 * count * self._lengths[second])

    def _first(self, piece: _Piece, part: int, second: bool) -> int:
        """Index of the first task of a piece that is in this part or a later one."""
        count = len(piece.numbers)
        # The middle of task k, in units of 1 / (2 * count), is 2 * count * start + length * (2 * k + 1).
        least = -(-2 * count * self._lengths[second] * part // self._parts) - 2 * count * piece.start
        place = -(-(least - piece.length) // (2 * piece.length))
        return min(max(place, 0), count)
