"""An update after 1 % of 100,000 chunks have changed, beside a migration of all of them.

    python benchmarks/update.py [--rounds N] [--chunks N]

Each command runs in its own process, start-up included, and the two alternate; every result is compared with
that of the migration. The update is to take less than a tenth of the processor time of the migration, except
into shards: there the chunks in the last row of shards are read, four times as many as have changed.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import zarr
from numcodecs import Zlib

WISHES: dict[str, list[str]] = {
    "chunks as they are": [],
    "codecs changed": ["--codecs", "zstd:1"],
    "into shards of 256, the last rows": ["--shards", "16,16"],
}


def build(path: Path, chunks: int) -> Path:
    """Chunks of 16 KB, each a file; some hundred different ones, which are enough to read and write."""
    side = round(chunks**0.5)
    root = zarr.open_group(str(path), mode="w", zarr_format=2)
    array = root.create_array(
        "a", shape=(side * 64, side * 64), chunks=(64, 64), dtype="<i4", compressors=Zlib(1)
    )
    array[:64] = np.random.default_rng(0).integers(0, 1 << 10, (64, 64 * side))
    row = [(path / f"a/0.{number}").read_bytes() for number in range(side)]
    for first in range(1, side):
        for second in range(side):
            (path / f"a/{first}.{second}").write_bytes(row[(first + second) % side])
    return path


def change(path: Path, side: int, chance: random.Random, *, rows: bool) -> int:
    """Rewrite 1 % of the chunks with the content of others: any, or whole rows of them."""
    places = [(first, second) for first in range(side) for second in range(side)]
    count = len(places) // 100
    chosen = places[-count:] if rows else chance.sample(places, count)
    for first, second in chosen:
        other = path / f"a/{chance.randrange(side)}.{chance.randrange(side)}"
        (path / f"a/{first}.{second}").write_bytes(other.read_bytes())
    return count


def timed(*words: str | Path) -> tuple[float, float]:
    """(user and system time, wall time) of a command in seconds."""
    started = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "zarrlift", *map(str, words), "--quiet"])
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{words} failed")
    return used.ru_utime + used.ru_stime, time.perf_counter() - started


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--chunks", type=int, default=100_000)
    asked = parser.parse_args()
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"{asked.rounds} rounds"
    )
    holds = True
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        base = Path(folder)
        source = build(base / "source.zarr", asked.chunks)
        for name, options in WISHES.items():
            result, fresh = base / "result.zarr", base / "fresh.zarr"
            timed("migrate", source, result, *options)
            figures: dict[str, list[tuple[float, float]]] = {"migrate": [], "update": []}
            for number in range(asked.rounds):
                rows = "--shards" in options
                count = change(source, round(asked.chunks**0.5), random.Random(number), rows=rows)
                figures["update"].append(timed("update", result))
                figures["migrate"].append(timed("migrate", source, fresh, *options))
                subprocess.run(["diff", "-r", result, fresh], check=True)
                shutil.rmtree(fresh)
                for left in base.glob("fresh.zarr.*"):
                    left.unlink()
            shutil.rmtree(result)
            for left in base.glob("result.zarr.*"):
                left.unlink()
            work = {what: statistics.median(each[0] for each in rounds) for what, rounds in figures.items()}
            wall = {what: statistics.median(each[1] for each in rounds) for what, rounds in figures.items()}
            share = work["update"] / work["migrate"]
            limited = "--shards" not in options
            holds &= share < 0.1 or not limited
            print(f"{name}: {count:,} chunks of {asked.chunks:,}")
            for what in figures:
                print(f"  {what:8}{work[what]:7.2f} s user and system, {wall[what]:7.2f} s wall")
            limit = f", at most 0.1: {'holds' if share < 0.1 else 'BROKEN'}" if limited else ""
            print(f"  {share:.3f} of the migration{limit}")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
