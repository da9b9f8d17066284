"""Whole commands, timed in turn: each round runs every command once, in a new process.

What is compared is measured in the same run, since machines drift. MB are 10^6 bytes.

Memory comes in two figures. The kernel tells the peak of the *largest* process of a command (wait4(2)), for
every round; a process inherits that of what started it, some 20 MB here. For commands with several processes,
the tree is looked at every few milliseconds in the round that does not count: the peak of the sum of all
processes, with what they share divided among them (`/proc/PID/smaps_rollup`).
"""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, TypeVar

FAR_SLOWER: Final = 5
PAUSE: Final = 0.01
"""Seconds between two looks at the processes of a command, at least: nine times as long as a look took."""

Kind = Literal["own", "peer", "limit"]
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One contender."""

    name: str
    argv: Sequence[object]
    kind: Kind = "own"
    prepare: Callable[[], None] = lambda: None
    """Runs before each round, and is not timed."""
    check: Callable[[], None] = lambda: None
    """Ends the run if the result is wrong; called after the round that does not count."""
    after: Callable[[], str] = lambda: ""
    """Runs after each round; its text stands beside the figures of the last one."""
    note: str = ""
    """What the contender does less than the others."""


class Run(NamedTuple):
    """What one run took."""

    seconds: float
    work: float
    """Seconds of processor time, user and system, of all processes."""
    megabytes: float
    """Of the largest process."""


@dataclass(slots=True)
class Figures:
    """What was measured of one command."""

    runs: list[Run] = field(default_factory=list)
    processes: int = 1
    """The most at a time."""
    together: float = 0.0
    """Megabytes of all of them at the peak; 0 if it was not measured."""
    text: str = ""
    """What `Command.after` said at last."""

    @property
    def median(self) -> float:
        """Seconds, wall clock."""
        return statistics.median(run.seconds for run in self.runs)

    def __str__(self) -> str:
        seconds, work, megabytes = zip(*self.runs, strict=True)
        peak = max(megabytes)
        text = f"{self.median:6.2f} s ({min(seconds):.2f} to {max(seconds):.2f}), "
        text += f"{statistics.median(work):5.2f} s of work, {peak:4.0f} MB"
        if self.processes > 1 and self.together > peak:
            text += f", {self.together:.0f} in {self.processes} processes"
        return text + self.text


def watch(pid: int, figures: Figures, done: threading.Event) -> None:
    """Look at a process and its children until it is done."""
    pause = PAUSE
    while not done.wait(pause):
        started = time.perf_counter()
        found = [used for used in map(held, family(pid)) if used]
        figures.processes = max(figures.processes, len(found))
        figures.together = max(figures.together, sum(found) / 1e6)
        pause = max(PAUSE, 9 * (time.perf_counter() - started))


def family(pid: int) -> list[int]:
    """A process and all its children."""
    found = [pid]
    for each in found:
        try:
            for task in os.listdir(f"/proc/{each}/task"):
                with open(f"/proc/{each}/task/{task}/children") as file:
                    found.extend(map(int, file.read().split()))
        except OSError:
            continue  # it has ended meanwhile
    return found


def held(pid: int) -> int:
    """Bytes in memory, of what is shared its part (`Pss`); 0 once the process has ended."""
    try:
        with open(f"/proc/{pid}/smaps_rollup") as file:
            return sum(int(line.split()[1]) * 1024 for line in file if line.startswith("Pss:"))
    except OSError:
        return 0


def run_once(command: Command, figures: Figures, *, watched: bool = False, counts: bool = True) -> None:
    """Run a command once, and add what it took; SystemExit with what it printed if it fails."""
    command.prepare()
    started = time.perf_counter()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen([str(word) for word in command.argv], stdout=output, stderr=output)
        done = threading.Event()
        if watched:
            threading.Thread(target=watch, args=(process.pid, figures, done), daemon=True).start()
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        done.set()
        if process.returncode:
            output.seek(0)
            text = output.read().decode(errors="replace")
            raise SystemExit(f"{command.name} failed with {process.returncode}:\n{text}")
    figures.text = command.after()
    if counts:
        work = usage.ru_utime + usage.ru_stime
        figures.runs.append(Run(seconds, work, usage.ru_maxrss * 1024 / 1e6))


def measure(commands: Sequence[Command], rounds: int) -> dict[str, Figures]:
    """Figures by name; one round comes first that does not count, in which memory and results are looked at.

    With 0 rounds that one counts. A command that takes `FAR_SLOWER` times as long as the first one is run in
    one round only: the others would take hours and change nothing.
    """
    found = {command.name: Figures() for command in commands}
    for command in commands:
        run_once(command, found[command.name], watched=True, counts=not rounds)
        command.check()
    running = list(commands)
    for _ in range(rounds):
        for command in running:
            run_once(command, found[command.name])
        most = FAR_SLOWER * found[commands[0].name].median
        running = [command for command in running if found[command.name].median <= most]
    return found


def interleaved(contenders: Mapping[str, Callable[[], Result]], rounds: int) -> dict[str, list[Result]]:
    """What functions give, called in turn within this process; the first round counts only if it is alone.

    Each round has another order: what one leaves behind, in memory and in threads, slows the next one down.
    """
    found: dict[str, list[Result]] = {name: [] for name in contenders}
    for number in range(rounds + 1):
        for name in random.Random(number).sample([*contenders], len(contenders)):
            result = contenders[name]()
            if number or not rounds:
                found[name].append(result)
    return found


def spread(figures: Sequence[float], digits: int = 2) -> str:
    """The median, with the smallest and the largest."""
    middle, least, most = (
        f"{figure:.{digits}f}" for figure in (statistics.median(figures), min(figures), max(figures))
    )
    return f"{middle} ({least} to {most})"


def markdown(*lines: Sequence[object]) -> str:
    """A table whose first line has the headings."""
    head, *body = ("| " + " | ".join(map(str, cells)) + " |" for cells in lines)
    return "\n".join((head, "| " + " | ".join("---" for _ in lines[0]) + " |", *body))
