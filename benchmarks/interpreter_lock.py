"""The share of a worker's time that holds the interpreter lock, for workloads of `peers` that use threads.

    python benchmarks/interpreter_lock.py SOURCES [--py-spy PROGRAM] [--only copy,...]

SOURCES is a folder that `peers_sources.py` has filled. py-spy (a package) samples zarrlift's own threads
twice: all that run, then the one that holds the lock. With a share of s, threads can keep at most 1 / s cores
busy; `jobs/processes/executors.py` chooses between threads and processes by these shares.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from main_job import machine
from workloads import WORKLOADS, Workload

RATE = 500
ROUNDS = 3
IN_WORKERS = "(zarrlift/transfer/worker.py"
CORES = (8, 32, 64)


def seconds(py_spy: str, base: Path, work: Workload, *, locked: bool) -> float:
    """Seconds that workers run, or of them those under the lock."""
    with tempfile.TemporaryDirectory(dir=base) as folder:
        raw = Path(folder, "samples.txt")
        record = [py_spy, "record", *(["--gil"] if locked else []), "-r", str(RATE), "-f", "raw", "-o", raw]
        job = ["migrate", base / work.source, Path(folder, "out.zarr"), "--workers", "2", *work.options]
        command = [*record, "--", sys.executable, "-m", "zarrlift", *job]
        subprocess.run([str(word) for word in command], check=True, capture_output=True)
        lines = [line.rsplit(" ", 1) for line in raw.read_text().splitlines()]
    return sum(int(count) for stack, count in lines if IN_WORKERS in stack) / RATE


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sources", type=Path)
    parser.add_argument("--py-spy", default="py-spy")
    parser.add_argument("--only", type=lambda text: text.split(","))
    asked = parser.parse_args()
    print(machine())
    print(f"{'':10} {'run':>7} {'locked':>7} {'share':>6}   cores that threads can use of {CORES}")
    for work in WORKLOADS:
        if work.name.startswith("tiny") or (asked.only and work.name not in asked.only):
            continue  # tiny chunks are moved by processes
        run, locked = (
            median(seconds(asked.py_spy, asked.sources, work, locked=each) for _ in range(ROUNDS))
            for each in (False, True)
        )
        share = locked / run
        used = ", ".join(f"{min(cores, 1 / share):.0f}" for cores in CORES)
        print(f"{work.name:10} {run:6.2f}s {locked:6.2f}s {share:6.2f}   {used}")


if __name__ == "__main__":
    main()
