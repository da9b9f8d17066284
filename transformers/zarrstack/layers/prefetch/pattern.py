"""The order in which the chunks of an array are read: runs at equal distances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

FIRST: Final = 2
"""Chunks ahead when a run has been found; twice as many after each that was used."""
_LONG_RUN: Final = 8
"""Chunks that make a run, instead of three, while more were read in vain than used."""
_RECENT: Final = 64
"""Chunks of an array in which three at equal distances are looked for, with as many others between them."""
_JUDGED: Final = 32
"""Chunks read ahead after which those before count half."""
_RUNS: Final = 16
"""Runs of an array that are followed at the same time."""
_PATIENCE: Final = 64
"""Chunks of an array that are read elsewhere before a run has ended."""


@dataclass(slots=True, eq=False)
class Run:
    """Chunks of an array that are read at equal distances."""

    last: int
    stride: int
    length: int = 3
    ahead: int = FIRST
    seen: int = 0
    """The number of chunks of the array that had been read at the last one of the run."""


class Pattern:
    """The order in which the chunks of one array are read."""

    def __init__(self) -> None:
        self._used = self._unused = 0
        self._recent: dict[int, int] = {}
        self._runs: list[Run] = []
        self._count = 0

    def judge(self, *, used: bool) -> None:
        """Note whether a chunk that was read ahead was used; what was long ago counts less."""
        if used:
            self._used += 1
        else:
            self._unused += 1
        if self._used + self._unused >= _JUDGED:
            self._used, self._unused = self._used // 2, self._unused // 2

    def next(self, index: int) -> tuple[Run | None, list[Run]]:
        """The run that a chunk continues or makes, if any; and those that have ended."""
        self._count += 1
        run = next((run for run in self._runs if index == run.last + run.stride), None)
        if run is not None:
            run.last, run.length = index, run.length + 1
        else:
            run = self._begun(index)
        if run is not None:
            run.seen = self._count
        self._recent.pop(index, None)
        self._recent[index] = self._count
        if len(self._recent) > _RECENT:
            del self._recent[next(iter(self._recent))]
        ended = [old for old in self._runs if self._count - old.seen > _PATIENCE]
        if len(self._runs) - len(ended) > _RUNS:
            ended.append(min((old for old in self._runs if old not in ended), key=lambda old: old.seen))
        self._runs = [old for old in self._runs if old not in ended]
        long_enough = run is not None and run.length >= (_LONG_RUN if self._unused > self._used else 3)
        return run if long_enough else None, ended

    def _begun(self, index: int) -> Run | None:
        for other, at in reversed(self._recent.items()):
            stride = index - other
            before = self._recent.get(other - stride) if stride else None
            if before is not None and at - before == self._count - at:
                run = Run(index, stride)
                self._runs.append(run)
                return run
        return None
