"""Whole commands, timed in turn: each round runs every command once, in a fresh process.

What is compared is measured in the same run, since machines drift; medians are quoted,
with the fastest and slowest round beside them. MB are 10^6 bytes.

Memory comes in two figures. The kernel tells the peak of the *largest* process of a command (wait4(2):
`ru_maxrss` is that of the largest process in the tree, not a sum), for every round. A command that uses
several processes needs more: in the round that does not count, its tree is looked at every few
milliseconds, and the peak of *all* processes is what they have each for themselves, and the largest part
that is shared, once (`/proc/PID/smaps_rollup`, Linux only). Such a look may miss a peak that the kernel
would not, so a promise is held to the larger of the two. A process also inherits the peak of what started
it, some 20 MB here: that is the least that can be measured.
"""

from __future__ import annotations

import os
import re
import shutil
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

VERDICT: Final = re.compile(
    r"(?m)^  no peer is faster .*\n?|,? +at (?:most|least) [^\n]*?: (?:holds|BROKEN)$"
    r"|(?:   the same)?:? +(?:holds|BROKEN)$|, at most \d+ s and \d+ MB$"
)
"""What a run is held to and whether it was: for those who change the code, not for readers of the docs."""
PAUSE = 0.01
"""Seconds between two looks at the processes of a command, at least: nine times as long as a look took."""


def without_verdicts(text: str) -> str:
    """The figures of a table alone, as the docs show them."""
    return VERDICT.sub("", text)


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
    work: list[float] = field(default_factory=list)
    """Seconds of processor time, user and system, of all processes."""
    megabytes: list[float] = field(default_factory=list)
    """Of the largest process."""
    processes: int = 1
    """The most at a time."""
    together: float = 0.0
    """Megabytes of all of them at the peak; 0 if it was not measured."""

    def add(self, run: Run) -> None:
        """Count one more round."""
        self.seconds.append(run.seconds)
        self.work.append(run.work)
        self.megabytes.append(run.megabytes)

    @property
    def median(self) -> float:
        """Seconds, wall clock."""
        return statistics.median(self.seconds)

    @property
    def peak(self) -> float:
        """Megabytes of the largest process, the most of any round."""
        return max(self.megabytes)

    @property
    def memory(self) -> float:
        """Megabytes that a promise is held to: of all processes."""
        return max(self.peak, self.together)

    def __str__(self) -> str:
        text = f"{self.median:6.2f} s ({min(self.seconds):.2f} to {max(self.seconds):.2f}), "
        if self.work:
            text += f"{statistics.median(self.work):5.2f} s of work, "
        text += f"{self.peak:4.0f} MB"
        if self.processes > 1 and self.together > self.peak:
            text += f", {self.together:.0f} in {self.processes} processes"
        return text


@dataclass(frozen=True, slots=True)
class Run:
    """What one run took."""

    seconds: float
    work: float
    """Seconds of processor time, user and system, of all processes."""
    megabytes: float
    """Of the largest process."""
    processes: int = 1
    together: float = 0.0


class Watch(threading.Thread):
    """Looks at a process and its children until told to stop."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid = pid
        self.done = threading.Event()
        self.processes = 1
        self.together = 0.0

    def run(self) -> None:
        pause = PAUSE
        while not self.done.wait(pause):
            started = time.perf_counter()
            found = [used for used in map(held, family(self.pid)) if used is not None]
            if found:
                self.processes = max(self.processes, len(found))
                bytes_held = sum(own for own, _ in found) + max(shared for _, shared in found)
                self.together = max(self.together, bytes_held / 1e6)
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


def held(pid: int) -> tuple[int, int] | None:
    """Bytes in memory that a process has for itself, and shares; None once it has ended."""
    own = shared = 0
    try:
        with open(f"/proc/{pid}/smaps_rollup") as file:
            for line in file:
                name, _, rest = line.partition(":")
                if name in ("Private_Clean", "Private_Dirty"):
                    own += int(rest.split()[0]) * 1024
                elif name in ("Shared_Clean", "Shared_Dirty"):
                    shared += int(rest.split()[0]) * 1024
    except OSError:
        return None
    return own, shared


def run_once(command: Command, *, watched: bool = False) -> Run:
    """One process; fails if the command fails."""
    command.prepare()
    started = time.perf_counter()
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command.argv, stdout=said, stderr=said)
        watch = Watch(process.pid)
        if watched:
            watch.start()
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        if watched:
            watch.done.set()
            watch.join()
        if process.returncode:
            said.seek(0)
            text = said.read().decode(errors="replace")
            raise SystemExit(f"{command.name} failed with {process.returncode}:\n{text}")
    work = usage.ru_utime + usage.ru_stime
    return Run(seconds, work, usage.ru_maxrss * 1024 / 1e6, watch.processes, watch.together)


def look(command: Command, *, count: bool = False) -> Figures:
    """A run whose processes are watched; its time stands in the figures only where it shall `count`."""
    found = run_once(command, watched=True)
    figures = Figures(processes=found.processes, together=found.together)
    if count:
        figures.add(found)
    return figures


FAR_SLOWER: Final = 5


def measure(
    commands: Sequence[Command], rounds: int, figures: dict[str, Figures] | None = None
) -> dict[str, Figures]:
    """Figures by name; one round comes first that does not count, unless `figures` brings what it found.

    With 0 rounds that one counts. A command that takes `FAR_SLOWER` times as long as the first one is run in
    one round only: the others would take hours and change nothing.
    """
    found = figures
    if found is None:
        found = {command.name: look(command, count=not rounds) for command in commands}
    running = list(commands)
    for _ in range(rounds):
        for command in running:
            found[command.name].add(run_once(command))
        most = FAR_SLOWER * found[commands[0].name].median
        running = [command for command in running if found[command.name].median <= most]
    return found


def remover(*paths: Path) -> Callable[[], None]:
    """A `prepare` that clears what an earlier round wrote."""

    def remove() -> None:
        for path in paths:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)

    return remove


def executable_of(environment: str, name: str = "python") -> str:
    """The program of that name in a folder's `bin`, else its Python; the argument, if it is a program."""
    for each in (name, "python"):
        inside = Path(environment, "bin", each)
        if inside.exists():
            return str(inside)
    return environment
