"""One process of the kill test: eight threads read and write through a cache until they are killed.

Run as `cache_worker.py FOLDER NUMBER BUDGET`. FOLDER holds `below` (a LocalStore), `tier` (the shared disk
tier), `locks` (one file per key) and `board`, mapped into all processes: for each key the last version whose
writing has begun, the last whose writing has ended, then one counter of operations per process, then one
of wrong values. A value tells its key and version, and is a function of them, so that any reader
can say whether it is right: whole, not older than the last write that had ended before the read
began, and not from the future.
"""

from __future__ import annotations

import asyncio
import fcntl
import mmap
import os
import random
import sys
import threading
from pathlib import Path

from zarr.abc.store import RangeByteRequest
from zarr.buffer import cpu, default_buffer_prototype
from zarr.storage import LocalStore

from zarrstack.layers.cache.layer import Cache

KEYS = 40
THREADS = 8
MOST = 6000
"""Bytes of the longest value."""
BEGUN, ENDED, OPERATIONS, WRONG = 0, KEYS, 2 * KEYS, 2 * KEYS + 64
WORDS = WRONG + 1
PROTOTYPE = default_buffer_prototype()


def value(key: int, version: int) -> bytes:
    """What stands in a key at a version."""
    body = random.Random(key * 1_000_003 + version)
    return (
        key.to_bytes(4, "little") + version.to_bytes(8, "little") + body.randbytes(body.randrange(100, MOST))
    )


def board(folder: Path) -> memoryview:
    """The words that all processes share."""
    with (folder / "board").open("r+b") as file:
        return memoryview(mmap.mmap(file.fileno(), WORDS * 8)).cast("Q")


class Worker:
    def __init__(self, folder: Path, number: int, budget: int) -> None:
        self.folder, self.number = folder, number
        self.board = board(folder)
        # Opened before any thread reads: two event loops that open one of zarr's stores at once are refused.
        below = asyncio.run(LocalStore.open(folder / "below"))
        options = {"disk": folder / "tier", "disk_bytes": budget, "when_full": ("evict", "keep")[number % 2]}
        self.cache = Cache(below, memory_bytes=40_000, **options)

    def complain(self, text: str) -> None:
        with (self.folder / "complaints").open("a") as file:
            file.write(text + "\n")
        self.board[WRONG] += 1

    def look(self, key: int, ended: int, got: bytes | None, part: tuple[int, int] | None) -> None:
        begun = self.board[BEGUN + key]
        wanted = [value(key, version) for version in range(ended, begun + 1)]
        if part is not None:
            wanted = [each[part[0] : part[1]] for each in wanted]
        if got not in wanted:
            found = None if got is None else int.from_bytes(got[4:12], "little")
            self.complain(f"key {key}, part {part}: version {found}, wanted {ended} to {begun}")

    async def step(self, chance: random.Random, *, blocking: bool) -> None:
        key = chance.randrange(KEYS)
        name = f"a/c/{key}"
        if chance.random() < 0.2:
            with (self.folder / "locks" / str(key)).open("w") as file:
                fcntl.flock(file, fcntl.LOCK_EX)  # one writer per key, or the order would not be known
                version = self.board[BEGUN + key] + 1
                self.board[BEGUN + key] = version
                data = cpu.Buffer.from_bytes(value(key, version))
                if blocking:
                    self.cache.set_sync(name, data)
                else:
                    await self.cache.set(name, data)
                self.board[ENDED + key] = version
            return
        part = (4, 90) if chance.random() < 0.3 else None
        request = None if part is None else RangeByteRequest(*part)
        ended = self.board[ENDED + key]
        if blocking:
            found = self.cache.get_sync(name, prototype=PROTOTYPE, byte_range=request)
        else:
            found = await self.cache.get(name, PROTOTYPE, request)
        self.look(key, ended, None if found is None else found.to_bytes(), part)

    def thread(self, place: int) -> None:
        chance = random.Random(f"{os.getpid()}-{place}")

        async def body() -> None:
            while True:
                await self.step(chance, blocking=place % 2 == 0)
                self.board[OPERATIONS + self.number * THREADS + place] += 1

        try:
            asyncio.run(body())
        except BaseException as error:
            self.complain(f"a thread ended: {error!r}")
            raise


if __name__ == "__main__":
    worker = Worker(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
    threads = [threading.Thread(target=worker.thread, args=(place,)) for place in range(THREADS)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
