"""Disturb migrations at moments drawn at random, and say what came of it.

    python tests/zarrlift/jobs/faults/kills.py --runs 500 [--seed N] [--only TEXT]
    python tests/zarrlift/jobs/faults/kills.py --failing --runs 200 [--seed N]
    python tests/zarrlift/jobs/faults/kills.py --only "hard links" --at "change 200" --at "call 31"
    python tests/zarrlift/jobs/faults/kills.py --only S3 --server versitygw --faults 0.05 --runs 50

A run of a scenario (`scenarios.py`) is killed with SIGKILL, process group and all, before one of the calls by
which it touches source, destination or job; with `--failing`, such calls fail instead. With `--faults`, a
share of the answers of the bucket's server goes wrong too (`tests.support.bucket`). The seed is printed, and
each failure with its moments, which `--at` repeats. The exit code is 1 if anything was wrong.
"""

from __future__ import annotations

import argparse
import logging
import random
import secrets
import sys
import tempfile
import time
from collections import Counter
from contextlib import nullcontext
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[4]))

from tests.support.bucket import serving
from tests.support.store_servers import OF_S3, server
from tests.zarrlift.jobs.faults.playground import Playground, Told
from tests.zarrlift.jobs.faults.scenarios import SCENARIOS, Scenario
from tests.zarrlift.jobs.faults.stage import folder_in_memory


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=500, help="kills, or with --failing runs")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 32))
    parser.add_argument("--only", default="", help="scenarios whose id contains this")
    parser.add_argument("--directory", type=Path, help="where the archives are, such as another file system")
    parser.add_argument("--failing", action="store_true", help="calls fail, nothing is killed")
    parser.add_argument("--at", action="append", help="this moment, in place of drawn ones")
    parser.add_argument("--server", choices=OF_S3, help="a server that others wrote, in place of our own")
    parser.add_argument("--faults", type=float, default=0.0, help="share of a server's answers that go wrong")
    asked = parser.parse_args()
    logging.getLogger(
        "aiohttp.server"
    ).disabled = True  # a client that was killed is no error of the server's
    with (
        folder_in_memory("zarrlift-kills-", asked.directory) as folder,
        server(asked.server) if asked.server else nullcontext() as others,
        serving(others) as bucket,
    ):
        place = Playground(folder, bucket, faults=asked.faults)
        try:
            return run(place, asked)
        finally:
            place.close()


def run(place: Playground, asked: argparse.Namespace) -> int:
    """Scenario after scenario, until there were enough kills or runs."""
    # The clock of our own server stands still, which Icechunk does not accept.
    chosen = [
        scenario
        for scenario in SCENARIOS
        if asked.only in scenario.id
        and (asked.server or not scenario.remote >= {"icechunk", "dst"})
        and ("hard" not in scenario.words or has_hard_links(place.folder))
    ]
    print(f"seed {asked.seed}, {len(chosen)} scenarios", flush=True)
    started = time.monotonic()
    count = Counter[str]()
    runs = 0
    while count["failing runs" if asked.failing else "kills"] < asked.runs:
        scenario = chosen[runs % len(chosen)]
        told = once(place, scenario, asked, random.Random(f"{asked.seed} {runs} {scenario.id}"))
        runs += 1
        count["failing runs"] += asked.failing
        count["kills"] += told.kills
        count["failed calls"] += told.failed
        count["failed requests"] += told.met.total()
        count["wrong"] += bool(told.wrong)
        count.update(f"exit {code}" for code in told.codes)
        if told.wrong:
            print(told, flush=True)
        if asked.at:
            break
        if not runs % 100:
            print(f"... {runs} runs, {count['kills']} kills", flush=True)
    print(f"seed {asked.seed}: {runs} runs in {time.monotonic() - started:.0f} s:", end=" ")
    print(", ".join(f"{number} {name}" for name, number in sorted(count.items()) if number))
    return 1 if count["wrong"] else 0


def has_hard_links(folder: Path) -> bool:
    """Whether the file system has them; exFAT does not, where a job is refused that asks for them."""
    with tempfile.TemporaryDirectory(dir=folder) as home:
        file = Path(home, "file")
        file.touch()
        try:
            Path(home, "link").hardlink_to(file)
        except OSError:
            return False
    return True


def once(place: Playground, scenario: Scenario, asked: argparse.Namespace, rng: random.Random) -> Told:
    """One run."""
    if asked.failing:
        return place.failing(scenario, asked.at[0] if asked.at else rng)
    return place.killed(scenario, asked.at or rng)


if __name__ == "__main__":
    sys.exit(main())
