"""Commands on a stage, what they change, and what was done."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.zarrlift.jobs.faults.commands import Ended
from tests.zarrlift.jobs.faults.judging import said_badly
from tests.zarrlift.jobs.faults.site import Site, changed, stamps
from tests.zarrlift.jobs.faults.stage import KILLED, Stage, orders


@dataclass(slots=True)
class Told:
    """What a life showed."""

    life: str
    """The life as text that `--life` repeats."""
    done: list[str] = field(default_factory=list)
    """What was done, as commands and as words for the rest."""
    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        done = (f"    {line}" for line in self.done)
        wrong = (f"  WRONG {line}" for line in self.wrong)
        return "\n".join((f"--life {self.life!r}", *done, *wrong))


class Play:
    """A stage, from an empty home on."""

    def __init__(self, stage: Stage, life: str, *, tight: bool) -> None:
        self.stage = stage
        self.tight = tight
        self.told = Told(life)
        stage.clear()
        self._clock = stage.home / "tmp" / "clock"

    def tick(self) -> None:
        """Wait until the clock of the file system has gone on, as it has between the acts of people."""
        self._clock.write_bytes(b"")
        before = self._clock.stat().st_mtime_ns
        while self._clock.stat().st_mtime_ns == before:
            self._clock.write_bytes(b"")

    def by_people(self, act: Callable[[], str | None]) -> list[str]:
        """Let people do something; returns the files that they have changed."""
        self.tick()
        before = stamps(self.stage.home)
        if words := act():
            self.told.done.append(f"# {words}")
        self.tick()
        return changed(before, stamps(self.stage.home))

    def command(
        self, *words: str, order: str | None, owns: Callable[[str], bool]
    ) -> tuple[Ended, list[str], list[str]]:
        """Run a command, disturbed or not: how it ended, what it changed, and what is wrong with that.

        `owns` tells which files it may change.
        """
        before = stamps(self.stage.home)
        ended = self.stage.run(*words, tight=self.tight, **(orders(order) if order else {}))
        after = stamps(self.stage.home)
        files = changed(before, after)
        killed = ended.code == KILLED
        self.told.counts["commands"] += 1
        self.told.counts["kills"] += killed
        failed = self.stage.control.failures()
        self.told.counts["failed calls"] += len(failed)
        done = "killed" if killed else "; ".join(failed) or "not reached"
        note = f"  # {order}: {done}" if order else ""
        self.told.done.append(f"zarrlift {' '.join(words)}  -> {ended.code}{note}")
        wrong = [] if killed else said_badly(ended)
        scratch = f"{self.stage.home}/tmp/"
        # Who reads a job file, reads it as it was before a killed command: SQLite takes back what that began.
        journals = [file for file in files if file.endswith("-journal") and file not in after]
        recovered = {*journals, *(file.removesuffix("-journal") for file in journals)}
        claims = [f"{word}.zarrlift.claim" for word in words]  # of a destination that is named
        # What a killed command was trying, and what another one has removed of that.
        stopped = killed or bool(failed)
        trials = {file for file in files if "/.zarrlift-trial." in file and (stopped or file not in after)}
        if foreign := [
            file
            for file in files
            if not file.startswith((scratch, *claims)) and not owns(file) and file not in recovered | trials
        ]:
            wrong.append(f"changed {len(foreign)} files elsewhere: {foreign[:4]}")
        return ended, files, wrong

    def new_folder(self) -> Path:
        """One more folder for a copy, or for what is moved."""
        folder = self.stage.home / f"w{len(list(self.stage.home.glob('w*')))}"
        folder.mkdir()
        return folder

    def shell(self, *words: str) -> None:
        """Run another program."""
        subprocess.run(words, check=True)
        self.told.done.append(" ".join(words))

    def note_shared(self, sites: list[Site], files: list[str]) -> None:
        """With hard links, a file of the source that is rewritten in place changes the results at once."""
        for site in sites:
            if any(Path(file).is_relative_to(site.result) for file in files) and site.archive.truncates:
                for other in sites:
                    if other.archive is site.archive and not other.in_place:
                        other.expect_linked_files()
                        other.rewritten |= set(map(Path, files))
