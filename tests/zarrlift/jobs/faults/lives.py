"""Let jobs live at random, and say what came of it.

    python tests/zarrlift/jobs/faults/lives.py --lives 300 --kills 1000 [--seed N] [--only TEXT]
    python tests/zarrlift/jobs/faults/lives.py --replay "N 17" [--shrink]
    python tests/zarrlift/jobs/faults/lives.py --life "copy; 0 migrate ~1; 0 grow ~2; 0 update ~3 @change 40"

A life is a sequence of what users do to a source and to its result, and of commands, each of which may be
killed before one of its system calls, or have some of them fail (`system_calls.c`). Job files, results and
whole folders are copied, moved, and put back as they were; parts of results are removed, or replaced by links
to what is of others. After every command each visible array must have the values of one version
of its source (`judging.py`), and nothing of others may be lost; at the end everything is undone
(`site.py`). The seed is printed, and each failure as the commands that led to it, with the text that
`--life` repeats. With `--shrink`, steps are left out as long as it still fails. The exit code is 1 if
anything was wrong.
"""

from __future__ import annotations

import argparse
import random
import secrets
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[4]))

from tests.zarrlift.jobs.faults.life import Life, Step, drawn, parsed
from tests.zarrlift.jobs.faults.play import Told
from tests.zarrlift.jobs.faults.stage import Stage, folder_in_memory


def drive() -> int:
    """Draw lives and play them; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lives", type=int, default=300, help="at least as many")
    parser.add_argument("--kills", type=int, default=0, help="at least as many")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 32))
    parser.add_argument("--only", default="", help="variants whose name contains this")
    parser.add_argument("--without", default="", help="steps to leave out, such as shrink,damage")
    parser.add_argument("--replay", metavar="SEED", help="one life, by the seed that is printed with it")
    parser.add_argument("--life", help="one life, by its steps")
    parser.add_argument("--shrink", action="store_true", help="leave out steps of lives that fail")
    asked = parser.parse_args()
    with folder_in_memory("zarrlift-lives-") as folder:
        stage = Stage(folder)
        try:
            return _run(stage, asked)
        finally:
            stage.close()


def _run(stage: Stage, asked: argparse.Namespace) -> int:
    """Life after life."""

    def lived(variant: str, steps: Sequence[Step]) -> Told:
        without = asked.without.split(",")
        return Life(stage, variant, [step for step in steps if step.words[0] not in without]).run()

    if asked.life or asked.replay:
        variant, steps = parsed(asked.life) if asked.life else drawn(random.Random(asked.replay), asked.only)
        told = lived(variant, steps)
        if asked.shrink and told.wrong:
            told = shrunk(variant, steps, told, lived)
        print(told)
        return 1 if told.wrong else 0
    print(f"seed {asked.seed}", flush=True)
    started = time.monotonic()
    counts = Counter[str]()
    while counts["lives"] < asked.lives or counts["kills"] < asked.kills:
        seed = f"{asked.seed} {counts['lives']}"
        variant, steps = drawn(random.Random(seed), asked.only)
        told = lived(variant, steps)
        counts["lives"] += 1
        counts += told.counts
        if told.wrong:
            counts["wrong"] += 1
            if asked.shrink:
                told = shrunk(variant, steps, told, lived)
            print(f"--replay {seed!r}, {told}", flush=True)
        if counts["lives"] % 50 == 0:
            print(f"... {counts['lives']} lives, {counts['kills']} kills", flush=True)
    print(f"seed {asked.seed}: {time.monotonic() - started:.0f} s:", end=" ")
    print(", ".join(f"{number} {name}" for name, number in sorted(counts.items())))
    return 1 if counts["wrong"] else 0


def shrunk(
    variant: str, steps: Sequence[Step], told: Told, lived: Callable[[str, Sequence[Step]], Told]
) -> Told:
    """A shorter life that fails too, and what it showed."""
    steps = list(steps)
    at = len(steps) - 1
    while at >= 0:
        fewer = [*steps[:at], *steps[at + 1 :]]
        if (again := lived(variant, fewer)).wrong and _kind(again) == _kind(told):
            steps, told = fewer, again
        at -= 1
    return told


def _kind(told: Told) -> str:
    """The first words of what was wrong, without names and numbers."""
    words = [word for word in told.wrong[0].replace(",", " ").split() if word.isalpha()]
    return " ".join(words[:2])


if __name__ == "__main__":
    sys.exit(drive())
