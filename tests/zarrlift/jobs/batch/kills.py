"""Kill a batch of many archives at random moments, resume it each time, and compare the trees.

    python tests/zarrlift/jobs/batch/kills.py [--archives 1000] [--broken 50] [--kills 20] [--seed N]

The batch is killed with SIGKILL until it has been killed often enough; the next run resumes it. The exit code
is 1 if any result differs from that of a batch that was not disturbed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[4]))

from tests.support.job_archives import results, write_many

ZARRLIFT = (sys.executable, "-m", "zarrlift", "batch")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--archives", type=int, default=1000)
    parser.add_argument("--broken", type=int, default=50)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 32))
    asked = parser.parse_args()
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(
        prefix="zarrlift-kills-", dir=memory if memory.is_dir() else None
    ) as home:
        os.chdir(home)
        write_many(Path("old"), asked.archives, asked.broken)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        started = time.monotonic()
        _run("calm").wait()
        seconds = time.monotonic() - started
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
        print(f"calm: {_counts('calm')}, {spent:.1f} s of processor time", flush=True)
        rng = random.Random(asked.seed)
        print(f"seed {asked.seed}")
        kills = 0
        while True:
            process = _run("killed")
            try:
                process.wait(
                    rng.uniform(0.5, 2 * seconds / max(asked.kills, 1)) if kills < asked.kills else None
                )
                break
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                kills += 1
        same = results(Path("calm")) == results(Path("killed"))
        left = [path for path in Path("killed").rglob("*") if path.name.endswith((".claim", ".partial"))]
        print(f"{kills} kills: {_counts('killed')}, {'the same trees' if same else 'OTHER TREES'}")
        return 0 if same and not left and _counts("calm") == _counts("killed") else 1


def _run(name: str) -> subprocess.Popen[bytes]:
    words = (*ZARRLIFT, "run", "old", "--to", f"{name}/{{relative}}.zarr")
    quiet = subprocess.DEVNULL
    return subprocess.Popen(words, stdout=quiet, stderr=quiet, start_new_session=True)


def _counts(name: str) -> dict[str, int]:
    said = subprocess.run((*ZARRLIFT[:-1], "status", name, "--json"), stdout=subprocess.PIPE, check=False)
    counts: dict[str, int] = json.loads(said.stdout)["result"]["counts"]
    return counts


if __name__ == "__main__":
    sys.exit(main())
