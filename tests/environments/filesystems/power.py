"""Lose power at random points of jobs, and continue with what is left.

    python tests/environments/filesystems/power.py                            everything, 20 points each
    python tests/environments/filesystems/power.py ext4 --only place --points 500 --seed 7

User-mode Linux runs the commands of a scenario on a disk that keeps a log of its writes and flushes (dm-log-writes).
A loss of power leaves everything that was written before the last flush, and any part of what was written since. Disks in
such states are made from the log and mounted by this kernel; the job is continued, and zarr-python compares the values.
Meanwhile another process flushes a file of its own or the job file again and again, which brings the names of files to
the disk before their content. The exit code is 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import secrets
import struct
import subprocess
import sys
import tempfile
import threading
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import zarr
from ask import IMPOSSIBLE, IN_PLACE, MIGRATE, ON, Place, change_source
from tests.support.job_archives import tree, values

import zarrlift
from zarrlift.errors import JobError
from zarrlift.jobs.ledger.ledger import Job
from zarrstack.core.errors import ZarrstackError

FILE_SYSTEMS = ("ext4", "xfs", "btrfs")
CHANGE = ("change",)
SCENARIOS: dict[str, list[tuple[str, ...]]] = {
    "migrate": [MIGRATE],
    "update": [MIGRATE, CHANGE, ("update", "out.zarr")],
    "in place": [IN_PLACE, ("verify", "source.zarr"), *(
        (verb, "--yes", "source.zarr") for verb in ("finish", "undo")
    )],
}  # fmt: skip
FLUSH, FUA, DISCARD, MARK = 1, 2, 4, 8
"""Flags of an entry of the log (Linux, drivers/md/dm-log-writes.c)."""


# Within user-mode Linux


def record(scenario: str, *, fsync: bool) -> None:
    """Run the commands of a scenario in $DIR, and mark the end of each in the log."""
    place = Place(Path(os.environ["DIR"]))
    print(place.home)
    for name in ("dirty_writeback_centisecs", "dirty_expire_centisecs"):
        Path("/proc/sys/vm", name).write_text("20")
    place.archive()
    os.sync()
    mark(0)
    with flushing(place.home):
        for number, words in enumerate(SCENARIOS[scenario], 1):
            if words == CHANGE:
                change_source(place)
                os.sync()
            else:
                place.run(*words, *["--fsync"] * (fsync and words[0] in {"migrate", "update"}))
            mark(number)


def mark(number: int) -> None:
    subprocess.run(["dmsetup", "message", "logged", "0", "mark", str(number)], check=True)


@contextmanager
def flushing(home: Path) -> Iterator[None]:
    """Flush a file whenever there are other names in the folder: one of others, or the job file."""
    ended = threading.Event()

    def flush() -> None:
        listing: list[object] = []
        while not ended.wait(0.01):
            if listing != (listing := list(os.walk(home))):
                job_files = home.glob("*.zarrlift.db") if random.random() < 0.5 else ()
                with next(iter(job_files), home / "other").open("ab") as file:
                    os.fsync(file.fileno())

    thread = threading.Thread(target=flush)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


# The log


@dataclass(frozen=True, slots=True)
class Write:
    """One entry of the log; offsets and sizes in bytes."""

    flags: int
    target: int
    source: int
    size: int
    mark: int | None


def entries(log: Path) -> list[Write]:
    """The entries of a log."""
    writes: list[Write] = []
    with log.open("rb") as file:
        _, _, count, sector = struct.unpack("<QQQI", file.read(28))
        position = sector
        for _ in range(count):
            file.seek(position)
            target, sectors, flags, length = struct.unpack("<QQQQ", file.read(32))
            position += sector
            text = int(file.read(length)) if flags & MARK else None
            size = 0 if flags & (DISCARD | MARK) else sectors * sector
            writes.append(Write(flags, target * sector, position, size, text))
            position += size
    return writes


@dataclass
class Disk:
    """A disk in the states that a loss of power may leave, at later and later entries of the log."""

    log: Path
    image: Path
    writes: Sequence[Write] = ()
    flushed: int = 0
    """The number of entries that are on the disk."""

    def __post_init__(self) -> None:
        self.writes = entries(self.log)
        self.image.touch()
        os.truncate(self.image, 400 << 20)

    def lose_power(self, cut: int, steps: Sequence[object], rng: random.Random, image: Path) -> int:
        """Write the disk as it may be after so many entries; returns how many commands had ended.

        Not while the source was changed, but after it.
        """
        done = self._marks(cut)[-1]
        if done < len(steps) and steps[done] == CHANGE:
            done += 1
            cut = max(cut, 1 + next(at for at, write in enumerate(self.writes) if write.mark == done))
        last = max(number for number, write in enumerate(self.writes[:cut]) if write.flags & FLUSH) + 1
        self._apply(self.image, self.writes[self.flushed : last])
        self.flushed = max(last, self.flushed)
        subprocess.run(["cp", "--sparse=always", self.image, image], check=True)
        share = rng.choice([0, 0.5, 1])
        rest = [write for write in self.writes[last:cut] if write.flags & FUA or rng.random() < share]
        self._apply(image, rest)
        return done

    def _marks(self, cut: int) -> list[int]:
        return [write.mark for write in self.writes[:cut] if write.mark is not None]

    def _apply(self, image: Path, writes: Sequence[Write]) -> None:
        with self.log.open("rb") as log, image.open("r+b") as file:
            for write in writes:
                log.seek(write.source)
                file.seek(write.target)
                file.write(log.read(write.size))


# After the loss of power


@dataclass
class Survivor:
    """What a loss of power has left, and what is wrong with it."""

    home: Path
    scenario: str
    fsync: bool
    done: int
    """How many commands had ended."""
    wanted: Sequence[dict[str, object]]
    """Values of the source as it was, and after its change."""
    original: dict[str, bytes]
    """Files of the source as it was."""
    chunks: int
    """Of a whole migration."""
    wrong: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.source, self.out = self.home / "source.zarr", self.home / "out.zarr"
        self.in_place = self.scenario == "in place"
        self.result = self.source if self.in_place else self.out
        self.job = Path(f"{self.result}.zarrlift.db")

    def check(self) -> None:
        """Continue, and compare."""
        if self.fsync:
            self._published()
        try:
            self._continue()
        except JobError as error:
            is_there = self.job.exists()
            if (is_there and "job file" not in str(error)) or (self.fsync and (is_there or self.done)):
                raise
            self.notes.append("job file damaged" if is_there else "no job file")
            self._begin_again()

    def require(self, holds: object, text: str) -> None:
        if not holds:
            self.wrong.append(text)

    def _published(self) -> None:
        """What is published, or was when a command ended, is right before anything is repaired."""
        if self.in_place or self.scenario == "update" and self.done:
            return
        for name, wanted in self.wanted[0].items():
            if (self.out / name / "zarr.json").exists():
                array = zarr.open_array(self.out / name, mode="r", zarr_format=3)
                self.require(array[...].tolist() == wanted, f"{name} is published and wrong")
            else:
                self.require(not self.done, f"{name} is lost")

    def _continue(self) -> None:
        if self.in_place:
            return self._finish_and_undo()
        with Job.open(self.job, write=False) as job:
            recorded = sum(totals.chunks for totals in job.totals().values())
        outcome = (zarrlift.update if self.done > 1 else zarrlift.resume)(self.out, take_over=True)
        self.notes.append(outcome.state)
        self.require(outcome.ok, str(outcome.problems))
        if self.fsync and not self.done:
            self.require(
                outcome.chunks + recorded <= self.chunks, f"{recorded} recorded, {outcome.chunks} again"
            )
        return self._compare_copy()

    def _finish_and_undo(self) -> None:
        status = zarrlift.status(self.job)
        self.notes.append("undoing" if status.undoing else status.state)
        if not status.undoing and status.state != "undone":
            with suppress(JobError):  # which is refused, or right
                zarrlift.finish(self.source, take_over=True)
            if zarrlift.status(self.job).state != "finished":
                zarrlift.resume(self.source, take_over=True)
                self.require(zarrlift.verify(self.source, full=True).ok, "verify --full reports differences")
                zarrlift.finish(self.source, take_over=True)
            self._compare(self.source, 3)
        zarrlift.undo(self.source, take_over=True)
        self._compare(self.source, 2)
        self.require(tree(self.source) == self.original, "other files than before")

    def _begin_again(self) -> None:
        """As the docs say of a job file that is damaged."""
        if self.in_place:
            lost = self.original.keys() - tree(self.source).keys()
            self.require(not lost, f"removed, and not in a job file: {lost}")
            return self._compare(self.source, 2)
        self.job.unlink(missing_ok=True)
        zarrlift.migrate(self.source, self.out, overwrite=True, take_over=True)
        return self._compare_copy()

    def _compare_copy(self) -> None:
        self._compare(self.out, 3)
        self.require(
            zarrlift.verify(self.source, self.out, full=True).ok, "verify --full reports differences"
        )
        left = [path.name for path in self.out.glob(".zarrlift*")]
        self.require(not left, f"left: {left}")

    def _compare(self, path: Path, version: int) -> None:
        """Compare with the source, as zarr-python reads both."""
        wanted, read = self.wanted[self.done > 1 and not self.in_place], values(path, version)
        differing = [name for name in wanted if read.get(name) != wanted[name]]
        self.require(not differing, f"wrong or missing: {differing}")


# Rows


def rows(kind: str, scenario: str, *, fsync: bool, points: int, seed: int) -> int | None:
    """Lose power at points of one scenario; the number of wrong ones, or None if this is impossible here."""
    rng = random.Random(f"{seed} {kind} {scenario} {fsync}")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as text:
        folder = Path(text)
        words = [sys.executable, __file__, "--record", scenario, *["--fsync"] * fsync]
        environment = {**os.environ, "LOG": str(folder / "log")}
        recorded = subprocess.run(
            [ON, f"{kind}-logged", *words], env=environment, stdout=subprocess.PIPE, text=True, check=False
        )
        if recorded.returncode == IMPOSSIBLE:
            return None
        assert recorded.returncode == 0, f"recording ended with {recorded.returncode}: {recorded.stdout}"
        mounted = Path(recorded.stdout.splitlines()[-1])
        disk = Disk(folder / "log", folder / "image")
        first = next(number for number, write in enumerate(disk.writes) if write.mark == 0) + 1
        wanted, original, chunks = calm(folder / "calm")
        counts = Counter[str]()
        for cut in sorted(rng.choices(range(first, len(disk.writes) + 1), k=points)):
            done = disk.lose_power(cut, SCENARIOS[scenario], rng, folder / "lost")
            with mount(folder / "lost", mounted):
                survivor = Survivor(mounted, scenario, fsync, done, wanted, original, chunks)
                try:
                    survivor.check()
                except (ZarrstackError, OSError, ValueError, KeyError) as error:
                    survivor.wrong.append(f"{type(error).__name__}: {error}")
            counts.update(survivor.notes)
            counts["wrong"] += bool(survivor.wrong)
            if survivor.wrong:
                print(f"entry {cut}, after {done} commands: {survivor.wrong}", flush=True)
    said = ", ".join(f"{number} {name}" for name, number in sorted(counts.items()))
    print(
        f"| {kind} | {scenario}{' --fsync' * fsync} | {points} of {len(disk.writes) - first} | {said} |",
        flush=True,
    )
    return counts["wrong"]


@contextmanager
def mount(image: Path, place: Path) -> Iterator[None]:
    """Mount a disk where it was within user-mode Linux: a job knows its places."""
    place.mkdir(parents=True)
    subprocess.run(["mount", "-o", "loop", image, place], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", place], check=True)
        place.rmdir()
        place.parent.rmdir()


def calm(home: Path) -> tuple[list[dict[str, object]], dict[str, bytes], int]:
    """Values and files of the source, and the number of its chunks."""
    home.mkdir()
    place = Place(home)
    place.archive()
    original, before = tree(place.source), values(place.source, 2)
    chunks = zarrlift.migrate(place.source, home / "out.zarr").chunks
    change_source(place)
    return [before, values(place.source, 2)], original, chunks


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(FILE_SYSTEMS)}")
    parser.add_argument("--only", default="", help="scenarios whose name contains this")
    parser.add_argument("--points", type=int, default=20, help="of each scenario")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 32))
    parser.add_argument("--record", metavar="SCENARIO", help="run its commands in $DIR")
    parser.add_argument("--fsync", action=argparse.BooleanOptionalAction, help="only with it, or without it")
    asked = parser.parse_args()
    if asked.record:
        record(asked.record, fsync=bool(asked.fsync))
        return 0
    warnings.simplefilter("ignore")
    logging.disable()
    print(
        f"seed {asked.seed}\n| file system | scenario | points | then |\n| --- | --- | --- | --- |",
        flush=True,
    )
    wrong = [
        rows(kind, scenario, fsync=fsync, points=asked.points, seed=asked.seed)
        for kind in asked.names or FILE_SYSTEMS
        for scenario in SCENARIOS
        if asked.only in scenario
        for fsync in ((True, False) if asked.fsync is None else (asked.fsync,))
    ]
    return int(any(wrong))


if __name__ == "__main__":
    sys.exit(main())
