"""Apply ordering faults one at a time, and tell what finds each.

    python tests/zarrlift/jobs/faults/seeded.py [--only NAME] [--seed N] [--kills 40] [--lives 20]
    python tests/zarrlift/jobs/faults/seeded.py --tests tests/zarrlift/jobs

Faults are those of `seeded_faults.py`. Each is applied in a copy of the tree, in which the tests that are
named with it run (or those of `--tests`), slow ones too, and each driver for a number of runs. A table says
which tests fail, and in how many runs a driver finds something. The exit code is 1 if a fault is found by
nothing, and 2 if one no longer applies, or if something is found without a fault.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[4]))

from tests.zarrlift.jobs.faults.seeded_faults import FAULTS, Fault
from tests.zarrlift.jobs.faults.stage import folder_in_memory

ROOT = Path(__file__).parents[4]
_HERE = "tests/zarrlift/jobs/faults"
_COPIED = (
    "migrate",
    "transformers",
    "tests",
    "benchmarks",
    "fixtures",
    "docs",
    "pyproject.toml",
    "README.md",
    "CHANGELOG.md",
)
_PATIENCE = 1800.0
AT_ONCE = 1, 0
"""What a driver has found that cannot make its undisturbed run."""
NONE = Fault(name="none", breaks="nothing: what is found here has another cause", edits=(), tests=())


@dataclass(frozen=True, slots=True)
class Found:
    """What found a fault."""

    fault: Fault
    quick: list[str]
    slow: list[str]
    runs: dict[str, tuple[int, int]]
    """By driver: runs that found it, and all; of none, if it cannot even begin (`AT_ONCE`)."""

    @property
    def by_any(self) -> bool:
        return bool(self.quick or self.slow or any(wrong for wrong, _ in self.runs.values()))

    def row(self) -> str:
        """A row of the table that is printed, in Markdown."""
        runs = (
            "at once" if each == AT_ONCE else f"{each[0]} of {each[1]}" if each[1] else ""
            for each in self.runs.values()
        )
        return f"| {self.fault.name} | {len(self.quick)} | {len(self.slow)} | {' | '.join(runs)} |"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="faults whose name contains this")
    parser.add_argument("--tests", nargs="*", help="instead of those that are named with a fault")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--lives", type=int, default=20)
    parser.add_argument("--games", type=int, default=12)
    asked = parser.parse_args()
    chosen = [fault for fault in FAULTS if asked.only in fault.name]
    try:
        patched = [(fault, applied(fault)) for fault in chosen]
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    counts = {"kills": asked.kills, "lives": asked.lives, "games": asked.games}
    print("| fault | quick tests | slow tests | kills.py | lives.py | lives.py --games |")
    print("| --- | --- | --- | --- | --- | --- |", flush=True)
    undetected = 0
    for fault, files in [(NONE, {}), *patched]:
        with folder_in_memory("zarrlift-seeded-") as folder, copied(folder, files) as tree:
            quick, slow = failing_tests(
                tree, fault.tests if asked.tests is None or fault is NONE else asked.tests
            )
            runs = {name: driven(tree, name, asked.seed, count, fault.only) for name, count in counts.items()}
        found = Found(fault, quick, slow, runs)
        print(found.row(), flush=True)
        if fault is NONE and found.by_any:
            print(
                "Something is found without a fault: take another --seed, and look into it.", file=sys.stderr
            )
            return 2
        undetected += not found.by_any and fault is not NONE
        for kind, names in (("quick", quick), ("slow", slow)):
            for name in names:
                print(f"    {kind} {name}", file=sys.stderr, flush=True)
    print(f"{len(chosen) - undetected} of {len(chosen)} found")
    return 1 if undetected else 0


def applied(fault: Fault) -> dict[str, str]:
    """The changed files of a fault; ValueError if it no longer applies."""
    files: dict[str, str] = {}
    for edit in fault.edits:
        files[edit.file] = edit.applied(ROOT, files.get(edit.file))
    return files


@contextmanager
def copied(folder: Path, files: dict[str, str]) -> Iterator[Path]:
    """A copy of the tree with other files in it."""
    tree = folder / "tree"
    tree.mkdir()
    for name in _COPIED:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__", ".unpacked", "node_modules")
            shutil.copytree(ROOT / name, tree / name, ignore=ignored, symlinks=True)
        else:
            shutil.copy(ROOT / name, tree / name)
    for name, source in files.items():
        (tree / name).write_text(source)
    yield tree


def run(tree: Path, *words: str) -> str:
    """The output of a command in a copy, which imports our packages from it."""
    path = os.pathsep.join(str(tree / name) for name in ("migrate", "transformers", "."))
    ended = subprocess.run(
        [sys.executable, *words],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_PATIENCE,
        check=False,
    )
    return ended.stdout


def failing_tests(tree: Path, names: list[str] | tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Tests that fail in a copy: quick ones, and slow ones."""
    if not names:
        return [], []
    options = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=no", "-rfE")
    both = []
    for more in ((), ("--rest",)):
        told = run(tree, *options, *more, *names)
        if not re.search(r"\d+ (passed|failed|deselected)", told):
            raise RuntimeError(f"the tests do not run:\n{told[-3000:]}")
        both.append(sorted(set(re.findall(r"^(?:FAILED|ERROR) (\S+?::.*?)(?: - .*)?$", told, re.MULTILINE))))
    return both[0], both[1]


def driven(tree: Path, driver: str, seed: int, count: int, only: str) -> tuple[int, int]:
    """Runs of a driver that found something, and all."""
    if not count:
        return 0, 0
    options = {
        "kills": ("kills.py", "--runs", str(count), "--only", only),
        "lives": ("lives.py", "--lives", str(count)),
        "games": ("lives.py", "--games", "--lives", str(count)),
    }
    program, *words = options[driver]
    told = run(tree, f"{_HERE}/{program}", "--seed", str(seed), *words)
    last = told.strip().rpartition("\n")[2]
    total = re.search(r"(\d+) (?:runs|lives)\b", last)
    if total is None:
        if "\nAssertionError: zarrlift " in told:  # a command fails that nothing disturbs
            return AT_ONCE
        raise RuntimeError(f"{program} does not run:\n{told[-3000:]}")
    wrong = re.search(r"(\d+) wrong", last)
    return int(wrong[1]) if wrong else 0, int(total[1])


if __name__ == "__main__":
    sys.exit(main())
