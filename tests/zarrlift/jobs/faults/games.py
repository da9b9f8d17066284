"""Play with batches and with jobs in parts at random, and say what came of it.

    python tests/zarrlift/jobs/faults/games.py --lives 100 --kills 300 [--seed N] [--only TEXT]
    python tests/zarrlift/jobs/faults/games.py --replay "N 17" [--shrink]
    python tests/zarrlift/jobs/faults/games.py --life "batch; 0 run ~1; 0 grow ~2; 0 update ~3 @change 40"

As `lives.py` does with one job: `batch run`, `resume`, `status`, `update`, `verify`, `finish`, `undo` over
archives that people go on writing to, and `migrate --parts`, `migrate --part`, `gather` of one archive.
Folders are copied, in which a command acts on the copy or is refused.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[4]))

from tests.zarrlift.jobs.faults.batch_game import BATCHES, BatchGame, drawn_batch
from tests.zarrlift.jobs.faults.driving import drive
from tests.zarrlift.jobs.faults.life import Life
from tests.zarrlift.jobs.faults.life_steps import PARTS, Step, drawn_parts
from tests.zarrlift.jobs.faults.play import Told
from tests.zarrlift.jobs.faults.stage import Stage


def drawn(rng: random.Random, only: str) -> tuple[str, list[Step]]:
    """A game of a batch, or of a job in parts."""
    kinds = [drawn_batch] * any(only in name for name in BATCHES)
    kinds += [drawn_parts] * any(only in name for name in PARTS)
    return rng.choice(kinds)(rng, only)


def played(stage: Stage, variant: str, steps: list[Step]) -> Told:
    """Play a game."""
    return (BatchGame if variant in BATCHES else Life)(stage, variant, steps).run()


if __name__ == "__main__":
    sys.exit(drive(__doc__, lives=100, drawn=drawn, played=played))
