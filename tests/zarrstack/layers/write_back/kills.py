"""Kills a process that writes shards, with write-back or not, and checks what it leaves.

    python tests/zarrstack/layers/write_back/kills.py --runs 200 --seed 1

A forked child writes chunks in random order through 10 tasks, flushes now and then, and reports both. It is
killed after a drawn number of reports, while it goes on writing. Then every shard must be complete, every
chunk must have a value that was written, and none an older one than a flush (without write-back, a returned
`set`) reported as stored.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import shutil
import signal
import struct
import sys
import tempfile
from pathlib import Path

from zarr.abc.store import Store
from zarr.buffer import cpu, default_buffer_prototype
from zarr.storage import LocalStore

from zarrstack import Sharding, WriteBack, stack

CHUNKS = 48
PER_SHARD = 8
BUDGETS = (None, "60kB", "1MB")
"""Without write-back, with a budget that is often full, and with room for all shards."""


def sharded(folder: Path, budget: str | None) -> Store:
    """A folder below a sharding layer, with `WriteBack` above if there is a budget."""
    above = [] if budget is None else [WriteBack(memory_bytes=budget)]
    return stack(LocalStore(folder), *above, Sharding(chunks_per_shard=[PER_SHARD], path="a"))


def write(folder: Path, out: int, rng: random.Random, budget: str | None) -> None:
    """Write chunks until killed.

    A report is a letter (s: set begins, d: it has returned, f: flushed), a chunk and its version.
    """
    store = sharded(folder, budget)
    versions = dict.fromkeys(range(CHUNKS), 0)

    def report(letter: bytes, chunk: int, version: int) -> None:
        os.write(out, struct.pack("<cII", letter, chunk, version))

    async def change(chunk: int) -> None:
        versions[chunk] += 1
        version = versions[chunk]
        report(b"s", chunk, version)
        await store.set(f"a/c/{chunk}", cpu.Buffer.from_bytes(value(chunk, version)))
        report(b"d", chunk, version)

    async def run() -> None:
        while True:
            for _ in range(rng.randrange(1, 5)):
                # Chunks of one round differ, so that their versions are stored in order.
                await asyncio.gather(*(change(chunk) for chunk in rng.sample(range(CHUNKS), 10)))
            before = versions.copy()
            if budget is not None:
                await store.flush()
            for chunk, version in before.items():
                report(b"f", chunk, version)

    asyncio.run(run())


def value(chunk: int, version: int) -> bytes:
    """Bytes that name their chunk and version from the first to the last."""
    return struct.pack("<II", chunk, version) * (100 + (chunk * 7 + version) % 150)


def one_life(seed: int) -> list[str]:
    """Write, kill and check; what was wrong."""
    rng = random.Random(seed)
    budget = rng.choice(BUDGETS)
    reports = rng.randrange(1, 1500)
    folder = Path(tempfile.mkdtemp(prefix="kills-"))
    try:
        written, stored = _until_killed(folder, rng, budget, reports)
        problems = asyncio.run(_check(folder, written, stored))
    finally:
        shutil.rmtree(folder)
    return [f"seed {seed}, budget {budget}: {problem}" for problem in problems]


def _until_killed(
    folder: Path, rng: random.Random, budget: str | None, reports: int
) -> tuple[dict[int, int], dict[int, int]]:
    """The last version of each chunk that may have been stored, and the last that must have been."""
    source, target = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(source)
            write(folder, target, rng, budget)
        finally:
            os._exit(3)
    os.close(target)
    written, stored = dict.fromkeys(range(CHUNKS), 0), dict.fromkeys(range(CHUNKS), 0)
    size = struct.calcsize("<cII")
    with os.fdopen(source, "rb") as file:
        count = 0
        while record := file.read(size):
            letter, chunk, version = struct.unpack("<cII", record)
            if letter == b"s":
                written[chunk] = max(written[chunk], version)
            elif letter == b"f" or budget is None:
                stored[chunk] = max(stored[chunk], version)
            count += 1
            if count == reports:
                os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status), f"the writer ended with status {status}"
    return written, stored


async def _check(folder: Path, written: dict[int, int], stored: dict[int, int]) -> list[str]:
    store = sharded(folder, None)
    problems = []
    for chunk in range(CHUNKS):
        try:
            found = await store.get(f"a/c/{chunk}", default_buffer_prototype())
        except Exception as error:  # noqa: BLE001 - reported
            problems.append(f"chunk {chunk} cannot be read: {error}")
            continue
        data = b"" if found is None else found.to_bytes()
        version = struct.unpack_from("<II", data)[1] if data else 0
        if data and data != value(chunk, version):
            problems.append(f"chunk {chunk} is torn")
        if not stored[chunk] <= version <= written[chunk]:
            problems.append(f"chunk {chunk}: {stored[chunk]} was stored, {version} is there")
    return problems


def main() -> int:
    """Run lives and print what was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args()
    problems = []
    for seed in range(options.seed, options.seed + options.runs):
        problems += (found := one_life(seed))
        for problem in found:
            print(problem, flush=True)
    print(f"{options.runs} kills from seed {options.seed}: {len(problems)} problems")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
