"""Whole commands, timed in turn: each round runs every command once, in a fresh process.

What is compared is measured in the same run, since machines drift; medians are quoted,
with the fastest and slowest round beside them. Peak memory is the largest process's.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One contender: `prepare` runs before each round and is not timed."""

    name: str
    argv: Sequence[str]
    prepare: Callable[[], None] = lambda: None


@dataclass(slots=True)
class Figures:
    """What was measured of one command."""

    seconds: list[float] = field(default_factory=list)
    megabytes: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """Seconds, wall clock."""
        return statistics.median(self.seconds)

    @property
    def peak(self) -> float:
        """Megabytes, the most of any round."""
        return max(self.megabytes)

    def __str__(self) -> str:
        return (
            f"{self.median:6.2f} s ({min(self.seconds):.2f} to {max(self.seconds):.2f}), {self.peak:4.0f} MB"
        )


def run_once(command: Command) -> tuple[float, float]:
    """(seconds, megabytes at the peak) of one process; fails if the command fails."""
    command.prepare()
    started = time.perf_counter()
    process = subprocess.Popen(command.argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    errors = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command.name} failed with {process.returncode}:\n{errors.decode()}")
    return seconds, usage.ru_maxrss / 1024


def measure(commands: Sequence[Command], rounds: int) -> dict[str, Figures]:
    """Figures by name; one round that does not count comes first."""
    figures = {command.name: Figures() for command in commands}
    for number in range(rounds + 1):
        for command in commands:
            seconds, megabytes = run_once(command)
            if number:
                figures[command.name].seconds.append(seconds)
                figures[command.name].megabytes.append(megabytes)
    return figures


def remover(*paths: Path) -> Callable[[], None]:
    """A `prepare` that clears what an earlier round wrote."""

    def remove() -> None:
        for path in paths:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)

    return remove
