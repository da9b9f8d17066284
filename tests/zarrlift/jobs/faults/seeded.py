"""Apply ordering faults one at a time, and tell which tests find each.

    python tests/zarrlift/jobs/faults/seeded.py [--only NAME] [--tests tests/zarrlift/jobs]

Faults are those of `seeded_faults.py`. Each is applied in a copy of the tree, in which the tests that are
named with it run (or those of `--tests`), slow ones too. The exit code is 1 if no test finds a fault, and 2
if one no longer applies, or if a test fails without a fault.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[4]))

from tests.zarrlift.jobs.faults.seeded_faults import FAULTS, Fault
from tests.zarrlift.jobs.faults.stage import folder_in_memory

ROOT = Path(__file__).parents[4]
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
NONE = Fault(name="none", breaks="nothing: what is found here has another cause", edits=(), tests=())


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="faults whose name contains this")
    parser.add_argument("--tests", nargs="*", help="instead of those that are named with a fault")
    asked = parser.parse_args()
    chosen = [fault for fault in FAULTS if asked.only in fault.name]
    try:
        patched = [(fault, applied(fault)) for fault in chosen]
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    named = sorted({name for fault in chosen for name in fault.tests})
    undetected = 0
    for fault, files in [(NONE, {}), *patched]:
        with folder_in_memory("zarrlift-seeded-") as folder, copied(folder, files) as tree:
            failing = failing_tests(tree, asked.tests or fault.tests or named)
        print(f"{fault.name}: {len(failing)} tests fail", *failing, sep="\n    ", flush=True)
        if fault is NONE and failing:
            return 2
        undetected += not failing and fault is not NONE
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


def failing_tests(tree: Path, names: Sequence[str]) -> list[str]:
    """Tests that fail in a copy."""
    options = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=no", "-rfE", "-m", "")
    told = run(tree, *options, *names)
    if not re.search(r"\d+ (passed|failed)", told):
        raise RuntimeError(f"the tests do not run:\n{told[-3000:]}")
    return sorted(set(re.findall(r"^(?:FAILED|ERROR) (\S+?::.*?)(?: - .*)?$", told, re.MULTILINE)))


if __name__ == "__main__":
    sys.exit(main())
