"""Ask the questions of docs/reference/filesystems.md of file systems: one row of its table for each.

    python tests/environments/filesystems/ask.py                  every file system that `on` can make
    python tests/environments/filesystems/ask.py exfat nfs4 --kills 50
    tests/environments/filesystems/on exfat python tests/environments/filesystems/ask.py --here exfat

A question is a few commands. Their files must have the same bytes as in an ordinary folder, or the first command
must be refused and must have written nothing. The exit code is 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT))
for name in ("migrate", "transformers"):
    sys.path.insert(0, str(ROOT / name))

import numpy as np
import zarr
from tests.support.job_archives import write_archive
from tests.zarrlift.jobs.faults.judging import Tree, tree, wrong_bytes

from zarrlift.jobs.ledger.ledger import Job
from zarrlift.storage.local.partial_files import create_file

ON = Path(__file__).with_name("on")
MANY_KILLS = {"exfat", "nfs3", "nfs4", "smb-nobrl", "sshfs"}
UNFIT = {"read-only", "full", "quota"}
"""File systems that cannot be written or have no room: only the questions about that are asked."""
NO_JOBS = {"smb"}
"""File systems that hold no job file, which is refused."""
NEED_JOBS = {"two jobs", "batch", "cache"}
"""Questions that this refusal does not answer."""
NO_KILLS = {"noexec", *NO_JOBS}
"""File systems from which the library that kills cannot be loaded, or without a job that could be killed."""
IMPOSSIBLE = 77
ROUNDS, RACERS = 25, 4


class RefusedError(Exception):
    """A command ended with a message."""


@dataclass
class Place:
    """A folder in which commands are run with relative paths."""

    home: Path
    notes: list[str] = field(default_factory=list)

    def start(self, *words: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "zarrlift", *words]
        paths = os.pathsep.join([str(ROOT / "migrate"), str(ROOT / "transformers")])
        environment = {**os.environ, "PYTHONPATH": paths, "COLUMNS": "1000", "OPENBLAS_NUM_THREADS": "1"}
        return subprocess.Popen(
            command, cwd=self.home, env=environment, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip

    def run(self, *words: str) -> None:
        ended = self.start(*words)
        _, text = ended.communicate()
        if ended.returncode:
            assert "Traceback" not in text and text.strip(), text
            raise RefusedError(text.strip())

    @property
    def source(self) -> Path:
        return self.home / "source.zarr"

    def archive(self) -> None:
        write_archive(self.source)


MIGRATE = ("migrate", "source.zarr", "out.zarr")
IN_PLACE = ("migrate", "source.zarr", "--in-place")
HARD = (*MIGRATE, "--link", "hard", "--codecs", "keep")


def commands(*each: Sequence[str]) -> Callable[[Place, bool], None]:
    """A question that consists of commands alone."""

    def ask(place: Place, there: bool) -> None:
        place.archive()
        for words in each:
            place.run(*words)

    return ask


def update(place: Place, there: bool) -> None:
    place.archive()
    place.run(*MIGRATE)
    change_source(place)
    place.run("update", "out.zarr")


def change_source(place: Place) -> None:
    """Write to the source, and delete a chunk."""
    group = zarr.open_group(place.source, mode="r+", use_consolidated=False)
    group["h/rewrite"][:5, :5] = 7  # chunks of the same size
    group["g/relink"][...] = 3
    (place.source / "g/recode/3").unlink()


def two_jobs(place: Place, there: bool) -> None:
    """Two commands at once: one has the destination, the other one is refused or finds the job done."""
    place.archive()
    if not there:
        return place.run(*MIGRATE)
    started = [place.start(*MIGRATE) for _ in range(2)]
    texts = [ended.communicate()[1] for ended in started]
    codes = [ended.returncode for ended in started]
    assert 0 in codes and "Traceback" not in "".join(texts), texts
    for code, text in zip(codes, texts, strict=True):
        assert code in {0, 1, 2} and (code == 0 or "destination" in text or "another process" in text), text
    return None


def claims(place: Place, there: bool) -> None:
    """Of processes that create one file, one succeeds, and its content is there."""
    context = get_context("fork")
    for number in range(ROUNDS if there else 0):
        path = str(place.home / f"claim-{number}")
        barrier = context.Barrier(RACERS)
        with context.Pool(RACERS, initializer=partial(setattr, Place, "barrier", barrier)) as pool:
            winners = [who for who in pool.map(partial(claim, path), range(RACERS), 1) if who is not None]
        assert len(winners) == 1, winners
        assert Path(path).read_bytes() == str(winners[0]).encode()
        Path(path).unlink()


def claim(path: str, who: int) -> int | None:
    """Create the file when everyone is ready."""
    Place.barrier.wait()  # type: ignore[attr-defined]
    return who if create_file(path, str(who).encode()) else None


def job_there(place: Place, there: bool) -> None:
    """The job file alone is there; while one process has it, others neither write nor are in the way."""
    with tempfile.TemporaryDirectory() as other:
        write_archive(Path(other, "source.zarr"))
        job, out = str(place.home / "job.db"), f"{other}/out.zarr"
        place.run("migrate", f"{other}/source.zarr", out, "--job", job)
        (place.home / "out.zarr").write_text(str(sorted(tree(Path(out)).items())))
        with Job.open(Path(job)) as held:
            held.note(verified=None)
            try:
                place.run("undo", "--yes", job)
            except RefusedError as error:
                assert "another process is running this job" in str(error), error
            else:
                raise AssertionError("two processes write one job file")
            place.run("status", job)
        place.run("undo", "--yes", job)


def job_elsewhere(place: Place, there: bool) -> None:
    """The job file alone is elsewhere."""
    place.archive()
    with tempfile.TemporaryDirectory() as other:
        place.run(*MIGRATE, "--job", f"{other}/job.db")
        place.run("verify", f"{other}/job.db")


def batch(place: Place, there: bool) -> None:
    """A list of six archives and three processes."""
    for number in range(6):
        write_archive(place.home / f"old/{number}.zarr")
    words = ("batch", "run", "old", "--to", "new/{name}.zarr")
    started = [place.start(*words) for _ in range(3 if there else 1)]
    texts = [ended.communicate()[1] for ended in started]
    if any(ended.returncode for ended in started):
        raise RefusedError("\n".join(texts).strip())


CACHE = """
import sys, numpy, zarr
from zarr.storage import LocalStore
from zarrstack import Cache, stack
cache = Cache(disk="cache", disk_bytes=1_000_000, memory_bytes=0)
values = zarr.open_array(stack(LocalStore("numbers.zarr"), cache), mode="r")[:]
assert (values == numpy.arange(400)).all()
print(cache.figures().hits, cache.figures())
"""


def cache(place: Place, there: bool) -> None:
    """Three processes share the folder at once, and a fourth one finds values in it."""
    array = zarr.create_array(place.home / "numbers.zarr", shape=(400,), chunks=(10,), dtype="i4")
    array[:] = np.arange(400)
    run = partial(
        subprocess.Popen, [sys.executable, "-c", CACHE], cwd=place.home, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT / "transformers")},
    )  # fmt: skip
    ended = []
    for number in (3, 1):
        together = [run() for _ in range(number)]
        ended += [(each.communicate(), each.returncode) for each in together]
    texts = [error for (_, error), code in ended if code]
    if texts and "UsageError" in texts[0]:
        shutil.rmtree(place.home / "cache", ignore_errors=True)
        raise RefusedError(texts[0].strip().splitlines()[-1])
    assert not texts, texts[0]
    hits, _, figures = ended[-1][0][0].partition(" ")
    assert int(hits) > 0, f"the cache was not used: {figures}"
    shutil.rmtree(place.home / "cache")


AWKWARD = ("twin", "TWIN", "a:b", "caf\u00e9", "cafe\u0301", "con", "end.", "x" * 200)


def names(place: Place, there: bool) -> None:
    """Names that some file systems do not hold, from a folder that does."""
    with tempfile.TemporaryDirectory() as other:
        root = zarr.open_group(f"{other}/source.zarr", mode="w", zarr_format=2)
        for number, name in enumerate(AWKWARD):
            root.create_array(name, shape=(2,), chunks=(1,), dtype="i2")[:] = number + 1
        place.run("migrate", f"{other}/source.zarr", "out.zarr")


QUESTIONS: dict[str, Callable[[Place, bool], None]] = {
    "migrate": commands(MIGRATE, ("verify", "source.zarr", "out.zarr", "--full")),
    "update": update,
    "in place": commands(IN_PLACE, ("verify", "source.zarr")),
    "finish": commands(IN_PLACE, ("verify", "source.zarr"), ("finish", "--yes", "source.zarr")),
    "undo": commands(MIGRATE, ("undo", "--yes", "out.zarr")),
    "undo in place": commands(IN_PLACE, ("undo", "--yes", "source.zarr")),
    "two jobs": two_jobs,
    "claims": claims,
    "hard links": commands(HARD),
    "job file": job_there,
    "job elsewhere": job_elsewhere,
    "batch": batch,
    "cache": cache,
    "names": names,
}


def answer(question: str, folder: Path) -> str:
    """What came of one question: "same", "refused: why" or "WRONG: what"."""
    ask = QUESTIONS[question]
    with home(None) as ordinary, home(folder) as there:
        ask(Place(ordinary), False)
        place = Place(there)
        try:
            ask(place, True)
        except RefusedError as refusal:
            left = [name for name in tree(there) if not name.startswith(("source.zarr", "old", "numbers"))]
            return f"WRONG: refused, and left {left[:4]}: {refusal}" if left else f"refused: {refusal}"
        except (AssertionError, OSError) as error:
            return f"WRONG: {error!r}"
        wrong = differences(tree(there), tree(ordinary))
    return f"WRONG: {wrong}" if wrong else "same"


def differences(now: Tree, wanted: Tree) -> list[str]:
    more = [f"too much: {name}" for name in now if name not in wanted]
    return more + wrong_bytes(now, wanted)


@contextmanager
def home(folder: Path | None) -> Iterator[Path]:
    """A new folder, removed afterwards."""
    path = Path(tempfile.mkdtemp(prefix="ask-", dir=folder))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


# File systems that cannot be written, or have no room


def unfit(name: str, folder: Path) -> dict[str, str]:
    """What is said where nothing can be written, or where there is no room for all of it."""
    answers = {}
    with home(None) as ordinary:
        other = Place(ordinary)
        other.archive()
        other.run(*MIGRATE)
        wanted = tree(ordinary / "out.zarr")
        if name == "read-only":
            write_archive(folder / "source.zarr")
            subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
            other.run("migrate", str(folder / "source.zarr"), "from.zarr")
            answers["migrate from it"] = "same" if tree(ordinary / "from.zarr") == wanted else "WRONG"
            answers["migrate"] = refused(other, "migrate", "source.zarr", str(folder / "out.zarr"))
            answers["in place"] = refused(other, "migrate", str(folder / "source.zarr"), "--in-place")
            return answers
        filler = folder / "filler"
        with suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        os.truncate(filler, max(filler.stat().st_size - 65536, 0))
        out = str(folder / "out.zarr")
        answers["migrate"] = refused(other, "migrate", "source.zarr", out)
        filler.unlink()
        begun = Path(f"{out}.zarrlift.db").exists()
        other.run(*(("resume", out) if begun else ("migrate", "source.zarr", out)))
        answers["resume with room"] = "same" if tree(folder / "out.zarr") == wanted else "WRONG"
    return answers


def refused(place: Place, *words: str) -> str:
    try:
        place.run(*words)
    except RefusedError as error:
        return f"refused: {error}"
    return "WRONG: not refused"


# Rows


def kills(folder: Path, number: int) -> str:
    """The outcome of kills at random moments."""
    script = ROOT / "tests/zarrlift/jobs/faults/kills.py"
    words = [sys.executable, str(script), "--runs", str(number), "--directory", str(folder)]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    summary = ended.stdout.strip().splitlines()[-1:]
    text = textwrap.shorten(ended.stdout + ended.stderr[-3000:], 4000)
    count = summary[0].rpartition(", ")[2].partition(" ")[0] if summary and " kills" in summary[0] else ""
    return f"WRONG: {text}" if ended.returncode else f"{count or number} kills, 0 wrong"


def here(name: str, number: int) -> bool:
    """Ask everything of the folder in $DIR; whether nothing is wrong."""
    folder = Path(os.environ["DIR"])
    if name in UNFIT:
        answers = unfit(name, folder)
    else:
        answers = {}
        for question in QUESTIONS:
            if name in NO_JOBS and question in NEED_JOBS:
                continue
            answers[question] = answer(question, folder)
            print(f"| {name} | {question} | {' '.join(answers[question].split())} |", flush=True)
        if number:
            answers["kills"] = kills(folder, number)
    for question in answers if name in UNFIT else ["kills"] * bool(number):
        print(f"| {name} | {question} | {' '.join(answers[question].split())} |", flush=True)
    return not any(text.startswith("WRONG") for text in answers.values())


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--kills", type=int, help="of each; 50 or 10 if not given")
    parser.add_argument("--here", metavar="NAME", help="ask of the folder in $DIR")
    asked = parser.parse_args()
    number = asked.kills
    if asked.here:
        return not here(asked.here, 10 if number is None else number)
    names = asked.names or subprocess.run([ON], capture_output=True, text=True, check=True).stdout.split()
    codes = []
    print("| file system | question | answer |\n| --- | --- | --- |", flush=True)
    for name in names:
        many = 50 if name in MANY_KILLS else 0 if name in NO_KILLS else 10
        words = ["--here", name, "--kills", str(many if number is None else number)]
        codes.append(subprocess.call([ON, name, sys.executable, __file__, *words]))
        if codes[-1] == IMPOSSIBLE:
            print(f"| {name} | all | not on this machine |", flush=True)
    return int(any(code not in {0, IMPOSSIBLE} for code in codes))


if __name__ == "__main__":
    sys.exit(main())
