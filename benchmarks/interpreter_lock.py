"""The share of a worker's time that holds the interpreter lock: `interpreter_lock.py FOLDER ROUNDS`.

py-spy samples zarrlift's threads twice: all that run, then the one that holds the lock. With a share of s,
threads keep 1 / s cores busy, by which `jobs/executors.py` chooses between threads and processes.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from harness import markdown
from workloads import WORKLOADS

RATE = 500
IN_WORKERS = "(zarrlift/transfer/worker.py"
NAMES = ("copy", "shards", "n5 gzip", "n5 zstd", "float", "rechunk")


def seconds(base: Path, source: str, options: list[str], *, locked: bool) -> float:
    """Seconds that workers run, or of them those under the lock."""
    with tempfile.TemporaryDirectory(dir=base) as folder:
        raw = Path(folder, "samples.txt")
        record = ["py-spy", "record", *(["--gil"] if locked else []), "-r", RATE, "-f", "raw", "-o", raw]
        job = ["migrate", base / source, Path(folder, "out.zarr"), "--workers", "2", *options]
        command = [*record, "--", sys.executable, "-m", "zarrlift", *job]
        subprocess.run([str(word) for word in command], check=True, capture_output=True)
        lines = [line.rsplit(" ", 1) for line in raw.read_text().splitlines()]
    return sum(int(count) for stack, count in lines if IN_WORKERS in stack) / RATE


def main(base: Path, rounds: int) -> None:
    """Print the table."""
    table = []
    for work in (work for work in WORKLOADS if work.name in NAMES):
        source, *options = work.what.split()
        words = (sys.executable, Path(__file__).with_name("sources.py"), base, "full" if rounds else "small")
        if not (base / source).exists():
            subprocess.run((*words, source), check=True)
        run, locked = (
            median(seconds(base, source, options, locked=each) for _ in range(max(rounds, 1)))
            for each in (False, True)
        )
        share = locked / run if run else 0
        table.append([work.name, f"{share:.2f}", f"{1 / share:.0f}" if share else ""])
    print(markdown(["", "share under the lock", "threads are enough for, cores"], *table))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
