"""Let several processes run one list, kill and start them again, and compare the results with a calm run.

    python tests/zarrlift/jobs/batch/claims.py [--games 100] [--archives 30] [--processes 3] [--kills 6]
    python tests/zarrlift/jobs/batch/claims.py --processes 1 --games 1 --archives 1000 --kills 20

Each process is an element of a job array. In every other game each runs in a namespace of processes of its
own (`unshare`, which needs root), so that it cannot see whether the others live, as on several machines: an
element that is killed is started again, and knows its own claims by the number of its attempt alone. One
process alone makes the list, too. The exit code is 1 if a result differs from that of a calm run, if an
archive is not done, or if a claim or half a file is left.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[4]))

from tests.support.job_archives import results, write_many

ZARRLIFT = (sys.executable, "-m", "zarrlift")
APART = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
RUN = ("batch", "run", "old", "--to", "played/{relative}.zarr")
LEFT = ("*.claim*", "*.partial")
QUIET = subprocess.DEVNULL


class Element:
    """A process of a job array, which is started again when it was killed."""

    def __init__(self, number: int, words: tuple[str, ...], *, is_apart: bool) -> None:
        self.number = number
        self.words = (*(APART if is_apart else ()), *ZARRLIFT, *words)
        self.attempt = 0
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ,
            "SLURM_JOB_ID": str(1000 + self.number),
            "SLURM_RESTART_COUNT": str(self.attempt),
        }
        return subprocess.Popen(
            self.words, stdout=QUIET, stderr=QUIET, env=environment, start_new_session=True
        )

    def requeue(self) -> None:
        """Kill it, and start it again."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.attempt += 1
        self.process = self._start()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--games", type=int, default=100)
    parser.add_argument("--archives", type=int, default=30)
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 32))
    asked = parser.parse_args()
    print(f"seed {asked.seed}", flush=True)
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(
        prefix="zarrlift-claims-", dir=memory if memory.is_dir() else None
    ) as home:
        os.chdir(home)
        write_many(Path("old"), asked.archives, max(asked.archives // 10, 1))
        _call("batch", "run", "old", "--to", "calm/{relative}.zarr")
        calm, counts = results(Path("calm")), _counts("calm")
        can_part = subprocess.run((*APART, "true"), check=False, stderr=QUIET).returncode == 0
        wrong = kills = 0
        for game in range(asked.games):
            rng = random.Random(f"{asked.seed} {game}")
            is_apart = can_part and game % 2 == 1
            if asked.processes > 1:
                _call("batch", "list", *RUN[2:], "-o", "played.zarrlift.jsonl")
            kills += _play(rng, asked.processes, asked.kills, is_apart=is_apart)
            told = []
            if (found := _counts("played")) != counts:
                told.append(f"{found}, expected {counts}")
            if results(Path("played")) != calm:
                told.append("other results")
            if left := [str(path) for end in LEFT for path in Path("played").rglob(end)]:
                told.append(f"claims or half a file are left: {left}")
            if told:
                wrong += 1
                print(f"game {game}{' apart' if is_apart else ''}: {'; '.join(told)}", flush=True)
            shutil.rmtree("played", ignore_errors=True)
            for path in Path().glob("played.zarrlift.*"):
                path.unlink()
        print(f"{asked.games} games, {kills} kills, {wrong} wrong")
        return 1 if wrong else 0


def _play(rng: random.Random, processes: int, most: int, *, is_apart: bool) -> int:
    """One game; returns the number of kills."""
    words = RUN if processes == 1 else ("batch", "run", "played.zarrlift.jsonl", "--workers", "1", "--quiet")
    elements = [Element(number, words, is_apart=is_apart) for number in range(processes)]
    kills = 0
    while any(element.process.poll() is None for element in elements):
        time.sleep(rng.uniform(0.05, 0.6))
        running = [element for element in elements if element.process.poll() is None]
        if running and kills < most:
            rng.choice(running).requeue()
            kills += 1
    return kills


def _call(*words: str) -> None:
    subprocess.run((*ZARRLIFT, *words), stdout=QUIET, stderr=QUIET, check=False)


def _counts(name: str) -> dict[str, int]:
    said = subprocess.run(
        (*ZARRLIFT, "status", f"{name}.zarrlift.jsonl", "--json"),
        stdout=subprocess.PIPE,
        stderr=QUIET,
        check=False,
    )
    counts: dict[str, int] = json.loads(said.stdout)["result"]["counts"]
    return counts


if __name__ == "__main__":
    sys.exit(main())
