"""One cache folder shared by processes: bytes on disk, latency of sets, and processor time per operation.

    python tests/zarrstack/layers/cache/shared_folder.py [--processes 8] [--seconds 10] [--slow-reader] ...

Each process sets values of 3.3 KB, 65 KB and 400 KB through a `Cache` over a MemoryStore, and reads two
earlier ones after each. Together they write far more than the limit. Printed are the largest sum of the sizes
of all files in the folder, the latencies of all sets, and hits. With `--slow-reader`, another process keeps
every file open that it finds, as a program does that reads them slowly.
Before that, the disk tier alone, in one process: microseconds of processor time of a write, a read, and a
write over an existing record, of the look whether a value is valid, and of the record of a change.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from zarr.buffer import cpu, default_buffer_prototype
from zarr.storage import MemoryStore

from zarrstack.layers.cache.folder_tier import LocalTier
from zarrstack.layers.cache.layer import Cache
from zarrstack.layers.cache.record import CachedValue

SIZES = (3300, 3300, 3300, 65_000, 65_000, 400_000)
PROTOTYPE = default_buffer_prototype()


def files(folder: Path) -> list[str]:
    return [os.path.join(root, name) for root, _, names in os.walk(folder) for name in names]


def size(folder: Path) -> int:
    total = 0
    for path in files(folder):
        try:
            total += os.stat(path).st_size
        except FileNotFoundError:
            continue
    return total


async def work(folder: Path, number: int, limit: int, seconds: float) -> None:
    cache = Cache(MemoryStore(), memory_bytes=0, disk=folder, disk_bytes=limit, source="x")
    chance, latencies, end = random.Random(number), [], time.monotonic() + seconds
    while time.monotonic() < end:
        data = cpu.Buffer.from_bytes(chance.randbytes(chance.choice(SIZES)))
        started = time.perf_counter()
        await cache.set(f"a/{number}/{len(latencies)}", data)
        latencies.append(time.perf_counter() - started)
        for _ in range(2):
            await cache.get(f"a/{number}/{chance.randrange(len(latencies))}", PROTOTYPE)
    figures = cache.figures()
    print(json.dumps({"latencies": latencies, "hits": figures.hits, "misses": figures.misses}))


def hold_open(folder: Path) -> None:
    held: dict[str, int] = {}
    while len(held) < 500:
        for path in files(folder):
            if path not in held:
                try:
                    held[path] = os.open(path, os.O_RDONLY)
                except FileNotFoundError:
                    continue
        time.sleep(0.1)
    time.sleep(3600)


def measure_processes(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "tier"

        def start(*words: object) -> subprocess.Popen[str]:
            command = [sys.executable, __file__, "--folder", folder, "--limit", options.limit, *words]
            return subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True)

        numbers = range(options.processes)
        workers = [start("--work", number, "--seconds", options.seconds) for number in numbers]
        slow = start("--slow-reader") if options.slow_reader else None
        most = 0
        while any(worker.poll() is None for worker in workers):
            most = max(most, size(folder))
            time.sleep(0.02)
        results = [json.loads(worker.communicate()[0]) for worker in workers]
        if slow is not None:
            slow.kill()
            slow.wait()
    times = sorted(each for result in results for each in result["latencies"])
    hits, misses = (sum(result[name] for result in results) for name in ("hits", "misses"))
    shares = ", ".join(f"p{100 * part:g} {1e3 * times[int(part * len(times))]:.1f}" for part in (0.5, 0.99))
    print(f"{options.processes} processes: at most {most / options.limit:.3f} of the limit on disk")
    print(f"{len(times)} sets, ms: {shares}, longest {1e3 * times[-1]:.1f}; {hits} hits, {misses} misses")


def measure_tier() -> None:
    with tempfile.TemporaryDirectory() as folder:
        tier = LocalTier(folder + "/tier", 2**30, "x")
        place = tier.versions.place("a/b/c/1")
        assert place is not None

        def change(_: int) -> None:
            place.end(place.begin())

        print(f"look {spent(lambda _: place.stamp(), 5000):.1f}, change {spent(change, 2000):.1f}")
        for length, count in ((3300, 1000), (65_000, 500), (1_000_000, 50)):
            value = CachedValue(os.urandom(length), 0.0, 5)

            def write(number: int, value: CachedValue = value) -> None:
                tier.write(f"{value.size}/{number}", None, value)

            def read(number: int, value: CachedValue = value) -> None:
                tier.read(f"{value.size}/{number}", None, None)

            each = [f"{spent(act, count):.0f}" for act in (write, read, write)]
            print(f"{length} bytes: write {each[0]}, read {each[1]}, write again {each[2]}")
        tier.close()


def spent(act: Callable[[int], object], count: int) -> float:
    started = time.process_time()
    for number in range(count):
        act(number)
    return (time.process_time() - started) / count * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--limit", type=int, default=50_000_000)
    parser.add_argument("--slow-reader", action="store_true")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--work", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work is not None:
        asyncio.run(work(options.folder, options.work, options.limit, options.seconds))
    elif options.folder is not None:
        hold_open(options.folder)
    else:
        measure_tier()
        measure_processes(options)


if __name__ == "__main__":
    main()
