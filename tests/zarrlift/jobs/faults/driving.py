"""The command line of drivers that draw lives at random, play them, and shrink those that fail."""

from __future__ import annotations

import argparse
import random
import secrets
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeAlias

from tests.zarrlift.jobs.faults.life_steps import Step, parsed
from tests.zarrlift.jobs.faults.play import Told
from tests.zarrlift.jobs.faults.stage import Stage, folder_in_memory

Drawn: TypeAlias = Callable[[random.Random, str], tuple[str, list[Step]]]
Played: TypeAlias = Callable[[Stage, str, list[Step]], Told]


def drive(description: str | None, *, lives: int, drawn: Drawn, played: Played) -> int:
    """Draw lives and play them; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lives", type=int, default=lives, help="at least as many")
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
            return _run(stage, asked, drawn, played)
        finally:
            stage.close()


def _run(stage: Stage, asked: argparse.Namespace, drawn: Drawn, played: Played) -> int:
    """Life after life."""

    def lived(variant: str, steps: Sequence[Step]) -> Told:
        without = asked.without.split(",")
        return played(stage, variant, [step for step in steps if step.words[0] not in without])

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
