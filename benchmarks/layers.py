"""What each registered layer costs per get and set, over a MemoryStore and a LocalStore; what shards cost.

    python benchmarks/layers.py            prints the tables of overheads
    python benchmarks/layers.py --shards   prints those of writing arrays into shards (shard_writes.py)
    python benchmarks/layers.py --write    puts them into docs/transformers/index.md, or sharding.md, too

One event loop, one operation after the other, values of 4 KiB, each layer with nothing to do but to
let them pass: no errors, no limits reached, every key known to the cache after the first round.
Rounds are interleaved (every layer once, then every layer again). The fastest round counts: what
makes others slower comes from elsewhere. What stands in the table is the difference to the bare
store of the same run. The LocalStore is in a memory file system if there is one.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from shard_writes import shard_tables
from zarr.abc.store import Store
from zarr.core.buffer import cpu, default_buffer_prototype
from zarr.storage import LocalStore, MemoryStore

from zarrstack.base.registry import find, registered
from zarrstack.base.stack import stack
from zarrstack.base.transformer import StorageTransformer
from zarrstack.core.errors import UsageError
from zarrstack.layers.rekey import Prefix

PAGES = Path(__file__).parent.parent / "docs" / "transformers"
START, END = "<!-- figures: benchmarks/layers.py --write -->", "<!-- end of figures -->"
MEMORY = "/dev/shm"
SIZE = 4096
KEYS = 300
ROUNDS = 9
FALLING = ", of what is below"
READING = {"readonly", "overlay" + FALLING}
"""Rows for reading the store below; nothing is written through the layer."""
PROTOTYPE = default_buffer_prototype()


def variants(kind: str, folder: Path) -> dict[str, Callable[[], StorageTransformer]]:
    """A maker for each row: every registered layer, some in more than one way."""
    options: dict[str, dict[str, dict[str, object]]] = {
        "log": {
            ", figures only": {},
            ", a callback": {"callback": id},
            ", JSON lines": {"events": str(folder / "events.jsonl")},
        },
        "overlay": {
            ", of what is written": {"writes": fresh(kind, folder / "upper")},
            FALLING: {"writes": fresh(kind, folder / "upper left empty")},
        },
        "rekey": {", a prefix": {"rules": [Prefix(below="inside")]}},
        "sharding": {", shards of one chunk": {"chunks_per_shard": [1, 1], "path": "a"}},
        "throttle": {
            ", in flight": {"in_flight": 64},
            ", all limits": {"bytes_per_second": "1TB/s", "requests_per_second": 1e9, "in_flight": 64},
        },
    }
    return {
        layer.name + note: lambda name=layer.name, given=given: find(name)(None, **given)
        for layer in registered()
        if layer.problem is None
        for note, given in options.get(layer.name, {"": {}}).items()
    }


def fresh(kind: str, place: Path) -> Store:
    """An empty store of a kind."""
    shutil.rmtree(place, ignore_errors=True)
    return MemoryStore() if kind == "MemoryStore" else LocalStore(place)


@dataclass(slots=True)
class Row:
    """Microseconds per operation, one figure a round."""

    get: list[float] = field(default_factory=list)
    set: list[float] = field(default_factory=list)


async def work(store: Store, keys: list[str]) -> tuple[float, float]:
    """Microseconds per set and per get."""
    value = cpu.Buffer.from_bytes(os.urandom(SIZE))
    began = time.perf_counter()
    for key in keys:
        await store.set(key, value)
    middle = time.perf_counter()
    for key in keys:
        await store.get(key, PROTOTYPE)
    ended = time.perf_counter()
    return (middle - began) / len(keys) * 1e6, (ended - middle) / len(keys) * 1e6


def measure(kind: str, folder: Path, rounds: int) -> tuple[dict[str, Row], dict[str, str]]:
    """Rows by name, the bare store first, and why some layers are missing."""
    keys = [f"a/c/{number // 20}/{number % 20}" for number in range(KEYS)]
    rows: dict[str, Row] = {}
    missing: dict[str, str] = {}
    for number in range(rounds + 1):
        # Layers are created for each round, as their stores are.
        for name, make in {"bare store": None, **variants(kind, folder)}.items():
            store = fresh(kind, folder / "store")
            try:
                whole = store if make is None else stack(store, make())
            except (UsageError, TypeError) as error:
                missing[name] = str(error)
                continue
            if name in READING:
                asyncio.run(work(store, keys))
                put, got = float("nan"), asyncio.run(reading(whole, keys))
            else:
                put, got = asyncio.run(work(whole, keys))
            if number:
                rows.setdefault(name, Row()).get.append(got)
                rows[name].set.append(put)
            whole.close()
    return rows, missing


async def reading(store: Store, keys: list[str]) -> float:
    """Microseconds per get."""
    began = time.perf_counter()
    for key in keys:
        await store.get(key, PROTOTYPE)
    return (time.perf_counter() - began) / len(keys) * 1e6


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def file_system(path: Path) -> str:
    try:
        mounts = [line.split() for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines()]
    except OSError:
        return "unknown file system"
    inside = [mount for mount in mounts if path.resolve().is_relative_to(mount[1])]
    return max(inside, key=lambda mount: len(mount[1]))[2]


def tables(rounds: int) -> str:
    """The circumstances, and a table of overheads."""
    with tempfile.TemporaryDirectory(dir=MEMORY if os.path.isdir(MEMORY) else None) as name:
        folder = Path(name)
        found = {kind: measure(kind, folder, rounds) for kind in ("MemoryStore", "LocalStore")}
        place = file_system(folder)
    names = list(found["MemoryStore"][0])
    bare = {
        (kind, call): min(getattr(rows["bare store"], call))
        for kind, (rows, _) in found.items()
        for call in ("get", "set")
    }
    circumstances = (
        f"{processor()}, {os.cpu_count()} cores, {platform.system()}; LocalStore on {place}; "
        f"Python {platform.python_version()}, zarr {version('zarr')}, crc32c {version('crc32c')}; "
        f"{KEYS} values of {SIZE} bytes, fastest of {rounds} rounds, {time.strftime('%Y-%m-%d')}."
    )
    lines = [
        circumstances,
        "",
        "| microseconds per call | MemoryStore get | MemoryStore set | LocalStore get | LocalStore set |",
        "| --- | --- | --- | --- | --- |",
    ]
    for row in names:
        cells = []
        for kind, (rows, _) in found.items():
            for call in ("get", "set"):
                figure = min(getattr(rows[row], call)) if row in rows else float("nan")
                own = figure if row == "bare store" else figure - bare[kind, call]
                sign = "" if row == "bare store" else "+" if own >= 0 else "-"
                cells.append("" if own != own else f"{sign}{abs(own):.1f}")  # noqa: PLR0124 NaN
        lines.append(f"| {row} | {' | '.join(cells)} |")
    reasons = {name: why for _, missing in found.values() for name, why in missing.items()}
    lines += [f"\nNot measured: {name} ({why})" for name, why in reasons.items()]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="put the figures into the page")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--shards", action="store_true", help="write arrays into shards")
    parser.add_argument("--disk", type=Path, default=Path(tempfile.gettempdir()), help="folder of the shards")
    options = parser.parse_args()
    if options.shards:
        page = PAGES / "sharding.md"
        machine = f"{processor()}, {os.cpu_count()} cores, {platform.system()}"
        machine += f"; LocalStore on {file_system(options.disk)}"
        text = shard_tables(min(options.rounds, 5), machine, options.disk)
    else:
        page, text = PAGES / "index.md", tables(options.rounds)
    print(text)
    if options.write:
        whole = page.read_text(encoding="utf-8")
        start = START.replace("--write", "--shards --write") if options.shards else START
        if start not in whole or END not in whole:
            sys.exit(f"{page} has no place for the figures: a line {start} and a line {END}")
        before, after = whole.partition(start)[0], whole.partition(END)[2]
        page.write_text(f"{before}{start}\n{text}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
